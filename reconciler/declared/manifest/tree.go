// Package manifest reads YAML and JSON files of a repository, whose content is
// not trusted: it bounds sizes, counts, nesting and alias expansion, finds
// duplicate keys, and records the line of everything.
//
// It refuses to read outside the tree that it was given, and to give out part
// of a tree that breaks a limit. Start reading at Tree and Parse.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Limits bound what one tree may cost. A zero field means its default.
type Limits struct {
	// FileBytes is the size of one file that is read. Default 4 MiB.
	FileBytes int64
	// TotalBytes is the size of all files that are read. Default 64 MiB.
	TotalBytes int64
	// Files is how many files are read. Default 20,000.
	Files int
	// Objects is how many objects a tree may declare. Default 10,000.
	Objects int
	// Depth is how deeply a document may nest. Default 100.
	Depth int
	// Nodes is how many values a document may hold once its aliases are
	// written out. Default 200,000.
	Nodes int
	// TotalNodes is how many values all documents may hold together. Default
	// 2,000,000.
	TotalNodes int
	// Rendered is how many bytes of memory all declared objects may take together, as
	// DecodedValue estimates it; half as many bytes of text may be added to them while
	// they are rendered. Default 128 MiB.
	Rendered int64
}

// WithDefaults returns the limits with every zero replaced by its default.
func (l Limits) WithDefaults() Limits {
	for _, f := range []struct {
		v *int
		d int
	}{{&l.Files, 20_000}, {&l.Objects, 10_000}, {&l.Depth, 100}, {&l.Nodes, 200_000}, {&l.TotalNodes, 2_000_000}} {
		if *f.v <= 0 {
			*f.v = f.d
		}
	}
	for _, f := range []struct {
		v *int64
		d int64
	}{{&l.FileBytes, 4 << 20}, {&l.TotalBytes, 64 << 20}, {&l.Rendered, 128 << 20}} {
		if *f.v <= 0 {
			*f.v = f.d
		}
	}
	return l
}

// ErrLimit is wrapped by every error that a limit caused.
var ErrLimit = errors.New("limit exceeded")

// LimitError classifies a broken limit: only a new commit helps.
func LimitError(format string, args ...any) error {
	return state.Fail(state.Stalled, "LimitExceeded", fmt.Errorf("%w: %w", ErrLimit, fmt.Errorf(format, args...)))
}

// Tree reads files of an fs.FS under limits. Each file is counted once. A Tree
// is used by one goroutine at a time.
type Tree struct {
	fs     fs.FS
	limits Limits
	read   map[string][]byte
	// nodes are the values of the documents that were parsed of this part.
	nodes int
	*usage
}

// usage is what all parts of a tree have come to.
type usage struct {
	// sizes are those of the files that were read.
	sizes  map[string]int64
	bytes  int64
	values int
	err    error

	// rendered is what the declared objects take, and largest the one that takes most.
	rendered, most int64
	largest        state.Origin
}

// NewTree returns a reader of fsys.
func NewTree(fsys fs.FS, limits Limits) *Tree {
	return &Tree{fs: fsys, limits: limits.WithDefaults(), read: map[string][]byte{}, usage: &usage{sizes: map[string]int64{}}}
}

// Part is a reader of the same files that are read through another file system, such as one that
// records what is read. It reads all of them anew, and counts together with t.
func (t *Tree) Part(fsys fs.FS) *Tree {
	return &Tree{fs: fsys, limits: t.limits, read: map[string][]byte{}, usage: t.usage}
}

// Usage is what was read of a part of a tree.
type Usage struct {
	// Files are the sizes of the files, in bytes.
	Files map[string]int64 `json:"files"`
	// Nodes is how many values their documents hold.
	Nodes int `json:"nodes"`
}

// Usage is what was read by this reader, and no other of the tree.
func (t *Tree) Usage() Usage {
	out := Usage{Files: make(map[string]int64, len(t.read)), Nodes: t.nodes}
	for name, content := range t.read {
		out.Files[name] = int64(len(content))
	}
	return out
}

// Count counts a part that need not be read again. The error is a broken limit.
func (t *Tree) Count(part Usage) error {
	for _, name := range slices.Sorted(maps.Keys(part.Files)) {
		if err := t.file(name, part.Files[name]); err != nil {
			return err
		}
	}
	return t.parsed(part.Nodes)
}

// file counts a file that is read, each once.
func (t *Tree) file(name string, size int64) error {
	if _, counted := t.sizes[name]; counted {
		return nil
	}
	if t.bytes += size; t.bytes > t.limits.TotalBytes {
		return t.fail(LimitError("the declared files are larger than %d MiB together", t.limits.TotalBytes>>20))
	}
	if len(t.sizes) >= t.limits.Files {
		return t.fail(LimitError("more than %d files are declared", t.limits.Files))
	}
	t.sizes[name] = size
	return nil
}

// parsed counts the values of documents.
func (t *Tree) parsed(values int) error {
	t.nodes += values
	if t.values += values; t.values > t.limits.TotalNodes {
		return t.fail(LimitError("the declared files hold more than %d values", t.limits.TotalNodes))
	}
	return nil
}

