package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// What all tests share; each has namespaces, a repository, a Sync and a
// controller of its own.
var (
	sharedEnv *sandbox.Environment
	// binary is the product, built from this very tree.
	binary string
	// hand is a person with kubectl: the administrator, without any cache.
	hand client.WithWatch
)

// together is how many tests run at a time. Most have a sandbox of their own; they wait for
// intervals more than they work, but more of them starve each other on two cores.
const together = "4"

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	dir, err := os.MkdirTemp("", "poolwright-e2e-")
	if !chosen {
		err = errors.Join(err, flag.Set("test.parallel", together))
	}
	if err == nil {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		err = prepare(dir)
	}
	if sharedEnv != nil {
		defer func() {
			if err := sharedEnv.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// prepare builds the product while the environment starts. The limit covers a first
// build of everything on a small machine.
func prepare(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute)
	defer cancel()
	built := make(chan error, 1)
	go func() { built <- build(ctx, dir) }()
	config := sandbox.DefaultConfig()
	config.Progress = os.Stderr
	var err error
	sharedEnv, err = sandbox.Start(ctx, config)
	if err = errors.Join(err, <-built); err != nil {
		return err
	}
	err = errors.Join(v1alpha1.AddToScheme(clientgoscheme.Scheme))
	if err != nil {
		return err
	}
	hand, err = client.NewWithWatch(sharedEnv.REST(), client.Options{Scheme: clientgoscheme.Scheme})
	return err
}

func build(ctx context.Context, dir string) error {
	binary = filepath.Join(dir, "poolwright")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", binary, "./cmd/poolwright")
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building poolwright: %w\n%s", err, out)
	}
	return nil
}
