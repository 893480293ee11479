// Package commitgraph reads the graph of commits that an object database holds: which commit is an
// ancestor of which, and the merge base of two. Most histories are fetched in part; it
// concludes nothing from a commit that is absent, fetches none, and reads no trees. Start
// reading at Graph.MergeBase and Graph.Reachable.
package commitgraph

import (
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/objects"
)

// Graph is the graph of the commits that an object database holds, read as far
// as is needed. A commit whose parents are not all present is a cut: what
// lies beyond is unknown, and nothing is concluded from its absence. It is not safe for
// concurrent use.
type Graph struct {
	objects *objects.Store
	nodes   map[plumbing.Hash]Commit
	// edges counts the parents in nodes, which are what they cost.
	edges int
}

// Commit is what is kept of a commit.
type Commit struct {
	// Tree is the id of its tree.
	Tree plumbing.Hash
	// Parents are the ids of its parents, the first one first.
	Parents []plumbing.Hash
	// When is the time of the committer's clock, in seconds.
	When int64
}

// New reads from an object database.
func New(o *objects.Store) *Graph {
	return &Graph{objects: o, nodes: map[plumbing.Hash]Commit{}}
}

// Commit reads a commit; false when it is not present.
func (g *Graph) Commit(id plumbing.Hash) (Commit, bool, error) {
	if n, ok := g.nodes[id]; ok {
		return n, true, nil
	}
	b, ok, err := g.objects.Find(plumbing.CommitObject, id, objects.MaxCommitBytes)
	if err != nil || !ok {
		return Commit{}, false, err
	}
	obj := new(plumbing.MemoryObject)
	obj.SetType(plumbing.CommitObject)
	_, _ = obj.Write(b) // a MemoryObject takes everything
	var c object.Commit
	if err := c.Decode(obj); err != nil {
		return Commit{}, false, fmt.Errorf("reading commit %s: %w: %w", id, gitsource.ErrCorrupt, err)
	}
	n := Commit{Tree: c.TreeHash, Parents: c.ParentHashes, When: c.Committer.When.Unix()}
	g.nodes[id] = n
	g.edges += len(n.Parents)
	return n, true, nil
}

// Size is what is kept in memory: the commits that were read, and their parents.
func (g *Graph) Size() (commits, edges int) { return len(g.nodes), g.edges }

// Has reports whether a commit is present.
func (g *Graph) Has(id plumbing.Hash) (bool, error) {
	_, ok, err := g.Commit(id)
	return ok, err
}

// isCut reports whether a commit that is present has a parent that is not.
func (g *Graph) isCut(n Commit) (bool, error) {
	for _, p := range n.Parents {
		if ok, err := g.Has(p); err != nil || !ok {
			return true, err
		}
	}
	return false, nil
}

// walk visits the commits that are present and lead from tips, nearest first, with their
// depth from the nearest tip, until visit returns true.
func (g *Graph) walk(tips []plumbing.Hash, visit func(id plumbing.Hash, n Commit, depth int) (stop bool, err error)) error {
	visited := map[plumbing.Hash]bool{}
	level := tips
	for depth := 0; len(level) > 0; depth++ {
		var next []plumbing.Hash
		for _, id := range level {
			if visited[id] {
				continue
			}
			visited[id] = true
			n, ok, err := g.Commit(id)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			stop, err := visit(id, n, depth)
			if err != nil || stop {
				return err
			}
			next = append(next, n.Parents...)
		}
		level = next
	}
	return nil
}

// ShallowBoundary lists the cuts that tips lead to.
func (g *Graph) ShallowBoundary(tips []plumbing.Hash) ([]plumbing.Hash, error) {
	var out []plumbing.Hash
	err := g.walk(tips, func(id plumbing.Hash, n Commit, _ int) (bool, error) {
		cut, err := g.isCut(n)
		if cut && err == nil {
			out = append(out, id)
		}
		return false, err
	})
	return out, err
}

// Depth is how many steps lie between tips and the nearest of targets; -1
// when none is reached.
func (g *Graph) Depth(tips []plumbing.Hash, targets ...plumbing.Hash) (int, error) {
	desired := map[plumbing.Hash]bool{}
	for _, t := range targets {
		desired[t] = true
	}
	found := -1
	err := g.walk(tips, func(id plumbing.Hash, _ Commit, d int) (bool, error) {
		if desired[id] {
			found = d
		}
		return desired[id], nil
	})
	return found, err
}
