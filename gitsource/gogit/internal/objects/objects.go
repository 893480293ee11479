// Package objects reads Git's object database on disk, by go-git: blobs, trees, commits and
// tags by their ids. It trusts no content that does not have its id, reads nothing beyond the
// limit that it is given, and writes nothing. Start reading at Store.Read.
package objects

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/poolwright/poolwright/gitsource"
)

// MaxCommitBytes is the longest commit or tag that is read.
const MaxCommitBytes = 1 << 20

// Store is one object database. It is safe for concurrent use. Every object's content is hashed again
// when read, so that a damaged disk cannot change what is applied.
type Store struct {
	mu     sync.Mutex // go-git's storage is not made for concurrent readers
	store  storer.EncodedObjectStorer
	broken bool
}

// reindexer is a store that can read the list of packs again.
type reindexer interface{ Reindex() }

// Open opens the object database of the bare repository in a folder.
func Open(folder string) *Store {
	// A small cache: bases of deltas are read again and again while walking.
	fs := osfs.New(folder, osfs.WithBoundOS())
	return New(filesystem.NewStorageWithOptions(fs, cache.NewObjectLRU(8*cache.MiByte), filesystem.Options{}))
}

// New reads from an object database that go-git has opened.
func New(store storer.EncodedObjectStorer) *Store { return &Store{store: store} }

// Refresh makes packs readable that were added since the store was opened.
func (o *Store) Refresh() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s, ok := o.store.(reindexer); ok {
		s.Reindex()
	}
}

// Damaged reports whether any read met broken data, so that the next fetch
// starts again.
func (o *Store) Damaged() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broken
}

func (o *Store) corrupt(h plumbing.Hash, err error) error {
	o.broken = true
	return fmt.Errorf("reading object %s: %w: %w", h, gitsource.ErrCorrupt, err)
}

// Read returns the whole content of an object of the given type. One of more than limit
// bytes is a gitsource.ErrLimit, one that is missing or broken a gitsource.ErrCorrupt.
func (o *Store) Read(t plumbing.ObjectType, h plumbing.Hash, limit int64) ([]byte, error) {
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

// Contains reports whether an object is there.
func (o *Store) Contains(h plumbing.Hash) (bool, error) {
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

// Find is Read for an object that need not be there: false when it is not.
func (o *Store) Find(t plumbing.ObjectType, h plumbing.Hash, limit int64) ([]byte, bool, error) {
	if present, err := o.Contains(h); err != nil || !present {
		return nil, false, err
	}
	b, err := o.Read(t, h, limit)
	return b, err == nil, err
}

// Size is the size of an object's content, in bytes.
func (o *Store) Size(h plumbing.Hash) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.store.EncodedObjectSize(h)
	if err != nil {
		return 0, o.corrupt(h, err)
	}
	return n, nil
}

// Require reports a missing object as a gitsource.ErrCorrupt.
func (o *Store) Require(h plumbing.Hash) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.store.HasEncodedObject(h); err != nil {
		return o.corrupt(h, err)
	}
	return nil
}

// maxTagDepth bounds tags of tags.
const maxTagDepth = 5

// Peel follows annotated tags from h to a commit and returns it and its
// tree.
func (o *Store) Peel(h plumbing.Hash) (commit, tree plumbing.Hash, err error) {
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

func (o *Store) commitOrTag(h plumbing.Hash) ([]byte, plumbing.ObjectType, error) {
	o.mu.Lock()
	obj, err := o.store.EncodedObject(plumbing.AnyObject, h)
	o.mu.Unlock()
	if err != nil {
		return nil, 0, fmt.Errorf("reading object %s: %w: %w", h, gitsource.ErrCorrupt, err)
	}
	switch t := obj.Type(); t {
	case plumbing.CommitObject, plumbing.TagObject:
		b, err := o.Read(t, h, MaxCommitBytes)
		return b, t, err
	default:
		return nil, 0, fmt.Errorf("%w: %s is a %s and not a commit", gitsource.ErrNotFound, h, t)
	}
}

// ReadAny is Read of an object of whatever type, which it returns.
func (o *Store) ReadAny(id plumbing.Hash, limit int64) (plumbing.ObjectType, []byte, error) {
	for _, t := range []plumbing.ObjectType{plumbing.BlobObject, plumbing.TreeObject, plumbing.CommitObject, plumbing.TagObject} {
		b, err := o.Read(t, id, limit)
		if err == nil {
			return t, b, nil
		}
		if !errors.Is(err, plumbing.ErrObjectNotFound) {
			return 0, nil, err
		}
	}
	return 0, nil, fmt.Errorf("reading object %s: %w: it is gone", id, gitsource.ErrCorrupt)
}
