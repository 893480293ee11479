// Package treefs is the file system that kustomize reads a tree of a repository by: absolute, read-only,
// and with nothing else in it.
//
// It refuses to write, to walk, and to leave the tree. Start reading at FileSystem.
package treefs

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

// errReadOnly is the error of every attempt to write.
var errReadOnly = errors.New("the rendered tree cannot be written to")

// FileSystem is a tree as a filesys.FileSystem. Paths that climb over its root stay at the root.
type FileSystem struct {
	// Tree has the files.
	Tree *manifest.Tree
	// Replaced has, by name in the tree, content that is read instead.
	Replaced map[string][]byte
}

// inTree turns kustomize's absolute path into a name of the tree.
func inTree(p string) string {
	p = strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(p)), "/")
	if p == "" {
		return "."
	}
	return p
}

func (f *FileSystem) real(p string) (string, error) { return f.Tree.WithoutLinks(inTree(p)) }

// ReadFile implements filesys.FileSystem.
func (f *FileSystem) ReadFile(p string) ([]byte, error) {
	name, err := f.real(p)
	if err != nil {
		return nil, err
	}
	if b, ok := f.Replaced[name]; ok {
		return b, nil
	}
	b, err := f.Tree.Read(name)
	if err != nil {
		return nil, err
	}
	return append([]byte(nil), b...), nil
}

// CleanedAbs implements filesys.FileSystem.
func (f *FileSystem) CleanedAbs(p string) (filesys.ConfirmedDir, string, error) {
	name, err := f.real(p)
	if err != nil {
		return "", "", err
	}
	info, err := f.Tree.Stat(name)
	if err != nil {
		return "", "", err
	}
	if info.IsDir() {
		return absolute(name), "", nil
	}
	return absolute(path.Dir(name)), path.Base(name), nil
}

func absolute(name string) filesys.ConfirmedDir {
	return filesys.ConfirmedDir(path.Join("/", name))
}

// IsDir implements filesys.FileSystem.
func (f *FileSystem) IsDir(p string) bool {
	info, err := f.Tree.Stat(inTree(p))
	return err == nil && info.IsDir()
}

// Exists implements filesys.FileSystem.
func (f *FileSystem) Exists(p string) bool {
	_, err := f.Tree.Stat(inTree(p))
	return err == nil
}

// ReadDir implements filesys.FileSystem.
func (f *FileSystem) ReadDir(p string) ([]string, error) {
	entries, err := f.Tree.List(inTree(p))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Glob implements filesys.FileSystem: nothing that is allowed here uses
// patterns.
func (f *FileSystem) Glob(string) ([]string, error) {
	return nil, errors.New("file name patterns are not supported")
}

// Walk implements filesys.FileSystem: nothing that is allowed here walks.
func (f *FileSystem) Walk(string, filepath.WalkFunc) error {
	return errors.New("walking the tree is not supported")
}

// Open implements filesys.FileSystem.
func (f *FileSystem) Open(p string) (filesys.File, error) {
	return nil, &fs.PathError{Op: "open", Path: p, Err: errReadOnly}
}

// Create implements filesys.FileSystem.
func (f *FileSystem) Create(string) (filesys.File, error) { return nil, errReadOnly }

// Mkdir implements filesys.FileSystem.
func (f *FileSystem) Mkdir(string) error { return errReadOnly }

// MkdirAll implements filesys.FileSystem.
func (f *FileSystem) MkdirAll(string) error { return errReadOnly }

// RemoveAll implements filesys.FileSystem.
func (f *FileSystem) RemoveAll(string) error { return errReadOnly }

// WriteFile implements filesys.FileSystem.
func (f *FileSystem) WriteFile(string, []byte) error { return errReadOnly }
