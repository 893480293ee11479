package gitsource_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/gitsource"
)

// mergeable is a tree of which merges are clean, or not.
type mergeable struct {
	fstest.MapFS
	clean bool
}

func (m mergeable) Merge(_, _ fs.FS) (fs.FS, bool) { return m.MapFS, m.clean }

func TestAMergeIsComputedOnlyWhereItIsCertain(t *testing.T) {
	for name, c := range map[string]struct {
		base   fs.FS
		unique bool
		known  bool
	}{
		"where the tree can be merged":                            {mergeable{fstest.MapFS{}, true}, true, true},
		"not where both sides changed a path":                     {mergeable{fstest.MapFS{}, false}, true, false},
		"not where there is more than one merge base":             {mergeable{fstest.MapFS{}, true}, false, false},
		"not where the tree is of no repository that can compare": {fstest.MapFS{}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(id string, files fs.FS) gitsource.Snapshot { return gitsource.Snapshot{TreeID: id, FS: files} }
			between := gitsource.Comparison{Base: at("b", c.base), Head: at("h", fstest.MapFS{}), MergeBase: at("m", fstest.MapFS{}), UniqueMergeBase: c.unique}
			merged, known := between.Merged()
			if known != c.known || known && (merged.FS == nil || merged.TreeID != "merged:m:b:h") {
				t.Errorf("known %t, tree %q", known, merged.TreeID)
			}
		})
	}
}
