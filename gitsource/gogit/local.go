package gogit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/commitgraph"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/objects"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/tree"
)

// Local reads revisions of a repository on this machine's disk, and writes
// nothing there. It runs no program, follows no alternates and no include of
// the repository's configuration. It is safe for concurrent use.
type Local struct {
	folder string
	limits Limits
	store  *filesystem.Storage

	mu      sync.Mutex
	objects *objects.Store
	history *commitgraph.Graph
}

// OpenLocal opens the repository that folder is inside of: a working copy,
// linked or not, or a bare repository.
func OpenLocal(folder string) (*Local, error) {
	fail := func(err error) (*Local, error) {
		return nil, fmt.Errorf("opening the repository at %s: %w", folder, err)
	}
	at, err := filepath.Abs(folder)
	if err != nil {
		return fail(err)
	}
	git, err := gitFolder(at)
	if err != nil {
		return fail(err)
	}
	fs, err := gitFilesystem(git)
	if err != nil {
		return fail(err)
	}
	if _, err := fs.Stat(filepath.Join("objects", "info", "alternates")); err == nil {
		return fail(errors.New("it borrows objects from another repository; copy them into it with git repack -a -d, then remove .git/objects/info/alternates"))
	}
	limits := Limits{}.withDefaults()
	// An empty filesystem for alternates, should they appear later.
	store := filesystem.NewStorageWithOptions(fs, cache.NewObjectLRU(32*cache.MiByte), filesystem.Options{AlternatesFS: memfs.New()})
	if err := readable(store); err != nil {
		return fail(err)
	}
	objs := objects.New(store)
	return &Local{folder: folder, limits: limits, store: store, objects: objs, history: commitgraph.New(objs)}, nil
}

