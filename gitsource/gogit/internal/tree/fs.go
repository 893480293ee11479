package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/objects"
)

// FS is a tree as an fs.FS. Contents are read from the object database when they
// are needed and never kept. It is safe for concurrent use.
type FS struct {
	root    *folder
	objects *objects.Store
	limit   int64
}

const (
	// maxLinks is how many symbolic links one path may go through.
	maxLinks = 40
	// maxTarget is the longest target of a symbolic link, in bytes.
	maxTarget = 4096
)

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open implements fs.FS.
func (t *FS) Open(name string) (fs.File, error) {
	e, err := t.lookup("open", name, true)
	if err != nil {
		return nil, err
	}
	info := t.info(e)
	info.name = path.Base(name)
	if e.sub != nil {
		return &openFolder{info: info, entries: t.list(e.sub), name: name}, nil
	}
	b, err := t.content("open", name, e)
	if err != nil {
		return nil, err
	}
	return &openFile{info: info, Reader: bytes.NewReader(b)}, nil
}

// ReadFile implements fs.ReadFileFS.
func (t *FS) ReadFile(name string) ([]byte, error) {
	e, err := t.lookup("read", name, true)
	if err != nil {
		return nil, err
	}
	return t.content("read", name, e)
}

// ContentID implements gitsource.Identifier.
func (t *FS) ContentID(name string) (string, error) {
	e, err := t.lookup("read", name, true)
	if err != nil {
		return "", err
	}
	return e.hash.String(), readable("read", name, e)
}

// ModeOf implements gitsource.ModeReader.
func (t *FS) ModeOf(name string, follow bool) (fs.FileMode, error) {
	e, err := t.lookup("stat", name, follow)
	if err != nil {
		return 0, err
	}
	return t.info(e).Mode(), nil
}

// ReadDir implements fs.ReadDirFS.
func (t *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := t.lookup("readdir", name, true)
	if err != nil {
		return nil, err
	}
	if e.sub == nil {
		return nil, pathError("readdir", name, errors.New("not a directory"))
	}
	return t.list(e.sub), nil
}

// Stat implements fs.StatFS.
func (t *FS) Stat(name string) (fs.FileInfo, error) {
	e, err := t.lookup("stat", name, true)
	if err != nil {
		return nil, err
	}
	return t.sized("stat", name, e)
}

// Lstat implements fs.ReadLinkFS.
func (t *FS) Lstat(name string) (fs.FileInfo, error) {
	e, err := t.lookup("lstat", name, false)
	if err != nil {
		return nil, err
	}
	return t.sized("lstat", name, e)
}

// ReadLink implements fs.ReadLinkFS.
func (t *FS) ReadLink(name string) (string, error) {
	e, err := t.lookup("readlink", name, false)
	if err != nil {
		return "", err
	}
	if e.mode != filemode.Symlink {
		return "", pathError("readlink", name, fs.ErrInvalid)
	}
	return t.target(e)
}

// readable reports why an entry has no content to read.
func readable(op, name string, e entry) error {
	switch {
	case e.sub != nil:
		return pathError(op, name, errors.New("is a directory"))
	case e.unreadable != "":
		return pathError(op, name, fmt.Errorf("%w: %s", gitsource.ErrUnsafe, e.unreadable))
	}
	return nil
}

func (t *FS) content(op, name string, e entry) ([]byte, error) {
	if err := readable(op, name, e); err != nil {
		return nil, err
	}
	b, err := t.objects.Read(plumbing.BlobObject, e.hash, t.limit)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	return b, nil
}

func (t *FS) target(e entry) (string, error) {
	b, err := t.objects.Read(plumbing.BlobObject, e.hash, maxTarget)
	return string(b), err
}

