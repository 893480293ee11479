package wire

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
)

// foreseeTimeout bounds the look ahead before an apply, and what of it comes before the
// child that foretells runs: other Syncs' applies may have their turn first. What cannot
// be told by then is unknown, and everything else of the revision is applied.
const (
	foreseeTimeout = 30 * time.Second
	turnTimeout    = 2 * time.Minute
)

// considering holds those changes of a Sync's plan that would cost more nodes than its
// guard or the reviews of its pull requests allow. The live cluster is read only where
// either says something of the plan.
func considering(live client.Reader, compare comparing) func(context.Context, *v1alpha1.Sync, plan.Plan) plan.Plan {
	return func(ctx context.Context, sync *v1alpha1.Sync, p plan.Plan) plan.Plan {
		var limit *int
		if most := sync.Spec.Guard.MaxNodesReplaced; most != nil {
			limit = new(int(*most))
		}
		return p.GuardNodes(limit, reviews(sync), sync.Annotations[v1alpha1.ConfirmAnnotation], func(changes []plan.Change) plan.Consequences {
			ctx, cancel := context.WithTimeout(ctx, turnTimeout+foreseeTimeout)
			defer cancel()
			return consequences(foresee(ctx, &stock{reader: live}, compare, change{changes: changes}))
		})
	}
}

// reviews are what reviewers were told of pull requests whose merge may still be to be
// made: one that was just merged is not known to be yet.
func reviews(sync *v1alpha1.Sync) []plan.Consequences {
	if sync.Status.PullRequests == nil {
		return nil
	}
	var out []plan.Consequences
	for _, item := range sync.Status.PullRequests.Items {
		merged := item.Phase == v1alpha1.PullRequestMerged
		if item.Reviewed == nil || !merged && item.Phase != v1alpha1.PullRequestPlanned {
			continue
		}
		pools := map[string]int{}
		for _, pool := range item.Reviewed.Pools {
			pools[pool.Name] = int(pool.Nodes)
		}
		out = append(out, plan.Consequences{PullRequest: item.Number, Merged: merged, Changes: item.Reviewed.Changes, Pools: pools})
	}
	return out
}

// consequences are what a forecast says of nodes. One that is blocked, or waits for a
// budget, is replaced all the same once it may be.
func consequences(told *provision.Forecast, err error) plan.Consequences {
	switch {
	case err != nil:
		return plan.Consequences{Unknown: err.Error()}
	case told == nil:
		return plan.Consequences{Unknown: "no Cluster says in which region the nodes are; apply an object of that kind"}
	}
	out := plan.Consequences{Replaced: len(told.Replaced), Pools: lostNodes(told)}
	for _, pool := range told.Removed {
		out.Removed += len(pool.Nodes)
	}
	// Of what the forecast does not know, only this makes it more nodes.
	doubts := slices.DeleteFunc(slices.Clone(told.Unknown), func(sentence string) bool { return !strings.Contains(sentence, "replaced") })
	out.Doubt = strings.TrimSuffix(strings.Join(doubts, " "), ".")
	return out
}

// reviewedOf are the consequences that a review is told, by which the apply of the
// merge is measured.
func reviewedOf(p plan.Plan, f *provision.Forecast) v1alpha1.ReviewedConsequences {
	out := v1alpha1.ReviewedConsequences{NodesReplaced: int32(len(f.Replaced))} // No cluster has more nodes than that holds.
	for _, pool := range f.Removed {
		out.NodesRemoved += int32(len(pool.Nodes))
	}
	lost := lostNodes(f)
	for _, pool := range f.Pools {
		if pool.Action != "" || len(pool.Changes) > 0 {
			lost[pool.Name] += 0
		}
	}
	for _, c := range p.Changes {
		if !c.Provisions() || c.Standing() {
			continue
		}
		out.Changes = append(out.Changes, c.Fingerprint())
		if c.Key.Kind == "NodePool" {
			lost[c.Key.Name] += 0
		}
	}
	slices.Sort(out.Changes)
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		out.Pools = append(out.Pools, v1alpha1.ReviewedPool{Name: name, Nodes: int32(lost[name])})
	}
	return out
}

// lostNodes counts by pool the nodes that are replaced or go with it.
func lostNodes(f *provision.Forecast) map[string]int {
	out := map[string]int{}
	for _, node := range f.Replaced {
		out[node.Pool]++
	}
	for _, pool := range f.Removed {
		out[pool.Pool] += len(pool.Nodes)
	}
	return out
}
