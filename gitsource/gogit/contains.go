package gogit

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
)

// question is whether one commit is another's ancestor.
type question struct{ of, ancestor plumbing.Hash }

// contains answers from the held history.
func (g *generation) contains(ctx context.Context, q question) (verdict, error) {
	held, err := g.history.holds(q.of)
	if err != nil || !held {
		return verdict{unknown: true}, err
	}
	if q.of == q.ancestor {
		return verdict{yes: true}, nil
	}
	if held, err = g.history.holds(q.ancestor); err != nil {
		return verdict{}, err
	}
	if !held {
		// It can only be behind a cut, or what one names as its parent.
		cuts, err := g.history.cuts([]plumbing.Hash{q.of})
		for _, id := range cuts {
			if slices.Contains(g.history.nodes[id].parents, q.ancestor) {
				return verdict{yes: true}, nil
			}
		}
		return verdict{open: cuts}, err
	}
	c, err := g.history.common(ctx, q.of, q.ancestor)
	if err != nil {
		return verdict{}, err
	}
	if slices.Contains(c.bases, q.ancestor) {
		return verdict{yes: true}, nil
	}
	if slices.Contains(c.bases, q.of) {
		// Commits form no circle: a descendant is no ancestor.
		return verdict{}, nil
	}
	// Only cuts on the side of the descendant can hide a way to the other.
	behind, err := g.history.cuts([]plumbing.Hash{q.of})
	if err != nil {
		return verdict{}, err
	}
	return verdict{open: behind, settled: g.history.allOlder(behind, g.history.nodes[q.ancestor].when)}, nil
}

// ask answers, fetching as much history of the reference as that takes.
func (g *generation) ask(ctx context.Context, sess *session, ref tip, q question) (bool, error) {
	yes := false
	err := g.learn(ctx, sess, []tip{ref}, func() (verdict, error) {
		v, err := g.contains(ctx, q)
		if err != nil {
			return verdict{}, err
		}
		if v.unknown {
			if v.open, err = g.history.cuts([]plumbing.Hash{ref.commit}); err != nil {
				return verdict{}, err
			}
			if len(v.open) == 0 {
				return verdict{}, fmt.Errorf("%w: %s does not lead to commit %s", gitsource.ErrNotFound, ref.name, q.of)
			}
		}
		yes = v.yes
		return v, nil
	})
	return yes, err
}