// lookup walks to a name, through symbolic links as long as they stay inside
// the tree; the last link of the name is followed only if follow is set.
func (t *FS) lookup(op, name string, follow bool) (entry, error) {
	if !fs.ValidPath(name) {
		return entry{}, pathError(op, name, fs.ErrInvalid)
	}
	at := []entry{{name: ".", mode: filemode.Dir, sub: t.root}}
	rest := split(name)
	links := 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == ".." {
			if len(at) == 1 {
				return entry{}, pathError(op, name, fmt.Errorf("%w: a symbolic link leads out of the repository", gitsource.ErrUnsafe))
			}
			at = at[:len(at)-1]
			continue
		}
		e, err := child(at[len(at)-1], part)
		if err != nil {
			return entry{}, pathError(op, name, err)
		}
		if e.mode != filemode.Symlink || e.unreadable != "" || (len(rest) == 0 && !follow) {
			at = append(at, e)
			continue
		}
		if links++; links > maxLinks {
			return entry{}, pathError(op, name, fmt.Errorf("%w: symbolic links form a loop", gitsource.ErrUnsafe))
		}
		target, err := t.target(e)
		if err != nil {
			return entry{}, pathError(op, name, err)
		}
		if target == "" || path.IsAbs(target) || strings.ContainsAny(target, "\\\x00") {
			return entry{}, pathError(op, name, fmt.Errorf("%w: a symbolic link leads out of the repository", gitsource.ErrUnsafe))
		}
		rest = append(split(target), rest...)
	}
	return at[len(at)-1], nil
}

func child(parent entry, name string) (entry, error) {
	if parent.unreadable != "" {
		return entry{}, fmt.Errorf("%w: %s", gitsource.ErrUnsafe, parent.unreadable)
	}
	if parent.sub == nil {
		return entry{}, fs.ErrNotExist
	}
	e, ok := parent.sub.find(name)
	if !ok {
		return entry{}, fs.ErrNotExist
	}
	return e, nil
}

func split(name string) []string {
	var parts []string
	for p := range strings.SplitSeq(name, "/") {
		if p != "" && p != "." {
			parts = append(parts, p)
		}
	}
	return parts
}

func (t *FS) list(f *folder) []fs.DirEntry {
	out := make([]fs.DirEntry, len(f.entries))
	for i, e := range f.entries {
		out[i] = &dirEntry{fs: t, entry: e}
	}
	return out
}

func (t *FS) info(e entry) *fileInfo {
	i := &fileInfo{name: e.name, mode: 0o444}
	switch {
	case e.unreadable != "":
		i.mode = fs.ModeIrregular
	case e.sub != nil:
		i.mode = fs.ModeDir | 0o555
	case e.mode == filemode.Symlink:
		i.mode = fs.ModeSymlink | 0o777
	case e.mode == filemode.Executable:
		i.mode = 0o555
	}
	return i
}

func (t *FS) sized(op, name string, e entry) (fs.FileInfo, error) {
	i := t.info(e)
	i.name = path.Base(name)
	if e.sub == nil && e.unreadable == "" {
		n, err := t.objects.Size(e.hash)
		if err != nil {
			return nil, pathError(op, name, err)
		}
		i.size = n
	}
	return i, nil
}

type fileInfo struct {
	name string
	size int64
	mode fs.FileMode
}

func (i *fileInfo) Name() string       { return i.name }
func (i *fileInfo) Size() int64        { return i.size }
func (i *fileInfo) Mode() fs.FileMode  { return i.mode }
func (i *fileInfo) ModTime() time.Time { return time.Time{} }
func (i *fileInfo) IsDir() bool        { return i.mode.IsDir() }
func (i *fileInfo) Sys() any           { return nil }

type dirEntry struct {
	fs    *FS
	entry entry
}

func (d *dirEntry) Name() string      { return d.entry.name }
func (d *dirEntry) IsDir() bool       { return d.entry.sub != nil }
func (d *dirEntry) Type() fs.FileMode { return d.fs.info(d.entry).Mode().Type() }
func (d *dirEntry) String() string    { return fs.FormatDirEntry(d) }
func (d *dirEntry) Info() (fs.FileInfo, error) {
	return d.fs.sized("lstat", d.entry.name, d.entry)
}

type openFile struct {
	*bytes.Reader
	info *fileInfo
}

func (f *openFile) Stat() (fs.FileInfo, error) {
	i := *f.info
	i.size = f.Reader.Size()
	return &i, nil
}
func (f *openFile) Close() error { return nil }

type openFolder struct {
	info    *fileInfo
	name    string
	entries []fs.DirEntry
}

func (f *openFolder) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFolder) Close() error               { return nil }
func (f *openFolder) Read([]byte) (int, error) {
	return 0, pathError("read", f.name, errors.New("is a directory"))
}

// ReadDir implements fs.ReadDirFile.
func (f *openFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		out := f.entries
		f.entries = nil
		return out, nil
	}
	if len(f.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(f.entries))
	out := f.entries[:n]
	f.entries = f.entries[n:]
	return out, nil
}
