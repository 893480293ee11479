package dir

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// ignore has what of a working copy Git leaves out (build results, caches), and no
// commit of it will therefore hold. The zero value leaves out nothing but Git's own
// data.
type ignore struct{ matcher gitignore.Matcher }

// readIgnore reads the .gitignore files below root and .git/info/exclude, for a
// root that is a working copy. A person's and a machine's own settings are not read:
// two people must get the same.
func readIgnore(root string) (ignore, error) {
	if _, err := os.Lstat(filepath.Join(root, ".git")); err != nil {
		return ignore{}, nil
	}
	patterns, err := gitignore.ReadPatterns(osfs.New(root, osfs.WithBoundOS()), nil)
	if err != nil || len(patterns) == 0 {
		return ignore{}, err
	}
	return ignore{gitignore.NewMatcher(patterns)}, nil
}

// hides reports whether a path, or a folder above it, is left out. The kind of the path
// itself is read only where a pattern may depend on it.
func (i ignore) hides(name string, isFolder func() bool) bool {
	if name == "." {
		return false
	}
	parts := strings.Split(name, "/")
	for n := 1; n <= len(parts); n++ {
		if parts[n-1] == ".git" {
			return true
		}
		if i.matcher == nil {
			continue
		}
		last := n == len(parts)
		if i.matcher.Match(parts[:n], !last) || last && i.matcher.Match(parts, true) && isFolder() {
			return true
		}
	}
	return false
}

// hidden is the error of a path that is left out.
func (t *treeFS) hidden(op, name string) error {
	folder := func() bool {
		info, err := t.rootFS.Lstat(name)
		return err == nil && info.IsDir()
	}
	if t.ignore.hides(name, folder) {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return nil
}
