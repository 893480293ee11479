// Package examples_test renders every example and holds it against a golden
// plan: what a fresh cluster would get from it.
package examples_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource/dir"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestEveryClusterOfEveryExamplePlansAsItsGolden(t *testing.T) {
	folders, err := filepath.Glob("*/clusters/*")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob("*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(examples) == 0 || len(folders) < len(examples) {
		t.Fatalf("%d examples have %d clusters: each needs a folder clusters/<name>", len(examples), len(folders))
	}
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) { compare(t, folder) })
	}
}

func compare(t *testing.T, folder string) {
	repository := filepath.Dir(filepath.Dir(folder))
	path, err := filepath.Rel(repository, folder)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := dir.New(repository, dir.Limits{}).Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, err := declared.Load(snapshot.FS, filepath.ToSlash(path), declared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range d.Problems {
		t.Errorf("the example has a mistake: %s", problem)
	}
	wanted, problems := deviceplugin.Expand(d.Set)
	for _, problem := range problems {
		t.Errorf("the example has a mistake: %s", problem)
	}
	var got bytes.Buffer
	fresh := plan.Compute(wanted, state.Set{})
	if err := report.New(fresh, d.Problems).Text(&got, report.Options{Lines: -1}); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", repository, filepath.Base(folder)+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("the example plans otherwise than its golden; if that is meant run go test ./examples -update (-golden +plan):\n%s", diff)
	}
}
