package buildcache

import (
	"io/fs"
	"maps"
	"slices"
)

// Recorder is a tree that records what is read of it. It is used by one goroutine at a time.
type Recorder struct {
	tree  fs.FS
	reads map[Read]bool
}

// Record records the reads of a tree.
func Record(tree fs.FS) *Recorder { return &Recorder{tree: tree, reads: map[Read]bool{}} }

// FS is the tree, by which is read what is to be recorded.
func (r *Recorder) FS() fs.FS {
	if _, links := r.tree.(fs.ReadLinkFS); links {
		return linkedFS{recordingFS{r}}
	}
	return recordingFS{r}
}

// Reads are all that was read, each once.
func (r *Recorder) Reads() []Read {
	return slices.Sorted(maps.Keys(r.reads))
}

// recordingFS records before it reads: what fails was read, too.
type recordingFS struct{ *Recorder }

// linkedFS is one whose tree has symbolic links.
type linkedFS struct{ recordingFS }

func (f recordingFS) record(op byte, name string) { f.reads[read(op, name)] = true }

// Open implements fs.FS.
func (f recordingFS) Open(name string) (fs.File, error) {
	for _, op := range []byte{opStat, opReadDir, opReadFile} {
		f.record(op, name)
	}
	return f.tree.Open(name)
}

// ReadFile implements fs.ReadFileFS.
func (f recordingFS) ReadFile(name string) ([]byte, error) {
	f.record(opReadFile, name)
	return fs.ReadFile(f.tree, name)
}

// Stat implements fs.StatFS.
func (f recordingFS) Stat(name string) (fs.FileInfo, error) {
	f.record(opStat, name)
	return fs.Stat(f.tree, name)
}

// ReadDir implements fs.ReadDirFS.
func (f recordingFS) ReadDir(name string) ([]fs.DirEntry, error) {
	f.record(opReadDir, name)
	return fs.ReadDir(f.tree, name)
}

// Lstat implements fs.ReadLinkFS.
func (f linkedFS) Lstat(name string) (fs.FileInfo, error) {
	f.record(opLstat, name)
	return fs.Lstat(f.tree, name)
}

// ReadLink implements fs.ReadLinkFS.
func (f linkedFS) ReadLink(name string) (string, error) {
	f.record(opReadLink, name)
	return fs.ReadLink(f.tree, name)
}
