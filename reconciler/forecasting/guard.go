package forecasting

import (
	"context"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Timeout bounds the simulation before an apply; waitTimeout what comes before it, since
// those of other Syncs may run first. What is not known by then is unknown, and everything
// else of the revision is applied.
const (
	Timeout     = 30 * time.Second
	waitTimeout = 2 * time.Minute
)

// Guard blocks those changes of a Sync's plan that would replace more nodes than its guard
// or the reviews of its pull requests allow. It forecasts only where one of them applies to
// the plan.
func Guard(ctx context.Context, sync *v1alpha1.Sync, p plan.Plan, forecast ForecastFunc) plan.Plan {
	var limit *int
	if most := sync.Spec.Guard.MaxNodesReplaced; most != nil {
		limit = new(int(*most))
	}
	return p.GuardNodes(limit, reviewed(sync), sync.Annotations[v1alpha1.ConfirmAnnotation], func(changes []plan.Change) hold.Nodes {
		ctx, cancel := context.WithTimeout(ctx, waitTimeout+Timeout)
		defer cancel()
		return Nodes(forecast(ctx, state.Set{}, state.Set{}, changes))
	})
}

// reviewed are the consequences that the reviewers of pull requests read whose merge may
// still be to be applied: one that was just merged may not be marked so yet.
func reviewed(sync *v1alpha1.Sync) []plan.Review {
	if sync.Status.PullRequests == nil {
		return nil
	}
	var out []plan.Review
	for _, item := range sync.Status.PullRequests.Items {
		merged := item.Phase == v1alpha1.PullRequestMerged
		if item.Reviewed == nil || !merged && item.Phase != v1alpha1.PullRequestPlanned {
			continue
		}
		pools := map[string]int{}
		for _, pool := range item.Reviewed.Pools {
			pools[pool.Name] = int(pool.Nodes)
		}
		changes := make([]plan.Fingerprint, len(item.Reviewed.Objects))
		for i, c := range item.Reviewed.Objects {
			changes[i] = plan.Fingerprint(c)
		}
		out = append(out, plan.Review{PullRequest: item.Number, Merged: merged, Changes: changes, Pools: pools})
	}
	return out
}
