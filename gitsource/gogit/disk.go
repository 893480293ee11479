package gogit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/poolwright/poolwright/gitsource"
)

// Disk is a budget of bytes for all that lies below a folder, shared by the
// mirrors in it. What would exceed it is refused before it is written, so that
// a volume with a limit is never filled: the kubelet evicts a pod for that. Its
// methods may be called by several goroutines; a nil Disk has no limit.
type Disk struct {
	dir    string
	limit  int64
	within *Disk
	// mirror is true of one mirror's budget, which is that of within, see Mirror.
	mirror bool

	mu sync.Mutex
	// used is what was measured last, and what was granted since: never less
	// than what is there, but for what others write.
	used int64
}

// NewDisk limits what may lie below dir, in bytes.
func NewDisk(dir string, limit int64) *Disk {
	return &Disk{dir: dir, limit: limit, used: limit} // It is measured before anything is granted.
}

// Part is a budget for a folder inside d's, which counts for both.
func (d *Disk) Part(dir string, limit int64) *Disk {
	part := NewDisk(dir, limit)
	part.within = d
	return part
}

// reserved is the part of a budget, one in so many, that is kept for mirrors which take
// at most half of that part.
const reserved = 16

// Mirror is the budget of the mirror in a folder inside d. No mirror takes all of d's: the
// last sixteenth is kept for those that take at most a thirty-second of d's limit.
func (d *Disk) Mirror(dir string) *Disk {
	if d == nil {
		return nil
	}
	return &Disk{dir: dir, within: d, mirror: true}
}

// grant allows n bytes more, or says why not.
func (d *Disk) grant(n int64) error {
	if d == nil || !d.mirror {
		return d.grantBut(n, 0)
	}
	reserve := d.within.limit / reserved
	err := d.within.grantBut(n, reserve)
	if err != nil && bytesBelow(d.dir)+n <= reserve/2 {
		return d.within.grantBut(n, 0)
	}
	return err
}

// grantBut is grant of all but the last bytes of the limit.
func (d *Disk) grantBut(n, last int64) error {
	if d == nil {
		return nil
	}
	if err := d.within.grant(n); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := d.limit - last
	if d.used+n > limit {
		d.used = bytesBelow(d.dir)
	}
	if d.used+n > limit {
		return &overBudget{dir: d.dir, used: d.used, limit: limit}
	}
	d.used += n
	return nil
}

// Left is how many bytes may still be written, 0 for a nil Disk. For a mirror it is what
// its budget's owner has left.
func (d *Disk) Left() int64 {
	if d == nil {
		return 0
	}
	if d.mirror {
		return d.within.Left()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = bytesBelow(d.dir)
	left := d.limit - d.used
	if d.within != nil {
		left = min(left, d.within.Left())
	}
	return left
}

// overBudget is the error of a write that a Disk does not grant.
type overBudget struct {
	dir         string
	used, limit int64
}

// Error implements error.
func (o *overBudget) Error() string {
	return fmt.Sprintf("%v: the mirrors of Git repositories in %s take %d of the %d MiB that they may; "+
		"keep large files out of the repositories, or raise --cache-size-limit together with the volume's size",
		gitsource.ErrStorage, o.dir, o.used>>20, o.limit>>20)
}

// Unwrap makes it a gitsource.ErrStorage.
func (o *overBudget) Unwrap() error { return gitsource.ErrStorage }

// notStored is the error of a write that this machine refuses.
func notStored(err error) error {
	if errors.Is(err, gitsource.ErrStorage) || errors.Is(err, errFull) {
		return err
	}
	return fmt.Errorf("%w: %w; make the volume of --cache-dir writable, with room for mirrors of Git repositories", gitsource.ErrStorage, err)
}

// bytesBelow adds up the files below a folder. What disappears meanwhile, or
// cannot be read, is not there.
func bytesBelow(dir string) int64 {
	var n int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// errFull marks a write that would make a generation larger than it may be. A
// new generation may have room for what a grown one has not.
var errFull = errors.New("the mirror is full")

// store is where a generation's packs are written.
type store struct {
	folder string // of the packs
	disk   *Disk
	left   int64 // what the generation may still grow by, in bytes
}

// create begins a temporary file.
func (s *store) create() (*packFile, error) {
	f, err := os.CreateTemp(s.folder, "tmp-")
	if err != nil {
		return nil, notStored(err)
	}
	return &packFile{fileReader: f, file: f, store: s}, nil
}

// fileReader is what an os.File does for who reads it.
type fileReader interface {
	io.ReadSeeker
	io.ReaderAt
}

// packFile is a file on its way into a generation. All that is written to it is
// granted before: an os.File has ways of writing that go by.
type packFile struct {
	fileReader
	file  *os.File
	store *store
}

// Write implements io.Writer.
func (f *packFile) Write(p []byte) (int, error) {
	if f.store.left -= int64(len(p)); f.store.left < 0 {
		return 0, errFull
	}
	if err := f.store.disk.grant(int64(len(p))); err != nil {
		return 0, err
	}
	n, err := f.file.Write(p)
	if err != nil {
		return n, notStored(err)
	}
	return n, nil
}

// rename gives the file its name in the generation.
func (f *packFile) rename(name string) error {
	if err := os.Rename(f.file.Name(), filepath.Join(f.store.folder, name)); err != nil {
		return notStored(err)
	}
	return nil
}

// discard ends a temporary file. Where it was renamed there is nothing left to
// remove, and what cannot be removed goes with its generation.
func (f *packFile) discard() {
	_ = f.file.Close()
	_ = os.Remove(f.file.Name())
}
