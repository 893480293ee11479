package commitgraph

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"
)

// Range is the commits that lead to one commit and not to another, as in "git log base..tip", as far as
// the local history shows.
type Range struct {
	// Commits are those of them that are present, the nearest to tip first. Some may lead to base, too,
	// where BaseBoundary is not empty.
	Commits []plumbing.Hash
	// Boundary are those of them with parents that are not present, behind which there may be more.
	Boundary []plumbing.Hash
	// BaseBoundary are the commits behind which there may be more that base descends from.
	BaseBoundary []plumbing.Hash
}

// Range finds the commits that lead to tip and not to base.
func (g *Graph) Range(ctx context.Context, base, tip plumbing.Hash) (Range, error) {
	var out Range
	// The parents of what is present are among the ancestors, whether they are present or not.
	old := map[plumbing.Hash]bool{base: true}
	err := g.walk([]plumbing.Hash{base}, func(id plumbing.Hash, n Commit, _ int) (bool, error) {
		for _, p := range n.Parents {
			old[p] = true
		}
		cut, err := g.isCut(n)
		if cut {
			out.BaseBoundary = append(out.BaseBoundary, id)
		}
		return ctx.Err() != nil, err
	})
	if err != nil {
		return Range{}, err
	}
	basePresent, err := g.Has(base)
	if err != nil {
		return Range{}, err
	}
	visited := map[plumbing.Hash]bool{}
	for level := []plumbing.Hash{tip}; len(level) > 0 && ctx.Err() == nil; {
		var next []plumbing.Hash
		for _, id := range level {
			if visited[id] || old[id] {
				continue
			}
			visited[id] = true
			n, present, err := g.Commit(id)
			if err != nil {
				return Range{}, err
			}
			if !present {
				continue
			}
			out.Commits = append(out.Commits, id)
			cut, err := g.cutBeside(n, old)
			if err != nil {
				return Range{}, err
			}
			if cut {
				out.Boundary = append(out.Boundary, id)
			}
			next = append(next, n.Parents...)
		}
		level = next
	}
	if !basePresent {
		// Wherever more is to come, base and its ancestors may be.
		out.BaseBoundary = out.Boundary
	}
	return out, ctx.Err()
}

// cutBeside reports whether a commit that is present has a parent that is neither present nor among others.
func (g *Graph) cutBeside(n Commit, others map[plumbing.Hash]bool) (bool, error) {
	for _, p := range n.Parents {
		if others[p] {
			continue
		}
		if present, err := g.Has(p); err != nil || !present {
			return true, err
		}
	}
	return false, nil
}
