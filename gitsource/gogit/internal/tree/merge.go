package tree

import (
	"io/fs"
	"slices"
)

// Merge implements gitsource.Merger: it merges where no path was changed on both sides, and
// where Git can take nothing for renamed on one side and changed on the other. It is false in
// all other cases, such as for files of which Git would merge lines, and where one of the
// three is not of this repository. It transfers nothing.
func (t *FS) Merge(mergeBase, head fs.FS) (fs.FS, bool) {
	theirs, ok := head.(*FS)
	ancestor, too := mergeBase.(*FS)
	if !ok || !too || t.objects != theirs.objects || t.objects != ancestor.objects {
		return nil, false
	}
	root, clean := mergeFolders(ancestor.root, t.root, theirs.root)
	if !clean {
		return nil, false
	}
	return &FS{root: root, objects: t.objects, limit: t.limit}, true
}

// mergeFolders puts two folders together of which each path was changed on one side at
// most.
func mergeFolders(mergeBase, base, head *folder) (*folder, bool) {
	if emptied(mergeBase, base) && grown(mergeBase, head) || emptied(mergeBase, head) && grown(mergeBase, base) {
		return nil, false // Git may take the folder for renamed, and what is new for to be moved along.
	}
	var names []string
	for _, f := range []*folder{mergeBase, base, head} {
		for _, e := range f.entries {
			names = append(names, e.name)
		}
	}
	slices.Sort(names)
	out := &folder{}
	for _, name := range slices.Compact(names) {
		merged, stays, clean := mergeEntries(slotIn(mergeBase, name), slotIn(base, name), slotIn(head, name))
		if !clean {
			return nil, false
		}
		if stays {
			out.entries = append(out.entries, merged)
		}
	}
	return out, true
}

// slot is a name as one tree has it.
type slot struct {
	entry
	there bool
}

func slotIn(f *folder, name string) slot {
	e, ok := f.find(name)
	return slot{e, ok}
}

func (s slot) same(o slot) bool {
	return s.there == o.there && s.mode == o.mode && s.hash == o.hash && s.unreadable == o.unreadable
}

func mergeEntries(mergeBase, base, head slot) (merged entry, stays, clean bool) {
	switch {
	case mergeBase.same(head):
		return base.entry, base.there, true
	case mergeBase.same(base):
		return head.entry, head.there, true
	case base.same(head) && base.sub == nil:
		// One that both removed or both added may be one that one of them renamed.
		return base.entry, base.there, mergeBase.there && base.there
	case base.sub == nil || head.sub == nil || mergeBase.there && mergeBase.sub == nil:
		return entry{}, false, false
	}
	from := mergeBase.sub
	if from == nil {
		from = &folder{}
	}
	sub, clean := mergeFolders(from, base.sub, head.sub)
	return entry{name: base.name, mode: base.mode, sub: sub}, true, clean
}

// emptied reports whether nothing is left of the files that a folder had.
func emptied(was, is *folder) bool {
	had := false
	for _, e := range was.entries {
		if e.sub != nil {
			continue
		}
		had = true
		if o, ok := is.find(e.name); ok && o.sub == nil {
			return false
		}
	}
	return had
}

// grown reports whether a folder has a name that it had not.
func grown(was, is *folder) bool {
	return slices.ContainsFunc(is.entries, func(e entry) bool {
		_, had := was.find(e.name)
		return !had
	})
}
