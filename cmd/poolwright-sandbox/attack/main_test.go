package attack

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/poolwright/poolwright/cmd/internal/child"
)

// TestMain runs as the process of a trial, or its child, where the test binary was started as
// one.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) == 5 && os.Args[1] == "child":
		if err = child.Confine(os.Args[3], os.Args[4]); err == nil {
			err = child.Serve(context.Background(), os.Args[2], os.Stdin, os.Stdout)
		}
	case len(os.Args) == 2 && os.Args[1] == "trial":
		err = Serve(context.Background(), os.Stdin, os.Stdout)
	default:
		flag.Parse()
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(2)
	}
	os.Exit(0)
}

// self starts this test binary for each trial.
func self(tb testing.TB) Process {
	tb.Helper()
	path, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return Process{Path: path, Args: []string{"trial"}}
}
