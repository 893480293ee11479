package child

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"
)

// remoteFS is the parent's tree in the child: every request goes to the parent, so that
// links, errors and sizes are what they are there, and of a large repository only what a
// folder needs is sent, which an archive of the tree would send whole. Each is sent once: a tree does not
// change. It is safe for concurrent use.
type remoteFS struct {
	mu    sync.Mutex
	out   *writer
	reply func() ([]byte, error)
	// known are the responses, by request and name.
	known map[string]known
}

// known is a response that came, or the tree's error.
type known struct {
	content []byte
	err     error
}

// linked is a remote tree whose owner supports symbolic links.
type linked struct{ *remoteFS }

func (b *remoteFS) call(request byte, name string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := string(request) + name
	if was, ok := b.known[key]; ok {
		return bytes.Clone(was.content), was.err
	}
	if err := b.out.send(frameRead, append([]byte{request}, name...)); err != nil {
		return nil, err
	}
	payload, err := b.reply()
	if err != nil {
		return nil, err
	}
	switch {
	case len(payload) == 0:
		return nil, errors.New("the response about a file is empty")
	case payload[0] != 0:
		var r treeError
		if err := json.Unmarshal(payload[1:], &r); err != nil {
			return nil, err
		}
		b.known[key] = known{err: r.err()}
		return nil, b.known[key].err
	}
	b.known[key] = known{content: payload[1:]}
	return bytes.Clone(payload[1:]), nil
}

func (b *remoteFS) stat(request byte, name string) (fs.FileInfo, error) {
	raw, err := b.call(request, name)
	if err != nil {
		return nil, err
	}
	info := &fileInfo{}
	return info, json.Unmarshal(raw, &info.entry)
}

// Open implements fs.FS.
func (b *remoteFS) Open(name string) (fs.File, error) {
	info, err := b.Stat(name)
	if err != nil {
		return nil, err
	}
	f := &openFile{tree: b, name: name, info: info}
	if !info.IsDir() {
		content, err := b.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f.content = bytes.NewReader(content)
	}
	return f, nil
}

// ReadFile implements fs.ReadFileFS.
func (b *remoteFS) ReadFile(name string) ([]byte, error) { return b.call(opReadFile, name) }

// Stat implements fs.StatFS.
func (b *remoteFS) Stat(name string) (fs.FileInfo, error) { return b.stat(opStat, name) }

// ReadDir implements fs.ReadDirFS.
func (b *remoteFS) ReadDir(name string) ([]fs.DirEntry, error) {
	raw, err := b.call(opReadDir, name)
	if err != nil {
		return nil, err
	}
	var entries []entry
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, err
	}
	out := make([]fs.DirEntry, len(entries))
	for i, e := range entries {
		out[i] = &dirEntry{fileInfo: fileInfo{e}, tree: b, folder: name}
	}
	return out, nil
}

// Lstat implements fs.ReadLinkFS.
func (l linked) Lstat(name string) (fs.FileInfo, error) { return l.stat(opLstat, name) }

// ReadLink implements fs.ReadLinkFS.
func (l linked) ReadLink(name string) (string, error) {
	target, err := l.call(opReadLink, name)
	return string(target), err
}

// fileInfo is an entry as fs has it. It has no times.
type fileInfo struct{ entry }

func (i *fileInfo) Name() string       { return string(i.entry.Name) }
func (i *fileInfo) Size() int64        { return i.entry.Size }
func (i *fileInfo) Mode() fs.FileMode  { return i.entry.Mode }
func (i *fileInfo) ModTime() time.Time { return time.Time{} }
func (i *fileInfo) IsDir() bool        { return i.entry.Mode.IsDir() }
func (i *fileInfo) Sys() any           { return nil }

// dirEntry is an entry of a folder.
type dirEntry struct {
	fileInfo
	tree   *remoteFS
	folder string
}

func (d *dirEntry) Type() fs.FileMode { return d.Mode().Type() }

// Info reads the entry itself: a link's is not what it leads to.
func (d *dirEntry) Info() (fs.FileInfo, error) {
	operation := byte(opStat)
	if d.Type()&fs.ModeSymlink != 0 {
		operation = opLstat
	}
	return d.tree.stat(operation, path.Join(d.folder, d.Name()))
}

// openFile is a file or folder that was opened.
type openFile struct {
	tree *remoteFS
	name string
	info fs.FileInfo
	// content is a file's, nil of a folder.
	content *bytes.Reader
	// rest are the folder's entries that were not read yet, once listed.
	rest   []fs.DirEntry
	listed bool
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFile) Close() error               { return nil }

// Read implements fs.File.
func (f *openFile) Read(p []byte) (int, error) {
	if f.content == nil {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: errors.New("is a directory")}
	}
	return f.content.Read(p)
}

// ReadDir implements fs.ReadDirFile.
func (f *openFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if !f.listed {
		entries, err := f.tree.ReadDir(f.name)
		if err != nil {
			return nil, err
		}
		f.rest, f.listed = entries, true
	}
	if n > 0 && len(f.rest) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(f.rest) {
		n = len(f.rest)
	}
	out := f.rest[:n]
	f.rest = f.rest[n:]
	return out, nil
}
