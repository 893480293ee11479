package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// program writes a script that stands for poolwright.
func program(t *testing.T, script string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "poolwright")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestThePageIsServedForTheSandboxUntilItEnds(t *testing.T) {
	t.Setenv("KUBECONFIG", "/another/cluster")
	ctx, cancel := context.WithCancel(t.Context())
	var progress strings.Builder
	address, wait, err := startPage(ctx, &progress, program(t, `trap 'echo ended >&2; exit 0' INT; echo "http://127.0.0.1:1/$1$KUBECONFIG"; while :; do sleep 0.01; done`), "/sandbox")
	if err != nil || address != "http://127.0.0.1:1/ui/sandbox" {
		t.Fatalf("the address is %q: %v", address, err)
	}
	cancel()
	_ = wait() // That of a context which has ended.
	if !strings.Contains(progress.String(), "ended") {
		t.Errorf("it was not interrupted: %s", progress.String())
	}
}

func TestAPageThatCannotBeServedIsAnError(t *testing.T) {
	for name, product := range map[string]string{"it ends": program(t, "exit 3"), "there is none": "/nothing/poolwright"} {
		if address, _, err := startPage(t.Context(), &strings.Builder{}, product, "/sandbox"); err == nil {
			t.Errorf("%s: %q", name, address)
		}
	}
}

func TestTheLastLineOfTheDemoNamesThePage(t *testing.T) {
	for name, c := range map[string]struct {
		of   demoCommand
		want string
	}{
		"as text":       {demoCommand{output: "text"}, "make demo ARGS=--ui"},
		"as JSON":       {demoCommand{output: "json"}, ""},
		"which is kept": {demoCommand{output: "text", keep: true}, ""},
	} {
		if got := c.of.hint(); got != "" != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
