// Package clonecache keeps what was fetched of a Git repository on disk, as bare repositories
// without references, of which the newest one grows until a fresh one costs no more. A crash
// at any point leaves the last good revision in force. It refuses to grow beyond what its
// packs may take, trusts no record that was made for another use, and reads no objects. Start
// reading at Cache.
package clonecache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/gitsource/gogit/internal/disk"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/pack"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/refs"
)

// Cache is a folder of clones, each a bare repository, and a record
// that names the clone and object of the last good snapshot. The record
// is written last and renamed into place, so that a crash at any point leaves
// the previous one in force.
//
// A clone takes at most cloneBytes, what is on its way into it included, and
// there are at most two while one is written to.
//
//	<dir>/last.json        the record
//	<dir>/gen-7/objects/…  the clone it names
//	<dir>/gen-6/objects/…  the one before, for snapshots still being read
type Cache struct {
	dir       string
	identity  string
	packBytes int64
	disk      *disk.Budget
}

// Record is the content of last.json.
type Record struct {
	// Identity is a digest of URL and reference.
	Identity string
	// Clone is the folder's name ("gen-7").
	Clone string
	// Object is the id of the commit, or of the annotated tag, that was fetched.
	Object string
	// Shallow is true where only the newest commit is present.
	Shallow bool
	// Filtered is true where commits were fetched without their trees.
	Filtered bool `json:",omitempty"`
	// Bytes is what the clone took on disk when it was new.
	Bytes int64 `json:",omitempty"`
	// Tips are the commits whose history was fetched; the latest last.
	Tips []string `json:",omitempty"`
	// Trees are the commits whose files are present besides; the latest last.
	Trees []string `json:",omitempty"`
}

// cloneBytes is what one clone may take: the largest transfer, and half of
// that for what comes after it, for indexes, and for a thin pack beside the whole one that is
// made of it.
func cloneBytes(packBytes int64) int64 { return packBytes + packBytes/2 }

// growth is what may be added to a clone that took first bytes when it was new,
// before a fresh one is due: as much again, so that the fresh one costs no more than
// what it replaces, or what is not worth one.
func growth(first, packBytes int64) int64 { return max(first, packBytes/16) }

// MaxBytes is the most that a cache takes on disk, in bytes, of a repository of which one
// transfer takes at most that many, where none may take more than packBytes.
func MaxBytes(transfer, packBytes int64) int64 {
	grown := transfer + growth(transfer, packBytes) + transfer
	return min(grown, cloneBytes(packBytes)) + min(transfer, cloneBytes(packBytes))
}

// Open opens the cache in a folder, of what the identity names: a URL and a use. It
// writes nothing: a disk that is full now may have room when it is needed. No transfer into it
// takes more than packBytes; budget may be nil.
func Open(dir, identity string, packBytes int64, budget *disk.Budget) *Cache {
	sum := sha256.Sum256([]byte(identity))
	m := &Cache{dir: dir, identity: hex.EncodeToString(sum[:]), packBytes: packBytes, disk: budget}
	rec, _ := m.Last()
	m.sweep(rec.Clone)
	return m
}

// Folder is the folder of the cache.
func (m *Cache) Folder() string { return m.dir }

// BudgetRemaining is how many bytes the budget has left, 0 where there is none.
func (m *Cache) BudgetRemaining() int64 { return m.disk.Remaining() }

// HasClone reports whether the folder of a clone is there.
func (m *Cache) HasClone(clone string) bool {
	info, err := os.Stat(packFolder(m.Path(clone)))
	return err == nil && info.IsDir()
}

// Path is the folder of a clone, a bare repository.
func (m *Cache) Path(clone string) string { return filepath.Join(m.dir, clone) }

