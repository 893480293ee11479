package gogit

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
)

// ancestryQuery is whether one commit is another's ancestor.
type ancestryQuery struct{ descendant, ancestor plumbing.Hash }

// contains answers from the held history.
func (g *generation) contains(ctx context.Context, q ancestryQuery) (reachability, error) {
	held, err := g.history.contains(q.descendant)
	if err != nil || !held {
		return reachability{unknown: true}, err
	}
	if q.descendant == q.ancestor {
		return reachability{reachable: true}, nil
	}
	if held, err = g.history.contains(q.ancestor); err != nil {
		return reachability{}, err
	}
	if !held {
		// It can only be behind a cut, or what one names as its parent.
		cuts, err := g.history.cuts([]plumbing.Hash{q.descendant})
		for _, id := range cuts {
			if slices.Contains(g.history.nodes[id].parents, q.ancestor) {
				return reachability{reachable: true}, nil
			}
		}
		return reachability{open: cuts}, err
	}
	c, err := g.history.common(ctx, q.descendant, q.ancestor)
	if err != nil {
		return reachability{}, err
	}
	if slices.Contains(c.bases, q.ancestor) {
		return reachability{reachable: true}, nil
	}
	if slices.Contains(c.bases, q.descendant) {
		// Commits form no circle: a descendant is no ancestor.
		return reachability{}, nil
	}
	// Only cuts on the side of the descendant can hide a way to the other.
	behind, err := g.history.cuts([]plumbing.Hash{q.descendant})
	if err != nil {
		return reachability{}, err
	}
	return reachability{open: behind, cutsOlder: g.history.allOlder(behind, g.history.nodes[q.ancestor].when)}, nil
}

// ask answers, fetching as much history of the reference as that takes.
func (g *generation) ask(ctx context.Context, sess *remoteConnection, ref tip, q ancestryQuery) (bool, error) {
	yes := false
	err := g.learn(ctx, sess, []tip{ref}, func() (reachability, error) {
		v, err := g.contains(ctx, q)
		if err != nil {
			return reachability{}, err
		}
		if v.unknown {
			if v.open, err = g.history.cuts([]plumbing.Hash{ref.commit}); err != nil {
				return reachability{}, err
			}
			if len(v.open) == 0 {
				return reachability{}, fmt.Errorf("%w: %s does not lead to commit %s", gitsource.ErrNotFound, ref.name, q.descendant)
			}
		}
		yes = v.reachable
		return v, nil
	})
	return yes, err
}
