package gogit

import (
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/commitgraph"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/remote"
)

// ancestryQuery is whether one commit is another's ancestor.
type ancestryQuery struct{ descendant, ancestor plumbing.Hash }

// reachable decides q, fetching as much history of the reference as that takes.
func (g *clone) reachable(ctx context.Context, sess *remote.Connection, ref tip, q ancestryQuery) (bool, error) {
	yes := false
	err := g.deepenUntil(ctx, sess, []tip{ref}, func() (commitgraph.Reachability, error) {
		v, err := g.graph.Reachable(ctx, q.descendant, q.ancestor)
		if err != nil {
			return commitgraph.Reachability{}, err
		}
		if v.Unknown {
			if v.ShallowBoundary, err = g.graph.ShallowBoundary([]plumbing.Hash{ref.commit}); err != nil {
				return commitgraph.Reachability{}, err
			}
			if len(v.ShallowBoundary) == 0 {
				return commitgraph.Reachability{}, fmt.Errorf("%w: %s does not lead to commit %s", gitsource.ErrNotFound, ref.name, q.descendant)
			}
		}
		yes = v.Reachable
		return v, nil
	})
	return yes, err
}
