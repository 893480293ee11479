package declared

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

const pointerOfLFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

// withSubmodule has a submodule, as a revision of Git shows it.
type withSubmodule struct {
	files fstest.MapFS
	name  string
}

// Open implements fs.FS. Only the folder that has the submodule lists it.
func (w withSubmodule) Open(name string) (fs.File, error) {
	if name == w.name || strings.HasPrefix(name, w.name+"/") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("it is a submodule: %w", gitsource.ErrUnsafe)}
	}
	return w.files.Open(name)
}

// What is not fetched must never pass for empty: its objects would be taken for removed.
func TestWhatGitLeavesOutIsAProblemThatNamesTheFile(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		file  string // where the submodule or the pointer is
		by    string // the file that the problem is of
		lfs   bool
		// refused is true where the whole revision is, since what else it declares depends on it.
		refused bool
	}{
		"a manifest in LFS": {files: []string{"x/pool.yaml", pool, "x/gone.yaml", pointerOfLFS}, file: "x/gone.yaml", by: "x/gone.yaml", lfs: true},
		"a resource in LFS": {files: []string{"x/kustomization.yaml", "resources: [pool.yaml, gone.yaml]\n", "x/pool.yaml", pool, "x/gone.yaml", pointerOfLFS}, file: "x/gone.yaml", by: "x/kustomization.yaml", lfs: true},
		"a patch in LFS": {files: []string{"x/kustomization.yaml", "resources: [pool.yaml]\npatches:\n- path: gone.yaml\n  target: {kind: NodePool}\n", "x/pool.yaml", pool, "x/gone.yaml", pointerOfLFS},
			file: "x/gone.yaml", by: "x/kustomization.yaml", lfs: true},
		"a file of a generator in LFS": {files: []string{"x/kustomization.yaml", "configMapGenerator:\n- name: a\n  files: [gone.bin]\n", "x/gone.bin", pointerOfLFS}, file: "x/gone.bin", by: "x/kustomization.yaml", lfs: true},
		"the kustomization in LFS":     {files: []string{"x/pool.yaml", pool, "x/kustomization.yaml", pointerOfLFS}, file: "x/kustomization.yaml", by: "x/kustomization.yaml", lfs: true},
		"a submodule":                  {files: []string{"x/pool.yaml", pool, "x/gone", ""}, file: "x/gone", by: "x/gone"},
		"a submodule as a resource":    {files: []string{"x/kustomization.yaml", "resources: [pool.yaml, gone]\n", "x/pool.yaml", pool, "x/gone", ""}, file: "x/gone", refused: true},
	} {
		files := tree(c.files...)
		var source fs.FS = files
		if !c.lfs {
			files[c.file].Mode = fs.ModeIrregular
			source = withSubmodule{files, c.file}
		}
		d, err := Load(source, "x", Options{})
		if c.refused {
			if !errors.Is(err, gitsource.ErrUnsafe) || !strings.Contains(err.Error(), c.file) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found := false
		for _, p := range d.Problems {
			found = found || p.Origin.File == c.by && p.Code == finding.FileUnreadable && strings.Contains(p.String(), c.file[2:])
		}
		if !found {
			t.Errorf("%s: problems %v", name, d.Problems)
		}
	}
	d, err := Load(withSubmodule{tree("x", ""), "x"}, "x", Options{})
	if err == nil && len(d.Problems) == 0 {
		t.Errorf("a path within a submodule declares %v", d.Set.Items())
	}
}
