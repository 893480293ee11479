package declared

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/internal/golden"
)

// describe writes everything that a folder declares.
func describe(t *testing.T, d Declared) string {
	t.Helper()
	var b strings.Builder
	for _, i := range d.Set.Items() {
		object, err := json.Marshal(i.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n  version %s, from %s\n  %s\n", i.Key, i.Version, i.Origin, object)
	}
	for _, p := range d.Problems {
		fmt.Fprintf(&b, "PROBLEM %s\n", p)
	}
	return b.String()
}

func TestTreesDeclareWhatTheirGoldenFileHas(t *testing.T) {
	cases, err := filepath.Glob("testdata/*/tree")
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases: ", err)
	}
	for _, tree := range cases {
		folder := filepath.Dir(tree)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			d, err := Load(os.DirFS(tree), "app", Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := describe(t, d)
			if again, _ := Load(os.DirFS(tree), "./app/", Options{}); describe(t, again) != got {
				t.Error("a second load gives something else")
			}
			golden.Compare(t, filepath.Join(folder, "golden.txt"), got)
		})
	}
}
