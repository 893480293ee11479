package artifact

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/poolwright/poolwright/gitsource"
)

// tree is the files of one artifact as an fs.FS. It reads them from a file that stays open, and
// readable, for as long as the tree is in use; the runtime closes it after that.
type tree struct {
	files *zip.Reader
	limit int64
	// id is the Snapshot's TreeID, contents the ids of the contents by name.
	id       string
	contents map[string]string
	// damaged is set once a file could not be read.
	damaged atomic.Bool
}

// openTree reads all of a tree once.
func openTree(content *os.File, limit int64) (*tree, error) {
	info, err := content.Stat()
	if err != nil {
		return nil, storageError(err)
	}
	files, err := zip.NewReader(content, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", gitsource.ErrCorrupt, err)
	}
	t := &tree{files: files, limit: limit, contents: make(map[string]string, len(files.File))}
	sorted := slices.SortedFunc(slices.Values(files.File), func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
	sum := sha256.New()
	field := func(b []byte) {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		sum.Write(b)
	}
	for _, f := range sorted {
		of, err := digest(f)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", gitsource.ErrCorrupt, err)
		}
		t.contents[f.Name] = hex.EncodeToString(of)
		field([]byte(f.Name))
		field([]byte(f.Mode().String()))
		field(of)
	}
	t.id = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	return t, nil
}

func digest(f *zip.File) ([]byte, error) {
	content, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}

// Open implements fs.FS.
func (t *tree) Open(name string) (fs.File, error) {
	f, err := t.files.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.IsDir() && info.Size() > t.limit {
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: the file has more than %d MiB", gitsource.ErrLimit, t.limit>>20)}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReadFile implements fs.ReadFileFS. Each read checks what was written.
func (t *tree) ReadFile(name string) ([]byte, error) {
	f, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, isFile := t.contents[name]
	if !isFile {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
	}
	b, err := io.ReadAll(f)
	if sum := sha256.Sum256(b); err == nil && hex.EncodeToString(sum[:]) == content {
		return b, nil
	}
	t.damaged.Store(true)
	return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: what is kept of the artifact is damaged", gitsource.ErrCorrupt)}
}

// ContentID implements gitsource.Identifier.
func (t *tree) ContentID(name string) (string, error) {
	f, err := t.Open(name)
	if err != nil {
		return "", err
	}
	id, isFile := t.contents[name]
	if err := f.Close(); err != nil || !isFile {
		return "", &fs.PathError{Op: "read", Path: name, Err: errors.Join(errors.New("is a directory"), err)}
	}
	return id, nil
}

// ReadDir implements fs.ReadDirFS.
func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(t.files, name) }

// Stat implements fs.StatFS.
func (t *tree) Stat(name string) (fs.FileInfo, error) { return fs.Stat(t.files, name) }

// Lstat implements fs.ReadLinkFS: no file is a link.
func (t *tree) Lstat(name string) (fs.FileInfo, error) { return t.Stat(name) }

// ReadLink implements fs.ReadLinkFS.
func (t *tree) ReadLink(name string) (string, error) {
	if _, err := t.Stat(name); err != nil {
		return "", err
	}
	return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
}
