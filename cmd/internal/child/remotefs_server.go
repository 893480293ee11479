package child

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/poolwright/poolwright/gitsource"
)

// The requests that a child makes about the tree.
const (
	opStat     = 's'
	opLstat    = 'l'
	opReadLink = 't'
	opReadDir  = 'd'
	opReadFile = 'f'
)

// entry is a file as stat or its folder has it. Names may be any bytes.
type entry struct {
	Name []byte      `json:"n"`
	Size int64       `json:"s,omitempty"`
	Mode fs.FileMode `json:"m,omitempty"`
}

func entryOf(info fs.FileInfo) entry {
	return entry{Name: []byte(info.Name()), Size: info.Size(), Mode: info.Mode()}
}

// treeError is an error of the tree, with all by which package declared distinguishes
// errors.
type treeError struct {
	Text string `json:"text"`
	// Op and Path are those of a fs.PathError; Text is then what it wraps.
	Op   string `json:"op,omitempty"`
	Path string `json:"path,omitempty"`
	// Kinds are the places in errorKinds of what the error is.
	Kinds []int `json:"kinds,omitempty"`
}

// errorKinds are the errors by which a source's failure is distinguished from a user's
// problem.
var errorKinds = []error{gitsource.ErrLimit, gitsource.ErrUnsafe, fs.ErrNotExist, fs.ErrInvalid, fs.ErrPermission}

func treeErrorOf(err error) treeError {
	out := treeError{Text: err.Error()}
	// Only an outermost one: what is around it would be lost.
	if pe, ok := err.(*fs.PathError); ok { //nolint:errorlint // Only the outermost error may match, as the comment above states.
		out = treeError{Text: pe.Err.Error(), Op: pe.Op, Path: pe.Path}
	}
	for i, kind := range errorKinds {
		if errors.Is(err, kind) {
			out.Kinds = append(out.Kinds, i)
		}
	}
	return out
}

// err is the error again.
func (r treeError) err() error {
	inner := &remoteError{text: r.Text}
	for _, i := range r.Kinds {
		if i >= 0 && i < len(errorKinds) {
			inner.kinds = append(inner.kinds, errorKinds[i])
		}
	}
	if r.Op != "" {
		return &fs.PathError{Op: r.Op, Path: r.Path, Err: inner}
	}
	return inner
}

// remoteError is an error that happened in another process.
type remoteError struct {
	text  string
	kinds []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.kinds }

// respond is the tree's response to a request, as the payload of a reply: a zero byte
// and the content, or a one and the error. A file that is larger than most is not
// read.
func respond(tree fs.FS, request []byte, most int64) ([]byte, error) {
	content, err := readTree(tree, request, most)
	if errors.Is(err, errSendLimit) {
		return nil, err
	}
	if err != nil {
		raw, err := json.Marshal(treeErrorOf(err))
		return append([]byte{1}, raw...), err
	}
	return append([]byte{0}, content...), nil
}

func readTree(tree fs.FS, request []byte, most int64) ([]byte, error) {
	if len(request) == 0 {
		return nil, fs.ErrInvalid
	}
	name := string(request[1:])
	switch request[0] {
	case opStat:
		info, err := fs.Stat(tree, name)
		if err != nil {
			return nil, err
		}
		return json.Marshal(entryOf(info))
	case opLstat:
		info, err := fs.Lstat(tree, name)
		if err != nil {
			return nil, err
		}
		return json.Marshal(entryOf(info))
	case opReadLink:
		target, err := fs.ReadLink(tree, name)
		return []byte(target), err
	case opReadDir:
		return list(tree, name)
	case opReadFile:
		info, err := fs.Stat(tree, name)
		if err == nil && info.Size() > most {
			return nil, errSendLimit
		}
		return fs.ReadFile(tree, name)
	}
	return nil, fs.ErrInvalid
}

func list(tree fs.FS, name string) ([]byte, error) {
	found, err := fs.ReadDir(tree, name)
	if err != nil {
		return nil, err
	}
	out := make([]entry, len(found))
	for i, e := range found {
		out[i] = entry{Name: []byte(e.Name()), Mode: e.Type()}
	}
	return json.Marshal(out)
}
