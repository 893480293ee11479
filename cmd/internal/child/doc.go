// Package child does in another process what must not hurt this one: rendering
// what somebody proposes, and running Karpenter's code on it.
//
// A Runner starts this very program anew, with the hidden command "child": without
// an environment, with no file but its three streams, limited in memory and
// processor time, ended at a deadline and with its parent. It is the only program
// that is ever started. The child limits itself (package confine) before it reads
// anything, then reads from its standard input what to do, requests the files of the
// tree that it needs, and returns its result on its standard output, in frames. Its
// result, and what it writes when it breaks, is not trusted: it is bounded, and texts
// are passed on as they are; whoever shows them must escape them.
//
// It refuses everything but its two verbs, and holds no credentials that it could
// give on. Start reading at Runner.
package child
