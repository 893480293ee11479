package gogit

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/poolwright/poolwright/gitsource"
)

// objects reads from one generation. Every object's content is hashed again
// when read, so that a damaged disk cannot change what is applied.
type objects struct {
	limits Limits
	mu     sync.Mutex // go-git's storage is not made for concurrent readers
	store  storer.EncodedObjectStorer
	broken bool
}

// reindexer is a store that can be told that packs were added.
type reindexer interface{ Reindex() }

func openObjects(folder string, limits Limits) *objects {
	return openObjectsIn(osfs.New(folder, osfs.WithBoundOS()), limits)
}

func openObjectsIn(fs billy.Filesystem, limits Limits) *objects {
	// A small cache: bases of deltas are read again and again while walking.
	store := filesystem.NewStorageWithOptions(fs, cache.NewObjectLRU(8*cache.MiByte), filesystem.Options{})
	return &objects{limits: limits, store: store}
}

// refresh makes packs readable that were added since the store was opened.
func (o *objects) refresh() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s, ok := o.store.(reindexer); ok {
		s.Reindex()
	}
}

// damaged reports whether any read met broken data, so that the next fetch
// starts anew.
func (o *objects) damaged() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broken
}

func (o *objects) corrupt(h plumbing.Hash, err error) error {
	o.broken = true
	return fmt.Errorf("reading object %s: %w: %w", h, gitsource.ErrCorrupt, err)
}

// read returns the whole content of an object of the given type, at most limit
// bytes.
func (o *objects) read(t plumbing.ObjectType, h plumbing.Hash, limit int64) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	size, err := o.store.EncodedObjectSize(h)
	if err != nil {
		return nil, o.corrupt(h, err)
	}
	if size > limit {
		return nil, fmt.Errorf("%w: it is larger than %d KiB", gitsource.ErrLimit, limit>>10)
	}
	obj, err := o.store.EncodedObject(t, h)
	if err != nil {
		return nil, o.corrupt(h, err)
	}
	r, err := obj.Reader()
	if err != nil {
		return nil, o.corrupt(h, err)
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, o.corrupt(h, err)
	}
	if plumbing.ComputeHash(t, b) != h {
		return nil, o.corrupt(h, errors.New("content does not match its id"))
	}
	return b, nil
}

// contains reports whether an object is there.
func (o *objects) contains(h plumbing.Hash) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch err := o.store.HasEncodedObject(h); {
	case errors.Is(err, plumbing.ErrObjectNotFound):
		return false, nil
	case err != nil:
		return false, o.corrupt(h, err)
	}
	return true, nil
}

// find is read for an object that need not be there: false when it is not.
func (o *objects) find(t plumbing.ObjectType, h plumbing.Hash, limit int64) ([]byte, bool, error) {
	if held, err := o.contains(h); err != nil || !held {
		return nil, false, err
	}
	b, err := o.read(t, h, limit)
	return b, err == nil, err
}

func (o *objects) size(h plumbing.Hash) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.store.EncodedObjectSize(h)
	if err != nil {
		return 0, o.corrupt(h, err)
	}
	return n, nil
}

// has reports a missing object as corruption.
func (o *objects) has(h plumbing.Hash) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.store.HasEncodedObject(h); err != nil {
		return o.corrupt(h, err)
	}
	return nil
}

// maxTagDepth bounds tags of tags.
const maxTagDepth = 5

// commit follows annotated tags from h to a commit and returns it and its
// tree.
func (o *objects) commit(h plumbing.Hash) (commit, tree plumbing.Hash, err error) {
	for range maxTagDepth {
		obj := new(plumbing.MemoryObject)
		b, kind, err := o.commitOrTag(h)
		if err != nil {
			return plumbing.ZeroHash, plumbing.ZeroHash, err
		}
		obj.SetType(kind)
		_, _ = obj.Write(b) // a MemoryObject takes everything
		if kind == plumbing.CommitObject {
			var c object.Commit
			if err := c.Decode(obj); err != nil {
				return plumbing.ZeroHash, plumbing.ZeroHash, fmt.Errorf("reading commit %s: %w: %w", h, gitsource.ErrCorrupt, err)
			}
			return h, c.TreeHash, nil
		}
		var t object.Tag
		if err := t.Decode(obj); err != nil {
			return plumbing.ZeroHash, plumbing.ZeroHash, fmt.Errorf("reading tag %s: %w: %w", h, gitsource.ErrCorrupt, err)
		}
		h = t.Target
	}
	return plumbing.ZeroHash, plumbing.ZeroHash, fmt.Errorf("reading tag %s: %w: it does not lead to a commit", h, gitsource.ErrNotFound)
}

func (o *objects) commitOrTag(h plumbing.Hash) ([]byte, plumbing.ObjectType, error) {
	o.mu.Lock()
	obj, err := o.store.EncodedObject(plumbing.AnyObject, h)
	o.mu.Unlock()
	if err != nil {
		return nil, 0, fmt.Errorf("reading object %s: %w: %w", h, gitsource.ErrCorrupt, err)
	}
	switch t := obj.Type(); t {
	case plumbing.CommitObject, plumbing.TagObject:
		b, err := o.read(t, h, maxCommitBytes)
		return b, t, err
	default:
		return nil, 0, fmt.Errorf("%w: %s is a %s and not a commit", gitsource.ErrNotFound, h, t)
	}
}
