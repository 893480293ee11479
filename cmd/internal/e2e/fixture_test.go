package e2e

import (
	"context"
	"testing"
	"time"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// fixture is what every suite is built on: a test, a sandbox and a client of its API server.
// What a suite starts there is its own. A subtest has a copy with its own T, see the in of
// each suite.
type fixture struct {
	*testing.T
	*sandbox.Environment
	// hand is the client of a person who may do everything.
	hand client.WithWatch
}

// newFixture connects to a sandbox.
func newFixture(t *testing.T, started *sandbox.Environment) fixture {
	t.Helper()
	hand, err := client.NewWithWatch(started.REST(), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return fixture{t, started, hand}
}

// waitUntil calls check at the interval until it returns nil, for at most limit. It fails the
// test at once where the newest process of the product ends, if there is one, or the sandbox.
func (f fixture) waitUntil(product func() *process.Process, interval, limit time.Duration, what string, check func() error) {
	f.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		var ended <-chan struct{}
		newest := product()
		if newest != nil {
			ended = newest.Done()
		}
		select {
		case <-tick.C:
		case <-ended:
			f.Fatalf("%s: the controller ended: %v", what, newest.Err())
		case <-f.Environment.Done():
			f.Fatalf("%s: %v", what, f.Environment.Err())
		case <-f.Context().Done():
			f.Fatalf("%s: %v", what, context.Cause(f.Context()))
		case <-deadline:
			log := "no controller was started"
			if newest != nil {
				log = logTail(newest.Log())
			}
			f.Fatalf("waited %s in vain until %s: %v\n%s", limit, what, err, log)
		}
	}
}
