package conversion_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/reconciler/declared/conversion"
)

// Each folder of testdata holds a repository as it was written (in), as it is
// converted (want: the files that change), and the report.
func TestRepositoriesAreConvertedAsTheirGoldens(t *testing.T) {
	folders, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if !folder.IsDir() || folder.Name() == "fuzz" {
			continue
		}
		t.Run(folder.Name(), func(t *testing.T) {
			base := filepath.Join("testdata", folder.Name())
			r, err := conversion.Files(os.DirFS(filepath.Join(base, "in")), ".", conversion.Options{})
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join(base, "report.golden"), report(r))
			for _, name := range slices.Sorted(maps.Keys(r.Files)) {
				golden.Compare(t, filepath.Join(base, "want", filepath.FromSlash(name)), string(r.Files[name]))
			}
			var want []string
			if err := fs.WalkDir(os.DirFS(filepath.Join(base, "want")), ".", func(name string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					want = append(want, name)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(r.Files))); diff != "" {
				t.Errorf("files that change (-want +got):\n%s", diff)
			}
			unchangedBySecond(t, os.DirFS(filepath.Join(base, "in")), r)
		})
	}
}

func report(r conversion.Result) string {
	var b strings.Builder
	for _, c := range r.Changes {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

// unchangedBySecond converts what a conversion left.
func unchangedBySecond(t *testing.T, before fs.FS, r conversion.Result) {
	t.Helper()
	after := fstest.MapFS{}
	if err := fs.WalkDir(before, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			content, readErr := fs.ReadFile(before, name)
			after[name], err = &fstest.MapFile{Data: content}, readErr
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for name, content := range r.Files {
		after[name] = &fstest.MapFile{Data: content}
	}
	again, err := conversion.Files(after, ".", conversion.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name := range again.Files {
		t.Errorf("a second conversion changes %s (-first +second):\n%s", name, cmp.Diff(string(after[name].Data), string(again.Files[name])))
	}
}
