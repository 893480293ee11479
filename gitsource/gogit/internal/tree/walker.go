// Package tree reads a tree of Git's as an fs.FS, and merges two of them. It has no
// worktree: nothing is written, and no name or link of a tree leads out of it. It refuses
// names that Git would not check out, and trees beyond its Limits; files that cannot be read,
// such as submodules, are refused to who opens them only. Start reading at Walker.Walk.
package tree

import (
	"fmt"
	"path"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/objects"
)

// folder is one tree object, read and checked. Equal trees are one folder, so
// that a tree which repeats itself costs what it is, not what it spells out.
type folder struct {
	entries []entry // in the order of their names
	files   int     // in all folders below, as often as they appear
	height  int
}

// entry is one name in a folder.
type entry struct {
	name string
	mode filemode.FileMode
	hash plumbing.Hash
	sub  *folder // of a folder
	// unreadable is why the entry cannot be read; empty for ordinary ones. It is kept so that
	// only who needs the file gets the refusal.
	unreadable string
}

func (f *folder) find(name string) (entry, bool) {
	i := sort.Search(len(f.entries), func(i int) bool { return f.entries[i].name >= name })
	if i < len(f.entries) && f.entries[i].name == name {
		return f.entries[i], true
	}
	return entry{}, false
}

// Limits bound what one tree may cost; sizes are in bytes.
type Limits struct {
	// ObjectBytes is the size of the object that holds one folder.
	ObjectBytes int64
	// Files is the number of files.
	Files int
	// IndexBytes is about what the names of the files may take in memory.
	IndexBytes int64
	// Depth is how deeply folders may nest.
	Depth int
	// FileBytes is the size of a file that may be read.
	FileBytes int64
}

// Walker reads trees, each object once, and proves that every object that their files need
// is there.
type Walker struct {
	objects *objects.Store
	limits  Limits
	done    map[plumbing.Hash]*folder
	blobs   map[plumbing.Hash]bool
	entries int   // of the present root
	bytes   int64 // of the present root
	total   int64 // bytes of all roots
}

const (
	// maxName is the longest name of a file, in bytes: no common file system has longer
	// ones.
	maxName = 255
	// entryBytes is about what an entry takes in memory beside its name: itself, what
	// its name is allocated with, and a place among the blobs that were sought.
	entryBytes = 160
)

// NewWalker reads from an object database.
func NewWalker(o *objects.Store, limits Limits) *Walker {
	return &Walker{objects: o, limits: limits, done: map[plumbing.Hash]*folder{}, blobs: map[plumbing.Hash]bool{}}
}

// Memory is about what all trees that were read take in memory.
func (w *Walker) Memory() int64 { return w.total }

// Walk reads the tree with the id root; folders that earlier ones had are not read again. A
// tree that holds what no honest repository does is a gitsource.ErrUnsafe.
func (w *Walker) Walk(root plumbing.Hash) (*FS, error) {
	w.entries, w.bytes = 0, 0
	f, err := w.folder(root, ".", 0)
	if err != nil {
		return nil, err
	}
	return &FS{root: f, objects: w.objects, limit: w.limits.FileBytes}, nil
}

func (w *Walker) folder(h plumbing.Hash, at string, depth int) (*folder, error) {
	f, ok := w.done[h]
	if !ok {
		if depth > w.limits.Depth {
			return nil, fmt.Errorf("%w: folder %q is nested deeper than %d", gitsource.ErrLimit, at, w.limits.Depth)
		}
		var err error
		if f, err = w.read(h, at, depth); err != nil {
			return nil, err
		}
		w.done[h] = f
	}
	if depth+f.height > w.limits.Depth {
		return nil, fmt.Errorf("%w: folder %q is nested deeper than %d", gitsource.ErrLimit, at, w.limits.Depth)
	}
	return f, nil
}

