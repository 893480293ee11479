package aws

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/provision/sandbox"
)

// apiserver is the API server that keeps the inventories of this package's tests.
// It is started by the first that needs it; each has namespaces of its own.
type apiserver struct {
	once   sync.Once
	target *sandbox.Environment
	err    error
}

var inventories apiserver

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if inventories.target != nil {
		_ = inventories.target.Stop()
	}
	os.Exit(code)
}

// apiServer reaches the shared API server.
func apiServer(t *testing.T) *rest.Config {
	t.Helper()
	inventories.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
		_ = cancel // the target lives as long as ctx, and both as long as the process
		config := sandbox.DefaultConfig()
		config.WithoutGit, config.Progress = true, os.Stderr
		inventories.target, inventories.err = sandbox.Start(ctx, config)
	})
	if inventories.err != nil {
		t.Fatal(fmt.Errorf("starting the API server for the inventory: %w", inventories.err))
	}
	return inventories.target.REST()
}
