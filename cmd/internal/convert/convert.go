// Package convert rewrites the manifests of a folder on disk from Karpenter's old
// APIs to v1: what `poolwright convert DIR` does. What becomes of a manifest is decided
// by reconciler/declared/conversion; here files are read, shown and replaced.
//
// It refuses to write half of them, over what somebody changed meanwhile, or to
// where a symbolic link leads, and shows no value of a Secret. It needs no cluster.
// Start reading at Folder.
package convert

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/poolwright/poolwright/gitsource/dir"
	"github.com/poolwright/poolwright/reconciler/declared/conversion"
)

// Request is the input of Folder.
type Request struct {
	// Dir is the folder on disk; the folders below it belong to it.
	Dir string
	// KubernetesVersion is the minor version of the EKS cluster, such as "1.33";
	// where it is empty, that of the Cluster in the folder.
	KubernetesVersion string
	// Write writes the files, all but those of what cannot be converted.
	Write bool
}

// File is one file that changes, before and after.
type File struct {
	// Path is relative to the clone's root, with slashes.
	Path          string
	Before, After []byte
}

// Masked are both contents as they may be shown: without the values of Secrets and
// without user data, none of which a conversion changes.
func (f File) Masked() (before, after []byte) {
	return masked(f.Path, f.Before), masked(f.Path, f.After)
}

// Outcome is what a migration comes to.
type Outcome struct {
	conversion.Result
	// Changed are the files that change, by path.
	Changed []File
	// Written reports whether they were written.
	Written bool
}

// Folder rewrites the manifests of a folder for Karpenter v1. All of it is
// computed before the first file is touched, and each file is replaced as a whole.
// Files that .gitignore names are left alone, and so is what symbolic links lead to.
// What a person must check is in the Outcome; an error means that no file was changed,
// unless it names which could not be put back.
func Folder(ctx context.Context, req Request) (Outcome, error) {
	root, folder, err := dir.Locate(req.Dir)
	if err != nil {
		return Outcome{}, err
	}
	snapshot, err := dir.New(root, dir.Limits{}).Fetch(ctx)
	if err != nil {
		return Outcome{}, err
	}
	var out Outcome
	if out.Result, err = conversion.Files(snapshot.FS, folder, conversion.Options{KubernetesVersion: req.KubernetesVersion}); err != nil {
		return Outcome{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(out.Files)) {
		before, err := fs.ReadFile(snapshot.FS, name)
		if err != nil {
			return Outcome{}, fmt.Errorf("reading %s: %w", name, err)
		}
		out.Changed = append(out.Changed, File{Path: name, Before: before, After: out.Files[name]})
	}
	if !req.Write || len(out.Changed) == 0 {
		return out, nil
	}
	if err := replaceAll(root, out.Changed); err != nil {
		return Outcome{}, err
	}
	out.Written = true
	return out, nil
}

// stagedFile is one file whose new content lies beside it.
type stagedFile struct {
	File
	beside string
}

// replaceAll replaces files of a folder, all or none of them: the new contents are
// laid beside the old ones first, and what was replaced is put back if the next
// cannot be. No symbolic link is followed out of the folder.
func replaceAll(folder string, files []File) (err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("opening %s: %w", folder, err)
	}
	defer root.Close()
	var laid []stagedFile
	defer func() {
		for _, r := range laid {
			if removeErr := root.Remove(r.beside); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
				err = errors.Join(err, fmt.Errorf("removing %s: %w", r.beside, removeErr))
			}
		}
	}()
	for _, f := range files {
		beside, layErr := lay(root, f)
		if beside != "" {
			laid = append(laid, stagedFile{f, beside})
		}
		if layErr != nil {
			return fmt.Errorf("writing %s, no file was changed: %w", f.Path, layErr)
		}
	}
	for i, r := range laid {
		if err := root.Rename(r.beside, r.Path); err != nil {
			return errors.Join(fmt.Errorf("replacing %s: %w", r.Path, err), putBack(root, laid[:i]))
		}
	}
	return nil
}

// lay writes a file's new content beside it, with its mode. A file that is not what
// was read any more is somebody else's work, and refused.
func lay(root *os.Root, f File) (beside string, err error) {
	info, err := root.Lstat(f.Path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	now, err := root.ReadFile(f.Path)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(now, f.Before) {
		return "", errors.New("it was changed meanwhile; convert again")
	}
	beside = path.Join(path.Dir(f.Path), "."+path.Base(f.Path)+"."+rand.Text())
	file, err := root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return "", err
	}
	_, err = file.Write(f.After)
	if err == nil {
		err = file.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = file.Sync()
	}
	return beside, errors.Join(err, file.Close())
}

// putBack gives files their old content again.
func putBack(root *os.Root, done []stagedFile) error {
	var errs []error
	for _, r := range done {
		beside, err := lay(root, File{Path: r.Path, Before: r.After, After: r.Before})
		if err == nil {
			err = root.Rename(beside, r.Path)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("putting %s back: %w", r.Path, err))
		}
	}
	return errors.Join(errs...)
}
