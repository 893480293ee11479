// Package e2e holds tests, and nothing else, that run the product as a user
// does: the real `poolwright run` as a child process, between a real Git server
// and a real API server, with faults on both sides. The engine stays off: what
// is proven here is the Git loop.
//
// It refuses to look inside: everything is seen through the API server, the
// exit codes and the log. Start reading at stage, in stage_test.go.
package e2e
