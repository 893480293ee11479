package preview

import (
	"context"
	"maps"
	"slices"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/pullrequest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// PendingReplacement implements pullrequest.Planner. Of what is not known, only that of pools
// which a merge touches is an error: one class whose drift cannot be computed must not
// keep the reports of all other pools open.
func (p *Planner) PendingReplacement(ctx context.Context, since time.Time) (pullrequest.NodeReplacements, error) {
	var out pullrequest.NodeReplacements
	cluster, err := p.Cluster(ctx)
	if err != nil {
		return out, err
	}
	if cluster == nil {
		return out, state.Failf(state.Wait, "NoCluster", "finding nodes to be replaced: no Cluster declares their region; apply an object of that kind")
	}
	snapshot, err := (&forecasting.SnapshotReader{Reader: p.Live}).Read(ctx, forecasting.ClusterOf(cluster.Spec))
	if err != nil {
		return out, err
	}
	left, unknown, err := p.Drifted(ctx, cluster.Spec, snapshot)
	if err != nil {
		return out, err
	}
	if p.PoolCosts != nil {
		if out.PoolCosts, err = p.PoolCosts(ctx, cluster.Spec, snapshot); err != nil {
			return out, err
		}
	}
	out.Pending = slices.DeleteFunc(left, func(n provision.Node) bool { return !n.Created.Before(since) })
	if len(unknown) == 0 {
		return out, nil
	}
	sync, err := p.current(ctx)
	if err != nil {
		return out, err
	}
	of := classesOf(snapshot.NodePools)
	for _, pool := range slices.Sorted(maps.Keys(unknown)) {
		if awaited(sync.Status.PullRequests, pool, of[pool]) {
			return out, state.Failf(state.Retry, fluxmeta.ProgressingReason, "finding nodes to be replaced: %s", unknown[pool][0])
		}
	}
	return out, nil
}

// classesOf are the classes of pools, by the pools' names.
func classesOf(pools []*karpv1.NodePool) map[string]string {
	out := map[string]string{}
	for _, pool := range pools {
		if ref := pool.Spec.Template.Spec.NodeClassRef; ref != nil {
			out[pool.Name] = ref.Name
		}
	}
	return out
}

// awaited reports whether a merge whose roll-out is not over touches the pool, as far as
// that is known. The status may be a pass behind: what it calls open may be merged by
// now, and where it has no roll-out, it lacks the one in question.
func awaited(status *v1alpha1.PullRequestsStatus, pool, class string) bool {
	if status == nil || !slices.ContainsFunc(status.Items, func(item v1alpha1.PullRequestStatus) bool { return item.Phase == v1alpha1.PullRequestRollingOut }) {
		return true
	}
	return slices.ContainsFunc(status.Items, func(item v1alpha1.PullRequestStatus) bool {
		over := item.Phase == v1alpha1.PullRequestDone || item.RolledOutTime != nil
		return !over && (item.Reviewed == nil || touches(*item.Reviewed, pool, class))
	})
}

// touches reports whether nodes of the pool can be made stale by what was reviewed.
func touches(reviewed v1alpha1.ReviewedDisruption, pool, class string) bool {
	if slices.ContainsFunc(reviewed.Pools, func(p v1alpha1.ReviewedPool) bool { return p.Name == pool }) {
		return true
	}
	return slices.ContainsFunc(reviewed.Objects, func(c v1alpha1.ReviewedObject) bool {
		return c.Kind == "NodePool" && c.Name == pool || c.Kind == "EC2NodeClass" && c.Name == class
	})
}
