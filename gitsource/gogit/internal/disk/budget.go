// Package disk bounds what the caches of Git repositories take of a volume. A Budget
// refuses a write before it is made; it deletes nothing, and reserves nothing that is not
// written. Start reading at Budget.Grant.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/poolwright/poolwright/gitsource"
)

// Budget is a budget of bytes for all that lies below a folder, shared by the
// caches in it. What would exceed it is refused before it is written, so that
// a volume with a limit is never filled: the kubelet evicts a pod for that. Its
// methods may be called by several goroutines; a nil Budget has no limit.
type Budget struct {
	dir    string
	limit  int64
	within *Budget
	// cache is true of one cache's budget, which is that of within, see Cache.
	cache bool

	mu sync.Mutex
	// used is what was measured last, and what was granted since: never less
	// than what is there, but for what others write.
	used int64
}

// New limits what may lie below dir, in bytes.
func New(dir string, limit int64) *Budget {
	return &Budget{dir: dir, limit: limit, used: limit} // It is measured before anything is granted.
}

// SubBudget is a budget for a folder inside d's, which counts for both.
func (d *Budget) SubBudget(dir string, limit int64) *Budget {
	part := New(dir, limit)
	part.within = d
	return part
}

// reserved is the part of a budget, one in so many, that is kept for caches which take
// at most half of that part.
const reserved = 16

// CacheBudget is the budget of the cache in a folder inside d. No cache takes all of d's: the
// last sixteenth is kept for those that take at most a thirty-second of d's limit.
func (d *Budget) CacheBudget(dir string) *Budget {
	if d == nil {
		return nil
	}
	return &Budget{dir: dir, within: d, cache: true}
}

// Grant allows n bytes more. Where they would exceed the limit, its error is an
// ExceededError.
func (d *Budget) Grant(n int64) error {
	if d == nil || !d.cache {
		return d.grantBut(n, 0)
	}
	reserve := d.within.limit / reserved
	err := d.within.grantBut(n, reserve)
	if err != nil && Usage(d.dir)+n <= reserve/2 {
		return d.within.grantBut(n, 0)
	}
	return err
}

// grantBut is grant of all but the last bytes of the limit.
func (d *Budget) grantBut(n, last int64) error {
	if d == nil {
		return nil
	}
	if err := d.within.Grant(n); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := d.limit - last
	if d.used+n > limit {
		d.used = Usage(d.dir)
	}
	if d.used+n > limit {
		return &ExceededError{dir: d.dir, used: d.used, limit: limit}
	}
	d.used += n
	return nil
}

// Remaining is how many bytes may still be written, 0 for a nil Disk. For a cache it is what
// its budget's owner has left.
func (d *Budget) Remaining() int64 {
	if d == nil {
		return 0
	}
	if d.cache {
		return d.within.Remaining()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = Usage(d.dir)
	left := d.limit - d.used
	if d.within != nil {
		left = min(left, d.within.Remaining())
	}
	return left
}

// ExceededError is the error of a write that a Budget does not grant.
type ExceededError struct {
	dir         string
	used, limit int64
}

// Error implements error.
func (o *ExceededError) Error() string {
	return fmt.Sprintf("%v: the caches of Git repositories in %s take %d of the %d MiB that they may; "+
		"keep large files out of the repositories, or raise --cache-size-limit together with the volume's size",
		gitsource.ErrStorage, o.dir, o.used>>20, o.limit>>20)
}

// Unwrap makes it a gitsource.ErrStorage.
func (o *ExceededError) Unwrap() error { return gitsource.ErrStorage }

// StorageError makes the error of a write that this machine refuses a
// gitsource.ErrStorage, with the remedy.
func StorageError(err error) error {
	if errors.Is(err, gitsource.ErrStorage) {
		return err
	}
	return fmt.Errorf("%w: %w; make the volume of --cache-dir writable, with room for caches of Git repositories", gitsource.ErrStorage, err)
}

// Usage adds up the files below a folder, in bytes. What disappears meanwhile, or
// cannot be read, counts as nothing.
func Usage(dir string) int64 {
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
