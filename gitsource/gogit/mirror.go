package gogit

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
)

// mirror is a folder of generations, each a bare object store, and a record
// that names the generation and object of the last good snapshot. The record
// is written last and renamed into place, so that a crash at any point leaves
// the previous one in force.
//
// A generation takes at most generationBytes, what is on its way into it included, and
// there are at most two while one is written to.
//
//	<dir>/last.json        the record
//	<dir>/gen-7/objects/…  the generation it names
//	<dir>/gen-6/objects/…  the one before, for snapshots still being read
type mirror struct {
	dir       string
	identity  string
	packBytes int64
	disk      *Disk
}

// record is the content of last.json.
type record struct {
	// Identity is a digest of URL and reference.
	Identity string
	// Generation is the folder's name.
	Generation string
	// Object is the commit, or the annotated tag that was asked for.
	Object string
	// Shallow says that only the newest commit is held.
	Shallow bool
	// Filtered says that a Repository fetched commits without their trees.
	Filtered bool `json:",omitempty"`
	// Bytes is what the generation took when it was new.
	Bytes int64 `json:",omitempty"`
	// Tips are the commits whose history a Repository fetched, Trees those
	// whose files it holds besides; the latest last.
	Tips  []string `json:",omitempty"`
	Trees []string `json:",omitempty"`
}

// maxPacks is how many transfers a generation collects before a fresh clone
// replaces it: each lookup asks every pack.
const maxPacks = 32

// generationBytes is what one generation may take: the largest transfer, and half of
// that for what comes after it, for indexes, and for a thin pack beside the whole one that is
// made of it.
func generationBytes(packBytes int64) int64 { return packBytes + packBytes/2 }

// growth is what may be added to a generation that took first bytes when it was new,
// before a fresh one is due: as much again, so that the fresh one costs no more than
// what it replaces, or what is not worth one.
func growth(first, packBytes int64) int64 { return max(first, packBytes/16) }

// MirrorBytes is the most that a mirror takes on disk, in bytes, under the default
// Limits, of a repository of which one transfer takes at most that many.
func MirrorBytes(transfer int64) int64 {
	packBytes := Limits{}.withDefaults().PackBytes
	grown := transfer + growth(transfer, packBytes) + transfer
	return min(grown, generationBytes(packBytes)) + min(transfer, generationBytes(packBytes))
}

// openMirror opens the mirror of what the identity says, a URL and a use. It
// writes nothing: a disk that is full now may have room when it is needed.
func openMirror(c Config, limits Limits, identity string) *mirror {
	sum := sha256.Sum256([]byte(identity))
	m := &mirror{dir: c.Dir, identity: hex.EncodeToString(sum[:]), packBytes: limits.PackBytes, disk: c.Disk}
	rec, _ := m.last()
	m.sweep(rec.Generation)
	return m
}

func (m *mirror) path(generation string) string { return filepath.Join(m.dir, generation) }

// last reads the record; false when there is none for this URL and reference,
// or it makes no sense.
func (m *mirror) last() (record, bool) {
	b, err := os.ReadFile(filepath.Join(m.dir, "last.json"))
	if err != nil {
		return record{}, false
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil || r.Identity != m.identity || !isCommit(r.Object) {
		return record{}, false
	}
	if _, ok := generationNumber(r.Generation); !ok {
		return record{}, false
	}
	return r, true
}

func generationNumber(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "gen-")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n > 0 && name == fmt.Sprintf("gen-%d", n)
}

// newGeneration creates an empty generation with the next free number.
func (m *mirror) newGeneration() (string, error) {
	entries, err := os.ReadDir(m.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("listing the mirror: %w", notStored(err))
	}
	newest := 0
	for _, e := range entries {
		if n, ok := generationNumber(e.Name()); ok {
			newest = max(newest, n)
		}
	}
	name := fmt.Sprintf("gen-%d", newest+1)
	if err := os.MkdirAll(packFolder(m.path(name)), 0o700); err != nil {
		return "", fmt.Errorf("creating a mirror: %w", notStored(err))
	}
	return name, nil
}

// storeFor makes room for a transfer into a generation, and counts what it may still
// take. Of the other generations only the one that the record names stays: who
// still reads an older snapshot has had all the time since the last transfer.
func (m *mirror) storeFor(generation string) *store {
	last, _ := m.last()
	m.sweep(last.Generation, generation)
	left := generationBytes(m.packBytes) - bytesBelow(m.path(generation))
	return &store{folder: packFolder(m.path(generation)), disk: m.disk, left: left}
}

// drop removes a generation that came to nothing. What it cannot remove, the
// next sweep does.
func (m *mirror) drop(generation string) { _ = os.RemoveAll(m.path(generation)) }

func packFolder(generation string) string { return filepath.Join(generation, "objects", "pack") }

// crowded reports whether a fresh generation is due: after so many transfers, or
// because it has grown.
func (m *mirror) crowded(r record, transfers int) bool {
	packs, err := filepath.Glob(filepath.Join(packFolder(m.path(r.Generation)), "*.pack"))
	added := bytesBelow(m.path(r.Generation)) - r.Bytes
	return err != nil || len(packs) >= transfers || added > growth(r.Bytes, m.packBytes)
}

// commit makes r the last good snapshot. The generation before stays until the next
// transfer, for snapshots that are still being read.
func (m *mirror) commit(r *record) error {
	r.Identity = m.identity
	before, _ := m.last()
	if r.Bytes = before.Bytes; before.Generation != r.Generation {
		r.Bytes = bytesBelow(m.path(r.Generation))
	}
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("recording the fetched revision: %w", err)
	}
	if err := writeAtomically(filepath.Join(m.dir, "last.json"), b); err != nil {
		return fmt.Errorf("recording the fetched revision: %w", notStored(err))
	}
	if before.Generation != r.Generation {
		m.sweep(r.Generation, before.Generation)
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

// sweep removes what a crash may have left: generations that are not kept, and
// temporary files. What cannot be removed counts against the budget, and is tried
// again by the next.
func (m *mirror) sweep(keep ...string) {
	entries, _ := os.ReadDir(m.dir)
	for _, e := range entries {
		_, isGen := generationNumber(e.Name())
		if (isGen || strings.HasPrefix(e.Name(), "tmp-")) && !slices.Contains(keep, e.Name()) {
			_ = os.RemoveAll(m.path(e.Name()))
		}
	}
	for _, k := range keep {
		if k == "" {
			continue
		}
		left, _ := filepath.Glob(filepath.Join(packFolder(m.path(k)), "tmp-*"))
		for _, f := range left {
			_ = os.Remove(f)
		}
	}
}