// Limits are those in force.
func (t *Tree) Limits() Limits { return t.limits }

// Err is the first error that makes the whole tree unusable: a broken limit,
// or a source that failed while being read. Whoever is handed such an error
// through foreign code reads it here instead.
func (t *Tree) Err() error { return t.err }

func (t *Tree) fail(err error) error {
	if t.err == nil {
		t.err = err
	}
	return err
}

// lfsPrefix starts a pointer that Git LFS leaves in place of a file.
const lfsPrefix = "version https://git-lfs.github.com/spec/"

// Read returns the content of a file. The content is shared: it must not be
// changed.
func (t *Tree) Read(name string) ([]byte, error) {
	if b, ok := t.read[name]; ok {
		return b, nil
	}
	info, err := fs.Stat(t.fs, name)
	if err != nil {
		return nil, t.sourceFault(err)
	}
	if info.IsDir() {
		// kustomize tries every resource as a file before it tries it as a
		// folder: that is no fault of the source.
		return nil, fmt.Errorf("%s is a folder", sanitize.Name(name))
	}
	if info.Size() > t.limits.FileBytes {
		return nil, t.fail(LimitError("%s is larger than %d KiB", sanitize.Name(name), t.limits.FileBytes>>10))
	}
	b, err := fs.ReadFile(t.fs, name)
	if err != nil {
		return nil, t.sourceFault(err)
	}
	if int64(len(b)) > t.limits.FileBytes {
		return nil, t.fail(LimitError("%s is larger than %d KiB", sanitize.Name(name), t.limits.FileBytes>>10))
	}
	if err := t.file(name, int64(len(b))); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(b, []byte(lfsPrefix)) {
		return nil, fmt.Errorf("%s is stored with Git LFS, which is not fetched; store it in Git itself", name)
	}
	t.read[name] = b
	return b, nil
}

// sourceFault distinguishes a source that broke from a file that is the user's
// problem: the first must never pass for a removed file.
func (t *Tree) sourceFault(err error) error {
	switch {
	case errors.Is(err, gitsource.ErrLimit):
		return t.fail(state.Fail(state.Stalled, "LimitExceeded", err))
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid), errors.Is(err, gitsource.ErrUnsafe):
		return err
	}
	return t.fail(err)
}

// Parse splits a file, or text that a file holds, into documents. Documents
// that are empty are left out; each that does not parse, or breaks a rule, is a
// Problem and does not stop the others. A broken limit is an error.
func (t *Tree) Parse(file string, content []byte) ([]Document, []state.Problem, error) {
	docs, problems, err := parse(file, content, t.limits)
	if err != nil {
		return nil, nil, t.fail(err)
	}
	values := 0
	for _, d := range docs {
		values += d.size.values
	}
	if err := t.parsed(values); err != nil {
		return nil, nil, err
	}
	return docs, problems, nil
}

// CountObject counts an object that is declared. The error is a broken limit.
func (t *Tree) CountObject(o Object) error {
	size := DecodedValue(o.Object)
	if t.rendered += size; size > t.most {
		t.most, t.largest = size, o.Origin
	}
	if limit := t.limits.Rendered; t.rendered > limit {
		return t.fail(LimitError("%s: the declared objects take more than %d MiB of memory, and this one takes %d MiB, more than any other; declare less in one folder", t.largest, limit>>20, (t.most+1<<20-1)>>20))
	}
	return nil
}

// Stat describes a file or folder, links followed.
func (t *Tree) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(t.fs, name)
	if err != nil {
		return nil, t.sourceFault(err)
	}
	return info, nil
}

// List lists a folder by name.
func (t *Tree) List(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(t.fs, name)
	if err != nil {
		return nil, t.sourceFault(err)
	}
	if len(entries) > t.limits.Files {
		return nil, t.fail(LimitError("folder %s holds more than %d files", sanitize.Name(name), t.limits.Files))
	}
	return entries, nil
}

// maxLinks is how many symbolic links a path may go through.
const maxLinks = 40

// WithoutLinks is the name without symbolic links, so that one folder has one name.
func (t *Tree) WithoutLinks(name string) (string, error) {
	if _, ok := t.fs.(fs.ReadLinkFS); !ok {
		return name, nil
	}
	at, rest, links := ".", strings.Split(path.Clean(name), "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if at == "." {
				return "", fmt.Errorf("%s: %w: a symbolic link leads out of the repository", name, gitsource.ErrUnsafe)
			}
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		info, err := fs.Lstat(t.fs, next)
		if err != nil {
			return "", t.sourceFault(err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: %w: symbolic links form a loop", name, gitsource.ErrUnsafe)
		}
		target, err := fs.ReadLink(t.fs, next)
		if err != nil {
			return "", t.sourceFault(err)
		}
		if path.IsAbs(target) {
			return "", fmt.Errorf("%s: %w: a symbolic link leads out of the repository", name, gitsource.ErrUnsafe)
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// IsManifest reports whether a file's name is that of YAML or JSON.
func IsManifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
