// Package build makes the sandbox's helper programs from source and keeps
// them, so that a fresh clone needs only Go, Git and a C compiler, and the
// second start needs nothing.
//
// A program lives in a Go module (or folder) of this repository. It is built
// into <repository>/.cache/<name>-<key>/, where the key is a hash of
// everything that decides the result; a changed line or a new Go version is a
// new folder, never an overwritten one. The package refuses to use a folder
// that was not finished: work happens under a temporary name and ends with a
// rename, under a lock that makes two processes build once.
//
// It downloads nothing by itself and runs nothing that it built: `go build`
// fetches modules as it would for any user. Start reading at Ensure.
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// CacheEnv names the environment variable that moves the cache to another
// folder, for machines that keep it between clones.
const CacheEnv = "POOLWRIGHT_CACHE"

// Program is what to build. The zero value of a field means "nothing special"; Name and
// Dir are required.
type Program struct {
	// Name is the file name of the binary and the front of its cache folder.
	Name string
	// Dir is the folder of its main package, relative to the repository root.
	Dir string
	// Tags are Go build tags.
	Tags []string
	// LDFlags is handed to the linker after -s -w.
	LDFlags string
	// CGO is true where a C compiler is needed; without it CGO is switched off.
	CGO bool
	// Links are further names of the binary, made as symbolic links beside it.
	Links []string
	// Assets are folders that the program reads at run time. They are copied
	// beside the binary, because the module cache may be emptied at any time.
	Assets Assets
}

// Assets names folders of a Go module that Program's go.mod requires.
type Assets struct {
	Module  string
	Folders []string
}

// Built is a finished cache folder.
type Built struct {
	// Dir holds the binary, its links and the asset folders.
	Dir string
	// Path is the binary.
	Path string
}

// Tool is the path of one of Program.Links.
func (b Built) Tool(name string) string { return filepath.Join(b.Dir, name) }

// Builder finds or makes programs. Get one from New.
type Builder struct {
	root  string
	cache string
	log   io.Writer
}

// New returns a Builder for the repository around dir. Progress is written to
// log, one line at a time; nil writes nothing. It fails when dir is not inside a clone
// of this repository.
func New(dir string, log io.Writer) (*Builder, error) {
	root, err := findRoot(dir)
	if err != nil {
		return nil, err
	}
	cache := filepath.Join(root, ".cache")
	if moved := os.Getenv(CacheEnv); moved != "" {
		if cache, err = filepath.Abs(moved); err != nil {
			return nil, fmt.Errorf("reading %s=%q: %w", CacheEnv, moved, err)
		}
	}
	if log == nil {
		log = io.Discard
	}
	return &Builder{root: root, cache: cache, log: log}, nil
}

// Ensure returns the program, built now if no finished folder has its key. Two
// processes that call it at once build once: the second waits and reports that. A
// cancelled ctx stops the build and leaves no folder behind.
func (b *Builder) Ensure(ctx context.Context, p Program) (Built, error) {
	key, err := b.key(ctx, p)
	if err != nil {
		return Built{}, fmt.Errorf("naming the build of %s: %w", p.Name, err)
	}
	dir := filepath.Join(b.cache, p.Name+"-"+key)
	built := Built{Dir: dir, Path: filepath.Join(dir, p.Name)}
	if finished(dir) {
		return built, nil
	}
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return Built{}, fmt.Errorf("making the build cache: %w (set %s to a folder that can be written)", err, CacheEnv)
	}
	unlock, err := b.lock(ctx, p.Name)
	if err != nil {
		return Built{}, err
	}
	defer unlock()
	if finished(dir) { // the process that held the lock was building it
		return built, nil
	}
	if err := b.make(ctx, p, dir); err != nil {
		return Built{}, fmt.Errorf("building %s: %w", p.Name, err)
	}
	return built, nil
}

// finished relies on the rename: a folder of this name exists only whole.
func finished(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// make builds into a temporary folder and renames it to dir. The caller holds
// the program's lock, so leftovers of a killed build are ours to remove.
func (b *Builder) make(ctx context.Context, p Program, dir string) (err error) {
	stale, err := filepath.Glob(filepath.Join(b.cache, ".new-"+p.Name+"-*"))
	if err != nil {
		return fmt.Errorf("finding unfinished builds: %w", err)
	}
	for _, folder := range stale {
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("removing an unfinished build: %w", err)
		}
	}
	fresh, err := os.MkdirTemp(b.cache, ".new-"+p.Name+"-*")
	if err != nil {
		return fmt.Errorf("making a folder to build in: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(fresh))
		}
	}()
	start := time.Now()
	fmt.Fprintf(b.log, "building %s: the first time this takes minutes, then it is kept in %s\n", p.Name, b.cache)
	stop := b.heartbeat(p.Name, start)
	err = b.compile(ctx, p, filepath.Join(fresh, p.Name))
	stop()
	if err != nil {
		return err
	}
	if err := b.furnish(ctx, p, fresh); err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return fmt.Errorf("opening the finished folder to readers: %w", err)
	}
	if err := os.Rename(fresh, dir); err != nil {
		return fmt.Errorf("naming the finished build: %w", err)
	}
	fmt.Fprintf(b.log, "built %s in %s\n", p.Name, time.Since(start).Round(time.Second))
	return nil
}

// heartbeat reports every half minute that a build without output still runs. The
// returned function ends it and waits until it writes no more.
func (b *Builder) heartbeat(name string, start time.Time) func() {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(30 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case now := <-tick.C:
				fmt.Fprintf(b.log, "still building %s after %s\n", name, now.Sub(start).Round(time.Second))
			}
		}
	}()
	return func() { close(quit); <-done }
}
