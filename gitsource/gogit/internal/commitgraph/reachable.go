package commitgraph

import (
	"context"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
)

// Reachability is whether one commit is an ancestor of another, as far as the local
// history shows.
type Reachability struct {
	// Reachable is the result, as far as it is known.
	Reachable bool
	// ShallowBoundary are the cuts that leave it uncertain.
	ShallowBoundary []plumbing.Hash
	// BoundaryOlder is true where only a wrong clock could make the cuts matter.
	BoundaryOlder bool
	// Unknown is true where a commit is not present that may be behind a cut.
	Unknown bool
}

// Certain reports whether more history cannot change Reachable.
func (v Reachability) Certain() bool { return len(v.ShallowBoundary) == 0 && !v.Unknown }

// Reachable reports whether ancestor is descendant itself or one of its ancestors, as far as
// the history that is present shows.
func (g *Graph) Reachable(ctx context.Context, descendant, ancestor plumbing.Hash) (Reachability, error) {
	present, err := g.Has(descendant)
	if err != nil || !present {
		return Reachability{Unknown: true}, err
	}
	if descendant == ancestor {
		return Reachability{Reachable: true}, nil
	}
	if present, err = g.Has(ancestor); err != nil {
		return Reachability{}, err
	}
	if !present {
		// It can only be behind a cut, or what one names as its parent.
		cuts, err := g.ShallowBoundary([]plumbing.Hash{descendant})
		for _, id := range cuts {
			if slices.Contains(g.nodes[id].Parents, ancestor) {
				return Reachability{Reachable: true}, nil
			}
		}
		return Reachability{ShallowBoundary: cuts}, err
	}
	c, err := g.common(ctx, descendant, ancestor)
	if err != nil {
		return Reachability{}, err
	}
	if slices.Contains(c.bases, ancestor) {
		return Reachability{Reachable: true}, nil
	}
	if slices.Contains(c.bases, descendant) {
		// Commits form no circle: a descendant is no ancestor.
		return Reachability{}, nil
	}
	// Only cuts on the side of the descendant can hide a way to the other.
	behind, err := g.ShallowBoundary([]plumbing.Hash{descendant})
	if err != nil {
		return Reachability{}, err
	}
	return Reachability{ShallowBoundary: behind, BoundaryOlder: g.allOlder(behind, g.nodes[ancestor].When)}, nil
}
