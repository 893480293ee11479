// Package sandboxtest starts a sandbox for a test.
package sandboxtest

import (
	"context"
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox"
)

// Start starts a sandbox, which stops when the test ends. It waits as long as a first
// build of the sandbox's programs takes.
func Start(t testing.TB, config sandbox.Config) *sandbox.Environment {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	started, err := sandbox.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Stop(); err != nil {
			t.Error(err)
		}
	})
	return started
}
