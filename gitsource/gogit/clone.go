package gogit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/clonecache"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/commitgraph"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/objects"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/pack"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/remote"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/tree"
)

// clone is one object store of a Repository and what was found in it. It holds
// commits, mostly without their trees, and the trees of those commits that were
// compared.
type clone struct {
	record  clonecache.Record
	cache   *clonecache.Cache
	limits  Limits
	objects *objects.Store
	graph   *commitgraph.Graph
	// trees are the checked trees, by commit; walker reads what they share once.
	trees      map[plumbing.Hash]*tree.FS
	walker     *tree.Walker
	mergeBases map[pair]commitgraph.MergeBase
	// created is true if it was begun for the present call; dirty, if it holds more than the
	// record names.
	created, dirty bool
}

const (
	// maxTreeBytes is about what the trees that were read may take in memory between two
	// calls. What pull requests share is mostly less.
	maxTreeBytes = 8 << 20
	// maxMergeBases is of how many pairs the merge base is kept.
	maxMergeBases = 4096
	// maxRepositoryPacks is how many transfers a Repository's clone
	// collects; a comparison takes two.
	maxRepositoryPacks = 256
	// maxCloneTransfers is how often over the graph of a clone may hold
	// Limits.Commits.
	maxCloneTransfers = 2
	// maxTips is how many commits are offered to a server as present, maxTrees how
	// many can come with a clone's transfers.
	maxTips  = 64
	maxTrees = 3 * maxRepositoryPacks
)

// errNewCloneNeeded calls for a clone of its own: this one is full, or was filled in
// another way.
var errNewCloneNeeded = errors.New("a new clone is needed")

func newClone(m *clonecache.Cache, limits Limits, rec clonecache.Record) *clone {
	objs := objects.Open(m.Path(rec.Clone))
	g := &clone{
		record: rec, cache: m, limits: limits, objects: objs, graph: commitgraph.New(objs),
		mergeBases: map[pair]commitgraph.MergeBase{},
	}
	g.dropTrees()
	return g
}

// dropTrees drops the trees that were read; snapshots that were handed out keep
// theirs.
func (g *clone) dropTrees() {
	g.trees = map[plumbing.Hash]*tree.FS{}
	g.walker = tree.NewWalker(g.objects, g.limits.tree())
}

// evictTrees drops the trees that were read where they take too much memory to wait for the
// next call: who may open pull requests chooses them.
func (g *clone) evictTrees() {
	if g.walker.Memory() > maxTreeBytes {
		g.dropTrees()
	}
}

// receive transfers what req names. Where the clone has no room for it, a new one
// is due; what is too large for that, too, is beyond the limits.
func (g *clone) receive(ctx context.Context, sess *remote.Connection, req remote.Request, limits pack.Limits) error {
	commits := maxCloneTransfers * g.limits.Commits
	present, edges := g.graph.Size()
	if !g.created && (g.cache.NeedsNewClone(g.record, maxRepositoryPacks) || present > 2*commits || edges > 4*commits) {
		return errNewCloneNeeded
	}
	err := sess.Fetch(ctx, req, g.cache.StoreFor(g.record.Clone), limits)
	switch {
	case errors.Is(err, pack.ErrFull) && g.created:
		return g.limits.pack().TooManyBytes()
	case errors.Is(err, pack.ErrFull):
		return errNewCloneNeeded
	}
	return err
}

// appendRecent puts ids at the end of a list, the latest last, and drops the first ones
// beyond n.
func appendRecent(list []string, n int, ids ...plumbing.Hash) []string {
	for _, id := range ids {
		s := id.String()
		list = append(slices.DeleteFunc(list, func(o string) bool { return o == s }), s)
	}
	return list[max(0, len(list)-n):]
}

// hasTree reports whether a commit's files were fetched.
func (g *clone) hasTree(commit plumbing.Hash) (bool, error) {
	if slices.Contains(g.record.Trees, commit.String()) {
		return true, nil
	}
	if g.record.Filtered {
		return false, nil
	}
	return g.graph.Has(commit)
}

// snapshot reads and checks the tree of a commit that is present.
func (g *clone) snapshot(commit plumbing.Hash, name string) (gitsource.Snapshot, error) {
	n, ok, err := g.graph.Commit(commit)
	if err != nil {
		return gitsource.Snapshot{}, err
	}
	if !ok {
		return gitsource.Snapshot{}, fmt.Errorf("reading commit %s: %w: it is missing", commit, gitsource.ErrCorrupt)
	}
	files, ok := g.trees[commit]
	if !ok {
		if files, err = g.walker.Walk(n.Tree); err != nil {
			return gitsource.Snapshot{}, err
		}
		g.trees[commit] = files
	}
	return snapshotOf(files, name, commit, n.Tree), nil
}

// tip is what a reference points at.
type tip struct {
	name string
	// object is what to request of the server: the commit, or the annotated tag that leads
	// to it.
	object, commit plumbing.Hash
}

// pair is two commits, base first.
type pair struct{ base, head plumbing.Hash }
