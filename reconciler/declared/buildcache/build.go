// Package buildcache keeps builds of what a folder declares from one revision to the next: what a
// kustomization, or a file of manifests, was rendered to, with everything that was read for it.
// A build counts for another revision where each of these reads gives the same there, so that a
// change costs the builds that it touches, and no others.
//
// It refuses to read what a build contains, and to trust who made it with the files that it was
// made from: digests are taken of the tree itself. Start reading at Builds and Cache.
package buildcache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"

	"github.com/poolwright/poolwright/gitsource"
)

// Build is a build of what a folder declares. Its JSON form is without the Content, which is JSON itself.
type Build struct {
	// Name is unique among those of a folder.
	Name string `json:"name"`
	// Reads are all that was read of the tree for it, each once.
	Reads []Read `json:"reads,omitempty"`
	// Content is what it was rendered to.
	Content []byte `json:"-"`
}

// Read is a read of a tree: an operation, and the name that it is about.
type Read string

// The operations.
const (
	opStat     = 's'
	opLstat    = 'l'
	opReadLink = 't'
	opReadDir  = 'd'
	opReadFile = 'f'
)

func read(op byte, name string) Read { return Read(string(rune(op)) + name) }

// Digest stands for what the reads give in a tree: where two digests are the same, so is
// everything that was read.
func Digest(tree fs.FS, reads []Read) string {
	sum := sha256.New()
	for _, r := range reads {
		_, _ = fmt.Fprintf(sum, "%q %s\n", r, result(tree, r))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// result stands for what a read gives.
func result(tree fs.FS, r Read) string {
	if r == "" {
		return "nothing"
	}
	name := string(r[1:])
	var out string
	var err error
	switch r[0] {
	case opStat:
		out, err = described(tree, name, true)
	case opLstat:
		out, err = described(tree, name, false)
	case opReadLink:
		out, err = fs.ReadLink(tree, name)
	case opReadDir:
		out, err = listed(tree, name)
	case opReadFile:
		out, err = identified(tree, name)
	default:
		return "unknown"
	}
	if err != nil {
		return "error " + err.Error()
	}
	return "ok " + out
}

// described stands for a file as stat has it, or as lstat where the last link is not followed. Its size is
// that of its content.
func described(tree fs.FS, name string, follow bool) (string, error) {
	mode, err := modeOf(tree, name, follow)
	if err != nil || !mode.IsRegular() {
		return mode.String(), err
	}
	id, err := identified(tree, name)
	return mode.String() + " " + id, err
}

func modeOf(tree fs.FS, name string, follow bool) (fs.FileMode, error) {
	if known, ok := tree.(gitsource.ModeReader); ok {
		return known.ModeOf(name, follow)
	}
	stat := fs.Stat
	if !follow {
		stat = fs.Lstat
	}
	info, err := stat(tree, name)
	if err != nil {
		return 0, err
	}
	return info.Mode(), nil
}

func listed(tree fs.FS, name string) (string, error) {
	entries, err := fs.ReadDir(tree, name)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, e := range entries {
		_, _ = fmt.Fprintf(sum, "%q %s\n", e.Name(), e.Type())
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// identified stands for a file's content.
func identified(tree fs.FS, name string) (string, error) {
	if known, ok := tree.(gitsource.Identifier); ok {
		return known.ContentID(name)
	}
	content, err := fs.ReadFile(tree, name)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}
