package tree

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/poolwright/poolwright/gitsource/gogit/internal/objects"
)

// FuzzTree reads arbitrary bytes as a tree whose links lead anywhere.
func FuzzTree(f *testing.F) {
	id := strings.Repeat("\x01", 20)
	f.Add([]byte("100644 a\x00"+id+"120000 l\x00"+id+"40000 d\x00"+id), "../d/../l/a")
	f.Add([]byte("120000 l\x00"+id), "l/../../x")
	f.Fuzz(func(t *testing.T, tree []byte, target string) {
		obj := new(plumbing.MemoryObject)
		obj.SetType(plumbing.TreeObject)
		_, _ = obj.Write(tree)
		var decoded object.Tree
		if decoded.Decode(obj) != nil {
			return
		}
		store := fakeStore{memory.NewStorage()}
		link := store.put(plumbing.BlobObject, []byte(target))
		leaf := store.put(plumbing.TreeObject, []byte("100644 leaf\x00"+string(link[:])))
		var b bytes.Buffer
		for _, e := range decoded.Entries {
			h := link
			if e.Mode == 0o040000 {
				h = leaf
			}
			fmt.Fprintf(&b, "%o %s\x00%s", uint32(e.Mode), e.Name, h[:])
		}
		objs := objects.New(store)
		limits := Limits{ObjectBytes: 32 << 20, Files: 100_000, IndexBytes: 32 << 20, Depth: 64, FileBytes: 1 << 20}
		fsys, err := NewWalker(objs, limits).Walk(store.put(plumbing.TreeObject, b.Bytes()))
		if err != nil {
			return
		}
		err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if !fs.ValidPath(name) || strings.Contains(name, "..") && !strings.Contains(b.String(), "..") {
				t.Errorf("walk met %q", name)
			}
			_, _ = fs.ReadFile(fsys, name)
			for follow, stat := range map[bool]func(fs.FS, string) (fs.FileInfo, error){true: fs.Stat, false: fs.Lstat} {
				info, statErr := stat(fsys, name)
				mode, modeErr := fsys.ModeOf(name, follow)
				if (statErr == nil) != (modeErr == nil) || statErr == nil && info.Mode() != mode {
					t.Errorf("the mode of %q is %v, %v, and by its size %v, %v", name, mode, modeErr, info, statErr)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("walking a tree that was accepted: %v", err)
		}
	})
}

// fakeStore is an object store in memory.
type fakeStore struct{ *memory.Storage }

func (s fakeStore) put(t plumbing.ObjectType, b []byte) plumbing.Hash {
	o := new(plumbing.MemoryObject)
	o.SetType(t)
	_, _ = o.Write(b)
	h, _ := s.SetEncodedObject(o)
	return h
}