// References are the short names of the repository's branches, those of remotes included, and of its tags, sorted.
func (l *Local) References() ([]string, error) {
	listed, err := l.store.IterReferences()
	if err != nil {
		return nil, fmt.Errorf("listing the references of %s: %w", l.folder, err)
	}
	defer listed.Close()
	var names []string
	err = listed.ForEach(func(reference *plumbing.Reference) error {
		if name := reference.Name(); name.IsBranch() || name.IsRemote() || name.IsTag() {
			names = append(names, name.Short())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the references of %s: %w", l.folder, err)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// readable refuses formats that would pass for an empty repository.
func readable(store *filesystem.Storage) error {
	cfg, err := store.Config()
	if err != nil {
		return fmt.Errorf("reading its configuration: %w", err)
	}
	extensions := cfg.Raw.Section("extensions")
	if f := extensions.Option("objectformat"); f != "" && !strings.EqualFold(f, "sha1") {
		return fmt.Errorf("its objects are named by %s; only sha1 is supported", f)
	}
	if f := extensions.Option("refstorage"); f != "" && !strings.EqualFold(f, "files") {
		return fmt.Errorf("it keeps references in the format %s; turn them into files with git refs migrate --ref-format=files", f)
	}
	return nil
}

// gitFolder finds the repository's own folder, going up from at.
func gitFolder(at string) (string, error) {
	if info, err := os.Stat(at); err == nil && !info.IsDir() {
		at = filepath.Dir(at)
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		dot := filepath.Join(dir, ".git")
		info, err := os.Stat(dot)
		switch {
		case err == nil && info.IsDir():
			return dot, nil
		case err == nil:
			return pointer(dot, "gitdir: ")
		case !errors.Is(err, os.ErrNotExist):
			return "", err
		case isBare(dir):
			return dir, nil
		case filepath.Dir(dir) == dir:
			return "", fmt.Errorf("%w: neither it nor a folder above it is a Git repository; name a folder inside a working copy", gitsource.ErrNotFound)
		}
	}
}

func isBare(dir string) bool {
	head, err := os.Stat(filepath.Join(dir, "HEAD"))
	if err != nil || !head.Mode().IsRegular() {
		return false
	}
	for _, name := range []string{"objects", "refs"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// maxPointer bounds the small files in which Git writes a path.
const maxPointer = 4096

// pointer reads a file that holds a path, relative to the file's folder.
func pointer(file, prefix string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxPointer {
		return "", fmt.Errorf("%s is not a file that names a folder", file)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), prefix)
	if !ok || path == "" {
		return "", fmt.Errorf("%s does not begin with %q", file, prefix)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	return path, nil
}

// gitFilesystem opens a repository's folder, and for a linked working copy the
// one that it shares with the others.
func gitFilesystem(git string) (billy.Filesystem, error) {
	if info, err := os.Stat(git); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%w: the folder %s, which its .git names, is not there", gitsource.ErrNotFound, git)
	}
	own := osfs.New(git, osfs.WithBoundOS())
	common, err := pointer(filepath.Join(git, "commondir"), "")
	switch {
	case errors.Is(err, os.ErrNotExist):
		return own, nil
	case err != nil:
		return nil, err
	}
	return dotgit.NewRepositoryFilesystem(own, osfs.New(common, osfs.WithBoundOS())), nil
}

// Compare reads two revisions and their merge base, the former named as
// Git does: "main", "origin/main", "HEAD~1", a tag, a full or short commit id.
func (l *Local) Compare(ctx context.Context, base, head string) (gitsource.Comparison, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects.Refresh()
	b, err := l.resolve(base)
	if err != nil {
		return gitsource.Comparison{}, err
	}
	h, err := l.resolve(head)
	if err != nil {
		return gitsource.Comparison{}, err
	}
	p, err := l.mergeBase(ctx, b, h)
	if err != nil {
		return gitsource.Comparison{}, fmt.Errorf("comparing %q with %q in the repository at %s: %w", head, base, l.folder, err)
	}
	c := gitsource.Comparison{UniqueMergeBase: p.Unique}
	// One walker, so that what they share is read once.
	walker := tree.NewWalker(l.objects, l.limits.tree())
	for _, s := range []struct {
		to         *gitsource.Snapshot
		expression string
		commit     plumbing.Hash
	}{{&c.Base, base, b}, {&c.Head, head, h}, {&c.MergeBase, p.Commit.String(), p.Commit}} {
		if *s.to, err = l.snapshot(walker, s.expression, s.commit); err != nil {
			return gitsource.Comparison{}, fmt.Errorf("reading revision %q of the repository at %s: %w", s.expression, l.folder, hint(err))
		}
	}
	return c, nil
}

const unshallow = "fetch all of it with git fetch --unshallow (fetch-depth: 0 for GitHub's actions/checkout)"

func (l *Local) mergeBase(ctx context.Context, base, head plumbing.Hash) (commitgraph.MergeBase, error) {
	p, err := l.history.MergeBase(ctx, base, head)
	switch {
	case err != nil:
		return commitgraph.MergeBase{}, hint(err)
	case len(p.ShallowBoundary) > 0 && !p.BoundaryOlder:
		return commitgraph.MergeBase{}, fmt.Errorf("%w: the merge base is not here: the history was fetched in part only; %s", gitsource.ErrNotFound, unshallow)
	case p.Commit.IsZero():
		return commitgraph.MergeBase{}, fmt.Errorf("%w: %w; name revisions of one history", gitsource.ErrNotFound, errUnrelated)
	}
	return p, nil
}

// hint adds what to do about objects that are not there.
func hint(err error) error {
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return fmt.Errorf("%w; if this is a partial clone, clone again without --filter", err)
	}
	return err
}

func (l *Local) snapshot(walker *tree.Walker, expression string, commit plumbing.Hash) (gitsource.Snapshot, error) {
	n, _, err := l.history.Commit(commit)
	if err != nil {
		return gitsource.Snapshot{}, err
	}
	files, err := walker.Walk(n.Tree)
	if err != nil {
		return gitsource.Snapshot{}, err
	}
	name := expression
	if strings.HasPrefix(commit.String(), strings.ToLower(expression)) {
		name = ""
	}
	return snapshotOf(files, name, commit, n.Tree), nil
}
