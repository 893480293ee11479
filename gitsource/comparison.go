package gitsource

import (
	"io/fs"
	"strings"
)

// Comparison is two revisions and their merge base. Its snapshots
// stay readable while others are compared.
type Comparison struct {
	Base, Head Snapshot
	// MergeBase is the newest commit that both have in their history (the merge
	// base). It may be Base's commit, or Head's.
	MergeBase Snapshot
	// UniqueMergeBase is true where there is no other merge base, which Git would merge as well.
	UniqueMergeBase bool
}

// Merger is the ability of a Snapshot's FS to be merged with two others of its repository.
type Merger interface {
	// Merge merges head into this one as Git does; false where the result is not certain.
	Merge(mergeBase, head fs.FS) (fs.FS, bool)
}

// Merged is what Git makes of merging Head into Base, and true, where the result is
// certain; false in all other cases, such as where there is more than one merge base.
func (c Comparison) Merged() (Snapshot, bool) {
	base, ok := c.Base.FS.(Merger)
	if !ok || !c.UniqueMergeBase {
		return Snapshot{}, false
	}
	files, ok := base.Merge(c.MergeBase.FS, c.Head.FS)
	if !ok {
		return Snapshot{}, false
	}
	return Snapshot{FS: files, TreeID: strings.Join([]string{"merged", c.MergeBase.TreeID, c.Base.TreeID, c.Head.TreeID}, ":")}, true
}

// Revision is a commit, and the full name of the reference that led to it.
type Revision struct{ Ref, Commit string }