func (w *Walker) read(h plumbing.Hash, at string, depth int) (*folder, error) {
	b, err := w.objects.Read(plumbing.TreeObject, h, w.limits.ObjectBytes)
	if err != nil {
		return nil, err
	}
	obj := new(plumbing.MemoryObject)
	obj.SetType(plumbing.TreeObject)
	_, _ = obj.Write(b)
	var t object.Tree
	if err := t.Decode(obj); err != nil {
		return nil, fmt.Errorf("reading folder %q: %w: %w", at, gitsource.ErrCorrupt, err)
	}
	f := &folder{entries: make([]entry, 0, len(t.Entries))}
	for _, te := range t.Entries {
		e, err := w.entry(te, at, depth)
		if err != nil {
			return nil, err
		}
		f.entries = append(f.entries, e)
		f.files++
		if e.sub != nil {
			f.files += e.sub.files
			f.height = max(f.height, e.sub.height+1)
		}
		if err := w.count(e); err != nil {
			return nil, err
		}
		if f.files > w.limits.Files || w.entries > w.limits.Files {
			return nil, fmt.Errorf("%w: the tree has more than %d files", gitsource.ErrLimit, w.limits.Files)
		}
	}
	sort.Slice(f.entries, func(i, j int) bool { return f.entries[i].name < f.entries[j].name })
	for i := 1; i < len(f.entries); i++ {
		if f.entries[i].name == f.entries[i-1].name {
			return nil, fmt.Errorf("reading folder %q: %w: it holds %q twice", at, gitsource.ErrUnsafe, f.entries[i].name)
		}
	}
	return f, nil
}

// count bounds what the index of a tree takes in memory, which a few bytes of Git can
// make large: a name that is repeated is packed as one.
func (w *Walker) count(e entry) error {
	n := int64(entryBytes + len(e.name) + len(e.unreadable))
	w.entries++
	w.bytes += n
	w.total += n
	if w.bytes > w.limits.IndexBytes {
		return fmt.Errorf("%w: the names of the tree's files take more than %d MiB of memory", gitsource.ErrLimit, w.limits.IndexBytes>>20)
	}
	return nil
}

func (w *Walker) entry(te object.TreeEntry, at string, depth int) (entry, error) {
	if err := checkName(te.Name); err != nil {
		return entry{}, fmt.Errorf("reading folder %q: %w: it holds a file named %.*q", at, err, maxName, te.Name)
	}
	e := entry{name: te.Name, mode: te.Mode, hash: te.Hash}
	if !utf8.ValidString(te.Name) || strings.ContainsFunc(te.Name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }) {
		quoted := strconv.QuoteToASCII(te.Name)
		return entry{name: strings.ReplaceAll(quoted, "/", ""), unreadable: "its name holds control characters, a backslash or bytes that are not UTF-8"}, nil
	}
	switch te.Mode {
	case filemode.Dir:
		sub, err := w.folder(te.Hash, path.Join(at, te.Name), depth+1)
		if err != nil {
			return entry{}, err
		}
		e.sub = sub
	case filemode.Submodule:
		e.unreadable = "it is a submodule, and submodules are not fetched; copy its files into the repository"
	case filemode.Regular, filemode.Executable, filemode.Deprecated, filemode.Symlink:
		if !w.blobs[te.Hash] {
			if err := w.objects.Require(te.Hash); err != nil {
				return entry{}, fmt.Errorf("reading folder %q: file %q: %w", at, te.Name, err)
			}
			w.blobs[te.Hash] = true
		}
	default:
		return entry{}, fmt.Errorf("reading folder %q: %w: file %q has mode %s", at, gitsource.ErrUnsafe, te.Name, te.Mode)
	}
	return e, nil
}

// checkName refuses what Git itself refuses to check out.
func checkName(name string) error {
	switch {
	case name == "", name == ".", name == "..",
		strings.EqualFold(name, ".git"),
		strings.ContainsAny(name, "/\x00"):
		return gitsource.ErrUnsafe
	case len(name) > maxName:
		return fmt.Errorf("%w: a name is longer than %d bytes", gitsource.ErrLimit, maxName)
	}
	return nil
}
