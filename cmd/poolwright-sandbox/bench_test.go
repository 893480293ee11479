package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/benchmark"
)

func TestARunGoesOnWithTheResultsOfTheSameVersions(t *testing.T) {
	results, page := filepath.Join(t.TempDir(), "results.json"), filepath.Join(t.TempDir(), "page.md")
	measured := &benchCommand{versions: "v1", results: results, page: page}
	first, err := measured.begun()
	if err != nil || len(first.Comparisons) != 0 {
		t.Fatalf("without results it begins with %v, %v", first, err)
	}
	first.Comparison(200, []benchmark.System{{Name: "Poolwright"}}).Load = []float64{0.5}
	if err := measured.write(first); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(page); err != nil {
		t.Error(err)
	}
	second, err := (&benchCommand{versions: "v1", results: results}).begun()
	if err != nil || len(second.Comparisons) != 1 || second.Versions != "v1" || second.Head == "" {
		t.Errorf("with results of the same versions it begins with %v, %v", second, err)
	}
	if page, err := (&benchCommand{versions: "v2", results: results}).begun(); err == nil {
		t.Errorf("with results of other versions, which it would replace, it begins with %v", page)
	}
	if err := os.WriteFile(results, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := measured.begun(); err == nil {
		t.Error("results that are broken off were read")
	}
}

func TestARunDoesNotBeginOnABusyMachine(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "poolwright")
	if err := os.WriteFile(binary, nil, 0o700); err != nil { //nolint:gosec // It stands for a program.
		t.Fatal(err)
	}
	cmd := newBench()
	// No machine that runs this test is as idle.
	cmd.SetArgs([]string{"--poolwright", binary, "--max-load=0.0000001", "--objects=0"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if average, err := benchmark.Load(); err != nil || average == 0 {
		t.Skip("this machine reports no load")
	}
	if err := cmd.ExecuteContext(t.Context()); err == nil {
		t.Error("it began")
	}
}
