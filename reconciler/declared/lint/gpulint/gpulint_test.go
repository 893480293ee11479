package gpulint_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint/gpulint"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func types(t testing.TB) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// check writes the findings about one file, called app/objects.yaml.
func check(t testing.TB, c *catalog.Catalog, content string) string {
	t.Helper()
	d, err := declared.Load(fstest.MapFS{"app/objects.yaml": {Data: []byte(content)}}, "app", declared.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Problems {
		t.Errorf("the sample has a mistake of its own: %s", p)
	}
	var b strings.Builder
	for _, f := range gpulint.Check(d, c) {
		kind := "MISTAKE"
		if f.Advice {
			kind = "ADVICE"
		}
		fmt.Fprintf(&b, "%s %s\n", kind, f.Problem())
	}
	return b.String()
}

func TestBadSamplesGiveTheFindingsOfTheirGoldens(t *testing.T) {
	samples, err := filepath.Glob("testdata/*-bad.yaml")
	if err != nil || len(samples) == 0 {
		t.Fatal("no samples: ", err)
	}
	c := types(t)
	for _, sample := range samples {
		t.Run(strings.TrimSuffix(filepath.Base(sample), ".yaml"), func(t *testing.T) {
			content, err := os.ReadFile(sample)
			if err != nil {
				t.Fatal(err)
			}
			got, golden := check(t, c, string(content)), strings.TrimSuffix(sample, ".yaml")+".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" || got == "" {
				t.Errorf("if that is meant run go test ./reconciler/declared/lint/gpulint -update (-golden +found):\n%s", diff)
			}
			if again := check(t, c, string(content)); again != got {
				t.Errorf("a second look finds something else:\n%s", cmp.Diff(got, again))
			}
		})
	}
}

func TestGoodSamplesGiveNone(t *testing.T) {
	samples, err := filepath.Glob("testdata/*-good.yaml")
	if err != nil || len(samples) == 0 {
		t.Fatal("no samples: ", err)
	}
	c := types(t)
	for _, sample := range samples {
		t.Run(strings.TrimSuffix(filepath.Base(sample), ".yaml"), func(t *testing.T) {
			content, err := os.ReadFile(sample)
			if err != nil {
				t.Fatal(err)
			}
			if got := check(t, c, string(content)); got != "" {
				t.Error(got)
			}
		})
	}
}
