// Package dir is a gitsource.Source that reads a folder on disk, for a plan
// from a working copy and for tests.
//
// It opens the folder as an os.Root, so that no symbolic link leads out of it,
// leaves out Git's own data and what .gitignore files name, and refuses folders beyond its Limits. Start
// reading at Source.Fetch.
package dir

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/poolwright/poolwright/gitsource"
)

// Limits bound what one folder may cost. A zero field means its default.
type Limits struct {
	// Files is the number of files below the folder. Default 100,000.
	Files int
	// Bytes is the size of all of them. Default 1 GiB.
	Bytes int64
}

// Source reads one folder.
type Source struct {
	path   string
	limits Limits
}

// New returns a Source for the folder at path. Nothing is read yet.
func New(path string, limits Limits) *Source {
	if limits.Files <= 0 {
		limits.Files = 100_000
	}
	if limits.Bytes <= 0 {
		limits.Bytes = 1 << 30
	}
	return &Source{path: path, limits: limits}
}

// Locate splits a folder given by a user into the root of its repository, the
// nearest folder upwards that holds .git, and the slash-separated path below
// it, so that a kustomization may use bases beside the folder. Without a
// repository the root is the folder itself and the path ".".
func Locate(folder string) (root, sub string, err error) {
	abs, err := filepath.Abs(folder)
	if err != nil {
		return "", "", fmt.Errorf("locating %s: %w", folder, err)
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return "", "", fmt.Errorf("locating %s: %w", folder, isNotExist(err))
	}
	info, err := os.Stat(abs)
	if err != nil {
		return "", "", fmt.Errorf("locating %s: %w", folder, isNotExist(err))
	}
	if !info.IsDir() {
		return "", "", fileError(folder)
	}
	for at := abs; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			rel, err := filepath.Rel(at, abs)
			if err != nil {
				return "", "", fmt.Errorf("locating %s: %w", folder, err)
			}
			return at, filepath.ToSlash(rel), nil
		}
		if filepath.Dir(at) == at {
			return abs, ".", nil
		}
	}
}

// fileError is a file that was named for a folder. It is an ErrInvalid without its
// text: whoever typed the path has no source configuration.
type fileError string

func (e fileError) Error() string { return string(e) + " is a file; name its folder" }

func (fileError) Unwrap() error { return gitsource.ErrInvalid }

func isNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: no such folder", gitsource.ErrNotFound)
	}
	return err
}

// Fetch hashes every file of the folder and returns it as it is now. Unlike a
// commit, the files may change while the Snapshot is being read.
func (s *Source) Fetch(ctx context.Context) (gitsource.Snapshot, error) {
	root, err := os.OpenRoot(s.path)
	if err != nil {
		return gitsource.Snapshot{}, fmt.Errorf("reading folder %s: %w", s.path, isNotExist(err))
	}
	// The Snapshot keeps the root open for as long as it is in use; the
	// runtime closes it after that.
	tree := &treeFS{rootFS: root.FS().(rootFS)}
	if tree.ignore, err = readIgnore(s.path); err != nil {
		_ = root.Close()
		return gitsource.Snapshot{}, fmt.Errorf("reading the .gitignore files of %s: %w", s.path, err)
	}
	sum, err := s.digest(ctx, tree)
	if err != nil {
		_ = root.Close()
		return gitsource.Snapshot{}, fmt.Errorf("reading folder %s: %w", s.path, err)
	}
	return gitsource.Snapshot{FS: tree, Revision: "dir@sha256:" + sum, TreeID: "sha256:" + sum}, nil
}

// digest is a hash over names, kinds and contents.
func (s *Source) digest(ctx context.Context, tree *treeFS) (string, error) {
	sum := sha256.New()
	files, left := 0, s.limits.Bytes
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if files++; files > s.limits.Files {
			return fmt.Errorf("%w: it holds more than %d files", gitsource.ErrLimit, s.limits.Files)
		}
		n, err := hashEntry(sum, tree, name, d, left)
		if left -= n; err == nil && left < 0 {
			err = fmt.Errorf("%w: its files are larger than %d MiB together", gitsource.ErrLimit, s.limits.Bytes>>20)
		}
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

func hashEntry(sum hash.Hash, tree *treeFS, name string, d fs.DirEntry, limit int64) (int64, error) {
	field := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		sum.Write(n[:])
		sum.Write(b)
	}
	field([]byte(name))
	field([]byte(d.Type().String()))
	content := sha256.New()
	var size int64
	switch {
	case d.Type()&fs.ModeSymlink != 0:
		target, err := tree.ReadLink(name)
		if err != nil {
			return 0, err
		}
		content.Write([]byte(target))
	case d.Type().IsRegular():
		f, err := tree.Open(name)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		if size, err = io.Copy(content, io.LimitReader(f, limit+1)); err != nil {
			return size, err
		}
	}
	field(content.Sum(nil))
	return size, nil
}

// rootFS is what os.Root's file system implements.
type rootFS interface {
	fs.ReadDirFS
	fs.ReadFileFS
	fs.StatFS
	fs.ReadLinkFS
}

// treeFS hides Git's own data, which no declaration may use, and what Git ignores.
type treeFS struct {
	rootFS
	ignore ignore
}

// Open implements fs.FS. Only folders and regular files can be opened: a named
// pipe would block for ever.
func (t *treeFS) Open(name string) (fs.File, error) {
	if err := t.check("open", name); err != nil {
		return nil, err
	}
	return t.rootFS.Open(name)
}

func (t *treeFS) check(op, name string) error {
	if err := t.hidden(op, name); err != nil {
		return err
	}
	info, err := t.rootFS.Stat(name)
	if err != nil {
		return unsafe(err)
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("%w: it is a device, pipe or socket", gitsource.ErrUnsafe)}
	}
	return nil
}

// unsafe names links that lead out of the folder as gitsource does.
func unsafe(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) && pe.Err != nil && pe.Err.Error() == "path escapes from parent" {
		return &fs.PathError{Op: pe.Op, Path: pe.Path, Err: fmt.Errorf("%w: a symbolic link leads out of the folder", gitsource.ErrUnsafe)}
	}
	return err
}

// ReadFile implements fs.ReadFileFS.
func (t *treeFS) ReadFile(name string) ([]byte, error) {
	if err := t.check("read", name); err != nil {
		return nil, err
	}
	return t.rootFS.ReadFile(name)
}

// ReadDir implements fs.ReadDirFS.
func (t *treeFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := t.hidden("readdir", name); err != nil {
		return nil, err
	}
	all, err := t.rootFS.ReadDir(name)
	if err != nil {
		return nil, unsafe(err)
	}
	out := all[:0]
	for _, e := range all {
		if !t.ignore.hides(path.Join(name, e.Name()), e.IsDir) {
			out = append(out, e)
		}
	}
	return out, nil
}

// Stat implements fs.StatFS.
func (t *treeFS) Stat(name string) (fs.FileInfo, error) {
	if err := t.hidden("stat", name); err != nil {
		return nil, err
	}
	info, err := t.rootFS.Stat(name)
	return info, unsafe(err)
}

// Lstat implements fs.ReadLinkFS.
func (t *treeFS) Lstat(name string) (fs.FileInfo, error) {
	if err := t.hidden("lstat", name); err != nil {
		return nil, err
	}
	return t.rootFS.Lstat(name)
}

// ReadLink implements fs.ReadLinkFS.
func (t *treeFS) ReadLink(name string) (string, error) {
	if err := t.hidden("readlink", name); err != nil {
		return "", err
	}
	return t.rootFS.ReadLink(name)
}
