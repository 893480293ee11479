package gogit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// mirror is a folder of generations, each a bare object store, and a record
// that names the generation and object of the last good snapshot. The record
// is written last and renamed into place, so that a crash at any point leaves
// the previous one in force.
//
//	<dir>/last.json        the record
//	<dir>/gen-7/objects/…  the generation it names
//	<dir>/gen-6/objects/…  the one before, for snapshots still being read
type mirror struct {
	dir      string
	identity string
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
	// Tips are the commits whose history a Repository fetched, Trees those
	// whose files it holds besides; the latest last.
	Tips  []string `json:",omitempty"`
	Trees []string `json:",omitempty"`
}

// maxPacks is how many transfers a generation collects before a fresh clone
// replaces it: each lookup asks every pack.
const maxPacks = 32

// openMirror opens the mirror of what the identity says, a URL and a use.
func openMirror(dir, identity string) (*mirror, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the mirror's folder: %w", err)
	}
	sum := sha256.Sum256([]byte(identity))
	m := &mirror{dir: dir, identity: hex.EncodeToString(sum[:])}
	rec, _ := m.last()
	return m, m.sweep(rec.Generation)
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
	if err != nil {
		return "", fmt.Errorf("listing the mirror: %w", err)
	}
	newest := 0
	for _, e := range entries {
		if n, ok := generationNumber(e.Name()); ok {
			newest = max(newest, n)
		}
	}
	name := fmt.Sprintf("gen-%d", newest+1)
	if err := os.MkdirAll(packFolder(m.path(name)), 0o700); err != nil {
		return "", fmt.Errorf("creating a mirror: %w", err)
	}
	return name, nil
}

// drop removes a generation that came to nothing. What it cannot remove, the
// next sweep does.
func (m *mirror) drop(generation string) { _ = os.RemoveAll(m.path(generation)) }

func packFolder(generation string) string { return filepath.Join(generation, "objects", "pack") }

// crowded reports whether a fresh clone is due.
func (m *mirror) crowded(generation string) bool {
	packs, err := filepath.Glob(filepath.Join(packFolder(m.path(generation)), "*.pack"))
	return err != nil || len(packs) >= maxPacks
}

// commit makes r the last good snapshot and removes generations that are two
// or more behind.
func (m *mirror) commit(r record) error {
	r.Identity = m.identity
	before, _ := m.last()
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("recording the fetched revision: %w", err)
	}
	if err := writeAtomically(filepath.Join(m.dir, "last.json"), b); err != nil {
		return fmt.Errorf("recording the fetched revision: %w", err)
	}
	if before.Generation == r.Generation {
		return nil
	}
	return m.sweep(r.Generation, before.Generation)
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
// temporary files.
func (m *mirror) sweep(keep ...string) error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return fmt.Errorf("listing the mirror: %w", err)
	}
	kept := map[string]bool{}
	for _, k := range keep {
		kept[k] = true
	}
	for _, e := range entries {
		_, isGen := generationNumber(e.Name())
		if (!isGen && !strings.HasPrefix(e.Name(), "tmp-")) || kept[e.Name()] {
			continue
		}
		if err := os.RemoveAll(m.path(e.Name())); err != nil {
			return fmt.Errorf("cleaning the mirror: %w", err)
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
	return nil
}
