package gogit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/poolwright/poolwright/gitsource"
)

// generation is one object store of a Repository and what is known of it. It
// holds commits, mostly without their trees, and the trees of those commits
// that were compared.
type generation struct {
	record  record
	mirror  *mirror
	limits  Limits
	objects *objects
	history *history
	// trees are the checked trees, by commit; folders is what they share.
	trees      map[plumbing.Hash]*folder
	folders    *indexer
	mergeBases map[pair]mergeBase
	// fresh says that it was begun for the present call; dirty, that it holds
	// more than the record says.
	fresh, dirty bool
}

const (
	// maxTreeBytes is about what the trees that were read may take in memory between two
	// calls. What pull requests share is mostly less.
	maxTreeBytes = 8 << 20
	// maxMergeBases is of how many pairs the merge base is remembered.
	maxMergeBases = 4096
	// maxRepositoryPacks is how many transfers a Repository's generation
	// collects; a comparison takes two.
	maxRepositoryPacks = 256
	// maxGenerationTransfers is how often over the graph of a generation may hold
	// Limits.Commits.
	maxGenerationTransfers = 2
	// maxTips is how many commits are offered to a server as held, maxTrees how
	// many can come with a generation's transfers.
	maxTips  = 64
	maxTrees = 3 * maxRepositoryPacks
)

// errAnew asks for a generation of its own: this one is full, or was filled in
// another way.
var errAnew = errors.New("a new mirror is due")

func newGeneration(m *mirror, limits Limits, rec record) *generation {
	objs := openObjects(m.path(rec.Generation), limits)
	g := &generation{
		record: rec, mirror: m, limits: limits, objects: objs, history: newHistory(objs),
		mergeBases: map[pair]mergeBase{},
	}
	g.forget()
	return g
}

// forget drops the trees that were read; snapshots that were handed out keep
// theirs.
func (g *generation) forget() {
	g.trees = map[plumbing.Hash]*folder{}
	g.folders = newIndexer(g.objects, g.limits)
}

// restore returns the current generation, from the mirror after a restart; nil
// when there is none, or it is damaged.
func (r *Repository) restore() *generation {
	if r.current == nil {
		if rec, ok := r.mirror.last(); ok {
			r.current = newGeneration(r.mirror, r.limits, rec)
		}
	}
	if r.current != nil && (r.current.objects.damaged() || !r.current.there()) {
		r.current = nil
	}
	return r.current
}

// there reports whether the folder is.
func (g *generation) there() bool {
	info, err := os.Stat(packFolder(g.mirror.path(g.record.Generation)))
	return err == nil && info.IsDir()
}

// within runs f on the current generation, or on a new one when there is none,
// it is damaged, full, or was filled from a server that filters otherwise.
func (r *Repository) within(filtered bool, f func(*generation) error) error {
	if g := r.restore(); g != nil && g.record.Filtered == filtered {
		err := f(g)
		damaged := errors.Is(err, gitsource.ErrCorrupt) || g.objects.damaged()
		if !damaged && !errors.Is(err, errAnew) {
			return errors.Join(err, r.keep(g))
		}
		if damaged {
			// What the mirror held may be what is broken: once more, from nothing.
			r.current = nil
		}
	}
	name, err := r.mirror.newGeneration()
	if err != nil {
		return err
	}
	g := newGeneration(r.mirror, r.limits, record{Generation: name, Filtered: filtered})
	g.fresh = true
	err = f(g)
	if errors.Is(err, gitsource.ErrCorrupt) || !g.dirty {
		r.mirror.drop(name)
		return err
	}
	// What was transferred before a failure serves the next call.
	g.fresh = false
	r.current = g
	return errors.Join(err, r.keep(g))
}

// keep records what was added to a generation.
func (r *Repository) keep(g *generation) error {
	if !g.dirty || len(g.record.Tips) == 0 {
		return nil
	}
	g.record.Object = g.record.Tips[len(g.record.Tips)-1]
	if err := r.mirror.commit(&g.record); err != nil {
		return err
	}
	g.dirty = false
	return nil
}

// evictTrees forgets the trees that were read where they take too much memory to wait for the
// next call: who may open pull requests chooses them.
func (g *generation) evictTrees() {
	if g.folders.total > maxTreeBytes {
		g.forget()
	}
}

// receive transfers what req asks for. Where the generation has no room for it, a
// new one is due; what is too large for that, too, is beyond the limits.
func (g *generation) receive(ctx context.Context, sess *remoteConnection, req *packp.UploadPackRequest, limits Limits) error {
	commits := maxGenerationTransfers * g.limits.Commits
	if !g.fresh && (g.mirror.crowded(g.record, maxRepositoryPacks) || len(g.history.nodes) > 2*commits || g.history.edges > 4*commits) {
		return errAnew
	}
	err := sess.fetch(ctx, req, g.mirror.storeFor(g.record.Generation), limits)
	switch {
	case errors.Is(err, errFull) && g.fresh:
		return tooManyBytes(g.limits)
	case errors.Is(err, errFull):
		return errAnew
	}
	return err
}

// remember puts ids at the end of a list, the latest last, and forgets the
// first ones beyond n.
func remember(list []string, n int, ids ...plumbing.Hash) []string {
	for _, id := range ids {
		s := id.String()
		list = append(slices.DeleteFunc(list, func(o string) bool { return o == s }), s)
	}
	return list[max(0, len(list)-n):]
}

// hasTree reports whether a commit's files were fetched.
func (g *generation) hasTree(commit plumbing.Hash) (bool, error) {
	if slices.Contains(g.record.Trees, commit.String()) {
		return true, nil
	}
	if g.record.Filtered {
		return false, nil
	}
	return g.history.contains(commit)
}

// snapshot reads and checks the tree of a commit that is held.
func (g *generation) snapshot(commit plumbing.Hash, name string) (gitsource.Snapshot, error) {
	n, ok, err := g.history.node(commit)
	if err != nil {
		return gitsource.Snapshot{}, err
	}
	if !ok {
		return gitsource.Snapshot{}, fmt.Errorf("reading commit %s: %w: it is missing", commit, gitsource.ErrCorrupt)
	}
	root, ok := g.trees[commit]
	if !ok {
		if root, err = g.folders.index(n.tree); err != nil {
			return gitsource.Snapshot{}, err
		}
		g.trees[commit] = root
	}
	return snapshotOf(&treeFS{root: root, objects: g.objects, limit: g.limits.FileBytes}, name, commit, n.tree), nil
}

func snapshotOf(files *treeFS, name string, commit, tree plumbing.Hash) gitsource.Snapshot {
	revision := "sha1:" + commit.String()
	if name != "" {
		revision = name + "@" + revision
	}
	return gitsource.Snapshot{FS: files, Revision: revision, Commit: commit.String(), TreeID: tree.String()}
}
