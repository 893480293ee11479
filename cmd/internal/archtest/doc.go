// Package archtest holds tests, and nothing else, that keep the shape of the
// whole repository: which package may import which, how big things may grow,
// what must not be written outside main, and that everything has its comment.
//
// A finding is mended where it is found, or the rule is changed here for all. What a rule cannot compute,
// such as which texts are those of others, is a table beside it, with the reason. What is over a limit
// since before the limit was made is recorded in testdata/ratchet.txt, and may only fall. Start reading at rules, in rules_test.go,
// then at ratchets.
package archtest