// Last reads the record; false when there is none for this URL and use,
// or it is not valid.
func (m *Cache) Last() (Record, bool) {
	b, err := os.ReadFile(filepath.Join(m.dir, "last.json"))
	if err != nil {
		return Record{}, false
	}
	var r Record
	if err := json.Unmarshal(b, &r); err != nil || r.Identity != m.identity || !refs.IsCommitID(r.Object) {
		return Record{}, false
	}
	if _, ok := cloneNumber(r.Clone); !ok {
		return Record{}, false
	}
	return r, true
}

func cloneNumber(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "gen-")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n > 0 && name == fmt.Sprintf("gen-%d", n)
}

// NewClone creates an empty clone with the next free number.
func (m *Cache) NewClone() (string, error) {
	entries, err := os.ReadDir(m.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("listing the cache: %w", disk.StorageError(err))
	}
	newest := 0
	for _, e := range entries {
		if n, ok := cloneNumber(e.Name()); ok {
			newest = max(newest, n)
		}
	}
	name := fmt.Sprintf("gen-%d", newest+1)
	if err := os.MkdirAll(packFolder(m.Path(name)), 0o700); err != nil {
		return "", fmt.Errorf("creating a cache: %w", disk.StorageError(err))
	}
	return name, nil
}

// StoreFor makes room for a transfer into a clone, and counts what it may still
// take. Of the other clones only the one that the record names stays: who
// still reads an older snapshot has had all the time since the last transfer.
func (m *Cache) StoreFor(clone string) *pack.Store {
	last, _ := m.Last()
	m.sweep(last.Clone, clone)
	left := cloneBytes(m.packBytes) - disk.Usage(m.Path(clone))
	return pack.NewStore(packFolder(m.Path(clone)), m.disk.Grant, left)
}

// Drop removes a clone that came to nothing. What cannot be removed is tried again
// later.
func (m *Cache) Drop(clone string) { _ = os.RemoveAll(m.Path(clone)) }

func packFolder(clone string) string { return filepath.Join(clone, "objects", "pack") }

// NeedsNewClone reports whether a fresh clone is due: after so many transfers, or
// because it has grown.
func (m *Cache) NeedsNewClone(r Record, transfers int) bool {
	packs, err := filepath.Glob(filepath.Join(packFolder(m.Path(r.Clone)), "*.pack"))
	added := disk.Usage(m.Path(r.Clone)) - r.Bytes
	return err != nil || len(packs) >= transfers || added > growth(r.Bytes, m.packBytes)
}

// Commit makes r the last good snapshot. The clone before stays until the next
// transfer, for snapshots that are still being read.
func (m *Cache) Commit(r *Record) error {
	r.Identity = m.identity
	before, _ := m.Last()
	if r.Bytes = before.Bytes; before.Clone != r.Clone {
		r.Bytes = disk.Usage(m.Path(r.Clone))
	}
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("recording the fetched revision: %w", err)
	}
	if err := writeAtomically(filepath.Join(m.dir, "last.json"), b); err != nil {
		return fmt.Errorf("recording the fetched revision: %w", disk.StorageError(err))
	}
	if before.Clone != r.Clone {
		m.sweep(r.Clone, before.Clone)
	}
	return nil
}

func writeAtomically(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "tmp-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// sweep removes what a crash may have left: clones that are not kept, and
// temporary files. What cannot be removed counts against the budget, and is tried
// again by the next.
func (m *Cache) sweep(keep ...string) {
	entries, _ := os.ReadDir(m.dir)
	for _, e := range entries {
		_, isGen := cloneNumber(e.Name())
		if (isGen || strings.HasPrefix(e.Name(), "tmp-")) && !slices.Contains(keep, e.Name()) {
			_ = os.RemoveAll(m.Path(e.Name()))
		}
	}
	for _, k := range keep {
		if k == "" {
			continue
		}
		left, _ := filepath.Glob(filepath.Join(packFolder(m.Path(k)), "tmp-*"))
		for _, f := range left {
			_ = os.Remove(f)
		}
	}
}
