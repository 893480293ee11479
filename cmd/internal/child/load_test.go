package child

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/poolwright/poolwright/gitsource/dir"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
)

const repository = "../../.."

// folders are all folders of the examples and of declared's test data that declare
// something, or try to.
func folders(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, root := range []string{"examples", "reconciler/declared/testdata", "reconciler/declared/lint/gpulint/testdata"} {
		err := filepath.WalkDir(filepath.Join(repository, root), func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				rel, err := filepath.Rel(repository, name)
				out = append(out, filepath.ToSlash(rel))
				return err
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestAChildLoadsWhatThisProcessLoads(t *testing.T) {
	root, _, err := dir.Locate(repository)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := dir.New(root, dir.Limits{}).Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &Runner{}
	objects := 0
	for _, folder := range folders(t) {
		t.Run(folder, func(t *testing.T) {
			want, wantErr := load(snapshot.FS, folder, substitute.Values{})
			got, err := r.Load(t.Context(), snapshot.FS, folder, substitute.Values{})
			if d := cmp.Diff(classed(wantErr), classed(err)); d != "" {
				t.Fatal(d)
			}
			if d := cmp.Diff(want.Set.Items(), got.Set.Items(), cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(want, got, cmpopts.IgnoreFields(declared.Declared{}, "Set", "Converted"), cmpopts.IgnoreUnexported(declared.Declared{}), cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
			raw, err := declared.Load(snapshot.FS, folder, declared.Options{})
			if d := cmp.Diff(raw.Set.Items(), got.Set.Items(), cmpopts.EquateEmpty()); err == nil && d != "" {
				t.Error(d)
			}
			objects += got.Set.Len()
		})
	}
	if objects < 100 {
		t.Errorf("only %d objects were compared", objects)
	}
}

// classed is errorObjectOf, and nil for none.
func classed(err error) *errorObject {
	if err == nil {
		return nil
	}
	return errorObjectOf(err)
}

// BenchmarkLoadInAChild compares what a folder takes in a child, its start and lint
// included, with rendering it in process.
func BenchmarkLoadInAChild(b *testing.B) {
	for _, n := range []int{20, 200, 2000} {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			files := fstest.MapFS{}
			for i := range n {
				files[fmt.Sprintf("x/%d.yaml", i)] = &fstest.MapFile{Data: []byte(fmt.Sprintf(
					"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: o%d, namespace: default, labels: {app: o%d}}\ndata: {key: value-%d}\n", i, i, i))}
			}
			r := &Runner{}
			var here, there time.Duration
			for b.Loop() {
				begin := time.Now()
				if _, err := declared.Load(files, "x", declared.Options{}); err != nil {
					b.Fatal(err)
				}
				here += time.Since(begin)
				begin = time.Now()
				if l, err := r.Load(b.Context(), files, "x", substitute.Values{}); err != nil || l.Set.Len() != n {
					b.Fatal(l.Set.Len(), err)
				}
				there += time.Since(begin)
			}
			b.ReportMetric(float64(there.Milliseconds())/float64(b.N), "ms-in-a-child")
			b.ReportMetric(float64(here.Milliseconds())/float64(b.N), "ms-in-process")
		})
	}
}

// load renders and checks a folder in this process.
func load(tree fs.FS, folder string, values substitute.Values) (checked.Folder, error) {
	found, err := checked.Load(tree, folder, values, nil, standards())
	return limited(found), err
}
