package examples_test

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
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/conversion"
)

// What `poolwright convert` makes of the examples of Karpenter's old APIs: each
// change, the files as they would be, and in the cluster nothing else than before.
func TestExamplesOfOldAPIsAreConvertedAsTheirGoldens(t *testing.T) {
	for repository, path := range map[string]string{"pingvas": "clusters/studio", "baseten": "clusters/dev"} {
		t.Run(repository, func(t *testing.T) {
			before := files(t, repository)
			r, err := conversion.Files(before, path, conversion.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, c := range r.Changes {
				got.WriteString(c.String() + "\n")
			}
			after := maps.Clone(before)
			for _, name := range slices.Sorted(maps.Keys(r.Files)) {
				got.WriteString("\n== " + name + "\n" + string(r.Files[name]))
				after[name] = &fstest.MapFile{Data: r.Files[name]}
			}
			golden.Compare(t, filepath.Join("testdata", repository, "convert.txt"), got.String())
			if diff := cmp.Diff(objects(t, before, path), objects(t, after, path)); diff != "" {
				t.Errorf("the converted repository declares something else (-before +after):\n%s", diff)
			}
			again, err := conversion.Files(after, path, conversion.Options{})
			if err != nil || len(again.Files) > 0 {
				t.Errorf("a second conversion changes %d files: %v", len(again.Files), err)
			}
		})
	}
}

func files(t *testing.T, repository string) fstest.MapFS {
	t.Helper()
	all, root := fstest.MapFS{}, os.DirFS(repository)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		all[name] = &fstest.MapFile{Data: content}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// objects are what a folder declares, by name.
func objects(t *testing.T, repository fs.FS, path string) map[string]map[string]any {
	t.Helper()
	d, err := declared.Load(repository, path, declared.Options{})
	if err != nil || len(d.Problems) > 0 {
		t.Fatal(err, d.Problems)
	}
	all := map[string]map[string]any{}
	for _, item := range d.Set.Items() {
		all[item.Key.String()] = item.Object
	}
	return all
}
