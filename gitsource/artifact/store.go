package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/poolwright/poolwright/gitsource"
)

// store is a folder of artifacts, and a record of them. The record is written last and renamed into
// place, so that a crash at any point leaves the previous one in force.
//
//	<dir>/kept.json             the records
//	<dir>/content-<digits>.zip  the files of one artifact
//	<dir>/tmp-<digits>          what is being written
type store struct {
	dir, name string
	disk      Budget
}

// kept is the content of kept.json.
type kept struct {
	// Name is what the artifacts are of.
	Name string
	// Versions are the artifacts, the newest first.
	Versions []keptArtifact
}

// keptArtifact is one artifact that is kept.
type keptArtifact struct {
	Revision, Digest string
	// OriginRevision is that of the Snapshot.
	OriginRevision string `json:",omitempty"`
	// File is the name of the file with its files, TreeID what they have to be.
	File, TreeID string
}

func (s store) path(name string) string { return filepath.Join(s.dir, name) }

// storageError is an error of the disk.
func storageError(err error) error {
	if errors.Is(err, gitsource.ErrStorage) {
		return err
	}
	return fmt.Errorf("%w: %w", gitsource.ErrStorage, err)
}

// written is a file that counts against the budget while it is written.
type written struct {
	*os.File
	disk    Budget
	granted int64
}

// granule is how many bytes are requested of the budget at a time.
const granule = 1 << 20

// create makes a temporary file.
func (s store) create() (*written, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, storageError(err)
	}
	f, err := os.CreateTemp(s.dir, "tmp-")
	if err != nil {
		return nil, storageError(err)
	}
	return &written{File: f, disk: s.disk}, nil
}

// Write implements io.Writer.
func (w *written) Write(b []byte) (int, error) {
	for w.disk != nil && w.granted < int64(len(b)) {
		if err := w.disk.Grant(granule); err != nil {
			return 0, storageError(err)
		}
		w.granted += granule
	}
	w.granted -= int64(len(b))
	n, err := w.File.Write(b)
	if err != nil {
		err = storageError(err)
	}
	return n, err
}

// remove ends what came to nothing. What cannot be removed is so by the next commit.
func (w *written) remove() {
	_ = w.Close()
	_ = os.Remove(w.Name())
}

// add gives what was written its name. It counts once commit has recorded it.
func (s store) add(revision, digest string, content *written, limit int64) (version, error) {
	if err := content.Sync(); err != nil {
		content.remove()
		return version{}, storageError(err)
	}
	t, err := openTree(content.File, limit)
	if err != nil {
		content.remove()
		return version{}, err
	}
	name := "content-" + strings.TrimPrefix(filepath.Base(content.Name()), "tmp-") + ".zip"
	if err := os.Rename(content.Name(), s.path(name)); err != nil {
		content.remove()
		return version{}, storageError(err)
	}
	return version{keptArtifact{Revision: revision, Digest: digest, File: name, TreeID: t.id}, t}, nil
}

// commit records what is kept, and removes everything else.
func (s store) commit(versions []version) error {
	all, names := kept{Name: s.name}, map[string]bool{recordFile: true}
	for _, v := range versions {
		all.Versions = append(all.Versions, v.keptArtifact)
		names[v.File] = true
	}
	b, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("recording an artifact: %w", err)
	}
	w, err := s.create()
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	if err = errors.Join(err, w.Sync(), w.Close()); err == nil {
		err = os.Rename(w.Name(), s.path(recordFile))
	}
	if err != nil {
		w.remove()
		return fmt.Errorf("recording an artifact: %w", storageError(err))
	}
	s.sweep(names)
	return nil
}

// sweep removes what has none of some names.
func (s store) sweep(names map[string]bool) {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if !names[e.Name()] {
			_ = os.RemoveAll(s.path(e.Name())) // What stays counts against the budget, and is tried again.
		}
	}
}

const recordFile = "kept.json"

var contentFile = regexp.MustCompile(`^content-[0-9]+\.zip$`)

// load reads what is kept, up to the first that is damaged: what is older than that is not the last. It removes what
// the record does not have, which a process left that ended, or whose disk was full.
func (s store) load(limit int64) []version {
	b, err := os.ReadFile(s.path(recordFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var all kept
	if err := json.Unmarshal(b, &all); err != nil || all.Name != s.name {
		s.sweep(nil)
		return nil
	}
	names := map[string]bool{recordFile: true}
	for _, r := range all.Versions {
		names[r.File] = true
	}
	s.sweep(names)
	var out []version
	for _, r := range all.Versions {
		t, err := s.open(r, limit)
		if err != nil {
			break
		}
		out = append(out, version{r, t})
	}
	return out
}

var errDamaged = errors.New("the files are not those that were kept")

func (s store) open(r keptArtifact, limit int64) (*tree, error) {
	if !contentFile.MatchString(r.File) {
		return nil, errDamaged
	}
	f, err := os.Open(s.path(r.File))
	if err != nil {
		return nil, err
	}
	t, err := openTree(f, limit)
	if err == nil && t.id != r.TreeID {
		err = errDamaged
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}
