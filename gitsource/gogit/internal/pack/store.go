package pack

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/poolwright/poolwright/gitsource/gogit/internal/disk"
)

// ErrFull marks a write that would make a Store larger than it may be. A new repository may
// have room for what a grown one has not.
var ErrFull = errors.New("the cache is full")

// Store is the folder of a repository's packs, for one transfer.
type Store struct {
	folder string // of the packs
	// grant allows so many bytes more, or refuses them with an error.
	grant     func(n int64) error
	remaining int64 // what the folder may still grow by, in bytes
}

// NewStore lets the folder objects/pack of a repository grow by left bytes. Each write is
// granted before: grant refuses one of so many bytes by an error.
func NewStore(folder string, grant func(n int64) error, left int64) *Store {
	return &Store{folder: folder, grant: grant, remaining: left}
}

// Remaining is how many bytes the folder may still grow by.
func (s *Store) Remaining() int64 { return s.remaining }

// create begins a temporary file.
func (s *Store) create() (*packFile, error) {
	f, err := os.CreateTemp(s.folder, "tmp-")
	if err != nil {
		return nil, disk.StorageError(err)
	}
	return &packFile{fileReader: f, file: f, store: s}, nil
}

// fileReader is what an os.File does for who reads it.
type fileReader interface {
	io.ReadSeeker
	io.ReaderAt
}

// packFile is a file on its way into the folder. All that is written to it is
// granted before: an os.File has ways of writing that go by.
type packFile struct {
	fileReader
	file  *os.File
	store *Store
}

// Write implements io.Writer.
func (f *packFile) Write(p []byte) (int, error) {
	if f.store.remaining -= int64(len(p)); f.store.remaining < 0 {
		return 0, ErrFull
	}
	if err := f.store.grant(int64(len(p))); err != nil {
		return 0, err
	}
	n, err := f.file.Write(p)
	if err != nil {
		return n, disk.StorageError(err)
	}
	return n, nil
}

// rename gives the file its name in the folder.
func (f *packFile) rename(name string) error {
	if err := os.Rename(f.file.Name(), filepath.Join(f.store.folder, name)); err != nil {
		return disk.StorageError(err)
	}
	return nil
}

// discard ends a temporary file. Where it was renamed there is nothing left to
// remove, and what cannot be removed goes with the folder.
func (f *packFile) discard() {
	_ = f.file.Close()
	_ = os.Remove(f.file.Name())
}
