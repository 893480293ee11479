// Package e2e holds tests, and nothing else, that run the product as a user
// does: the real `poolwright run` as a child process, between a real Git server
// and a real API server, with faults on both sides. Most of them prove the Git
// loop and keep the engine off; those in engine_*_test.go have environments of their
// own where it runs, with faults of AWS besides, and run the demo.
//
// It refuses to use anything internal: everything is observed through the API server,
// AWS's journal, the exit codes and the log. Start reading at fixture, in
// fixture_test.go, then at the suite of a topic, such as syncFixture or engineSuite.
package e2e
