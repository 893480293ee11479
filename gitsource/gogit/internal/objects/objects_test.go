package objects

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/poolwright/poolwright/gitsource"
)

// database is an object database in memory, of which one object can have other content than
// its id.
type database struct {
	*memory.Storage
	forged plumbing.Hash
}

func (d *database) put(t plumbing.ObjectType, content string) plumbing.Hash {
	o := new(plumbing.MemoryObject)
	o.SetType(t)
	_, _ = o.Write([]byte(content))
	h, _ := d.SetEncodedObject(o)
	return h
}

func (d *database) EncodedObject(t plumbing.ObjectType, h plumbing.Hash) (plumbing.EncodedObject, error) {
	o, err := d.Storage.EncodedObject(t, h)
	if h != d.forged || err != nil {
		return o, err
	}
	other := new(plumbing.MemoryObject)
	other.SetType(o.Type())
	_, _ = other.Write(make([]byte, o.Size()))
	return other, nil
}

func TestContentIsReadWholeOrNotAtAll(t *testing.T) {
	d := &database{Storage: memory.NewStorage()}
	blob, forged := d.put(plumbing.BlobObject, "content"), d.put(plumbing.BlobObject, "forged")
	d.forged = forged
	for name, c := range map[string]struct {
		kind    plumbing.ObjectType
		id      plumbing.Hash
		limit   int64
		want    error
		damaged bool
	}{
		"an object of the size of the limit":   {plumbing.BlobObject, blob, 7, nil, false},
		"one that is larger":                   {plumbing.BlobObject, blob, 6, gitsource.ErrLimit, false},
		"one that is missing":                  {plumbing.BlobObject, plumbing.NewHash(strings.Repeat("ab", 20)), 7, gitsource.ErrCorrupt, true},
		"one of another type":                  {plumbing.TreeObject, blob, 7, gitsource.ErrCorrupt, true},
		"one whose content has not its own id": {plumbing.BlobObject, forged, 7, gitsource.ErrCorrupt, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(d)
			b, err := s.Read(c.kind, c.id, c.limit)
			if !errors.Is(err, c.want) || c.want == nil && string(b) != "content" || c.want != nil && b != nil {
				t.Errorf("%q, %v; want %v", b, err, c.want)
			}
			if s.Damaged() != c.damaged {
				t.Errorf("damaged: %v", s.Damaged())
			}
		})
	}
}

func TestAnObjectThatNeedNotBeThereIsNoDamage(t *testing.T) {
	d := &database{Storage: memory.NewStorage()}
	blob, absent := d.put(plumbing.BlobObject, "content"), plumbing.NewHash(strings.Repeat("ab", 20))
	s := New(d)
	if b, ok, err := s.Find(plumbing.BlobObject, blob, 7); err != nil || !ok || string(b) != "content" {
		t.Errorf("%q, %v, %v", b, ok, err)
	}
	if _, ok, err := s.Find(plumbing.BlobObject, absent, 7); err != nil || ok || s.Damaged() {
		t.Errorf("%v, %v, damaged %v", ok, err, s.Damaged())
	}
	if err := s.Require(absent); !errors.Is(err, gitsource.ErrCorrupt) || !s.Damaged() {
		t.Errorf("%v, damaged %v", err, s.Damaged())
	}
}

func TestTagsArePeeledToACommit(t *testing.T) {
	d := &database{Storage: memory.NewStorage()}
	root := d.put(plumbing.TreeObject, "")
	commit := d.put(plumbing.CommitObject, fmt.Sprintf("tree %s\nauthor a <a@example.com> 1 +0000\ncommitter a <a@example.com> 1 +0000\n\nx\n", root))
	tagged := func(kind string, id plumbing.Hash, times int) plumbing.Hash {
		for range times {
			id = d.put(plumbing.TagObject, fmt.Sprintf("object %s\ntype %s\ntag v1\ntagger a <a@example.com> 1 +0000\n\nx\n", id, kind))
			kind = "tag"
		}
		return id
	}
	for name, c := range map[string]struct {
		id   plumbing.Hash
		want error
	}{
		"a commit":                 {commit, nil},
		"a tag":                    {tagged("commit", commit, 1), nil},
		"tags of tags":             {tagged("commit", commit, maxTagDepth-1), nil},
		"too many tags of tags":    {tagged("commit", commit, maxTagDepth), gitsource.ErrNotFound},
		"a tag of a tree":          {tagged("tree", root, 1), gitsource.ErrNotFound},
		"a tree":                   {root, gitsource.ErrNotFound},
		"an object that is absent": {plumbing.NewHash(strings.Repeat("ab", 20)), gitsource.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			got, tree, err := New(d).Peel(c.id)
			if !errors.Is(err, c.want) || c.want == nil && (got != commit || tree != root) {
				t.Errorf("%s, %s, %v; want %v", got, tree, err, c.want)
			}
		})
	}
}
