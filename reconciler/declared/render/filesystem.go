package render

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

// fileSystem shows a Tree to kustomize as an absolute, read-only file system
// that holds nothing else. Paths that climb over its root stay at the root.
type fileSystem struct {
	tree *manifest.Tree
	// replaced has, by name in the tree, content that is read instead.
	replaced map[string][]byte
}

// inTree turns kustomize's absolute path into a name of the tree.
func inTree(p string) string {
	p = strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(p)), "/")
	if p == "" {
		return "."
	}
	return p
}

func (f *fileSystem) real(p string) (string, error) { return f.tree.WithoutLinks(inTree(p)) }

// ReadFile implements filesys.FileSystem.
func (f *fileSystem) ReadFile(p string) ([]byte, error) {
	name, err := f.real(p)
	if err != nil {
		return nil, err
	}
	if b, ok := f.replaced[name]; ok {
		return b, nil
	}
	b, err := f.tree.Read(name)
	if err != nil {
		return nil, err
	}
	return append([]byte(nil), b...), nil
}

// CleanedAbs implements filesys.FileSystem.
func (f *fileSystem) CleanedAbs(p string) (filesys.ConfirmedDir, string, error) {
	name, err := f.real(p)
	if err != nil {
		return "", "", err
	}
	info, err := f.tree.Stat(name)
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
func (f *fileSystem) IsDir(p string) bool {
	info, err := f.tree.Stat(inTree(p))
	return err == nil && info.IsDir()
}

// Exists implements filesys.FileSystem.
func (f *fileSystem) Exists(p string) bool {
	_, err := f.tree.Stat(inTree(p))
	return err == nil
}

// ReadDir implements filesys.FileSystem.
func (f *fileSystem) ReadDir(p string) ([]string, error) {
	entries, err := f.tree.List(inTree(p))
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
func (f *fileSystem) Glob(string) ([]string, error) {
	return nil, errors.New("file name patterns are not supported")
}

// Walk implements filesys.FileSystem: nothing that is allowed here walks.
func (f *fileSystem) Walk(string, filepath.WalkFunc) error {
	return errors.New("walking the tree is not supported")
}

// Open implements filesys.FileSystem.
func (f *fileSystem) Open(p string) (filesys.File, error) {
	return nil, &fs.PathError{Op: "open", Path: p, Err: errReadOnly}
}

// Create implements filesys.FileSystem.
func (f *fileSystem) Create(string) (filesys.File, error) { return nil, errReadOnly }

// Mkdir implements filesys.FileSystem.
func (f *fileSystem) Mkdir(string) error { return errReadOnly }

// MkdirAll implements filesys.FileSystem.
func (f *fileSystem) MkdirAll(string) error { return errReadOnly }

// RemoveAll implements filesys.FileSystem.
func (f *fileSystem) RemoveAll(string) error { return errReadOnly }

// WriteFile implements filesys.FileSystem.
func (f *fileSystem) WriteFile(string, []byte) error { return errReadOnly }
