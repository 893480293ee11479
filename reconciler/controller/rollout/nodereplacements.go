package rollout

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Config is what nodes are read by.
type Config struct {
	// Cluster reads the Cluster object, Snapshot what runs in the cluster.
	Cluster  forecasting.LiveCluster
	Snapshot *forecasting.SnapshotReader
	// Drifted is simulate.Drifted with a cluster's settings of the engine.
	Drifted func(context.Context, v1alpha1.ClusterSpec, provision.ClusterSnapshot) ([]provision.Node, map[string][]string, error)
	// LabelValue is the value of the label by which pools are a Sync's.
	LabelValue func(sync string) string
	Clock      clock.Clock
	Log        logr.Logger
}

// poolRemoved is the reason of a node whose pool is gone or going, as simulate.Drifted has it.
const poolRemoved = "NodePoolRemoved"

// nodeReplacements are which nodes of a cluster are to be replaced. The zero value is that there are none.
type nodeReplacements struct {
	nodes []provision.Node
	// unknown is what is not known, by pool.
	unknown map[string][]string
	// pools are the values of the label of the Syncs of pools, by the pools' names.
	pools map[string]string
	// closed are pools whose disruption budgets allow no node to be replaced now.
	closed map[string]bool
	// removed are those of pools that a Sync has deleted.
	removed map[string]string
	// oldest is when the oldest NodeClaim of each pool was created, by the pool's name.
	oldest map[string]time.Time
	// noCluster is true where there are nodes, and no Cluster names their region: pools are then those that have nodes.
	noCluster bool
}

// read reads what is live.
func (c Config) read(ctx context.Context) (nodeReplacements, error) {
	cluster, err := c.Cluster(ctx)
	if err != nil {
		return nodeReplacements{}, err
	}
	if cluster == nil {
		// Nodes and pods, of which there are many, show nothing then.
		live, err := c.Snapshot.ReadNodePools(ctx)
		if err != nil {
			return nodeReplacements{}, err
		}
		return withoutCluster(live), nil
	}
	live, err := c.Snapshot.Read(ctx, forecasting.ClusterOf(cluster.Spec))
	if err != nil {
		return nodeReplacements{}, err
	}
	if live.NodeClaims = ofPools(live); len(live.NodeClaims) == 0 {
		return nodeReplacements{}, nil
	}
	out := nodeReplacements{pools: map[string]string{}, closed: map[string]bool{}, oldest: map[string]time.Time{}}
	claims := map[string]int{}
	for _, claim := range live.NodeClaims {
		pool, created := claim.Labels[karpv1.NodePoolLabelKey], claim.CreationTimestamp.Time
		claims[pool]++
		if claims[pool] == 1 || created.Before(out.oldest[pool]) {
			out.oldest[pool] = created
		}
	}
	for _, pool := range live.NodePools {
		out.pools[pool.Name] = pool.Labels[v1alpha1.SyncLabel]
		out.closed[pool.Name] = pool.MustGetAllowedDisruptions(c.Clock, claims[pool.Name], karpv1.DisruptionReasonDrifted) == 0
	}
	out.nodes, out.unknown, err = c.Drifted(ctx, cluster.Spec, live)
	return out, err
}

// withoutCluster is what is known where no Cluster names the region of the nodes: those whose pool is gone or going are to be
// removed, and of pools with other nodes it is not known.
func withoutCluster(live provision.ClusterSnapshot) nodeReplacements {
	claims := ofPools(live)
	if len(claims) == 0 {
		return nodeReplacements{}
	}
	pools := map[string]*karpv1.NodePool{}
	for _, pool := range live.NodePools {
		pools[pool.Name] = pool
	}
	out := nodeReplacements{pools: map[string]string{}, noCluster: true}
	for _, claim := range claims {
		name := claim.Labels[karpv1.NodePoolLabelKey]
		pool := pools[name]
		if pool == nil || !pool.DeletionTimestamp.IsZero() {
			out.nodes = append(out.nodes, provision.Node{Pool: name, Name: cmp.Or(claim.Status.NodeName, claim.Name), Reason: poolRemoved})
		}
		if pool != nil {
			out.pools[name] = pool.Labels[v1alpha1.SyncLabel]
		}
	}
	return out
}

// ofPools are the NodeClaims that a pool has made. Those without one, which others make, Karpenter never replaces.
func ofPools(live provision.ClusterSnapshot) []*karpv1.NodeClaim {
	pools := map[string]bool{}
	for _, pool := range live.NodePools {
		pools[pool.Name] = true
	}
	var out []*karpv1.NodeClaim
	for _, claim := range live.NodeClaims {
		pool := claim.Labels[karpv1.NodePoolLabelKey]
		owned := func(o metav1.OwnerReference) bool { return o.Kind == "NodePool" && o.Name == pool }
		if pool != "" && (pools[pool] || slices.ContainsFunc(claim.OwnerReferences, owned)) {
			out = append(out, claim)
		}
	}
	return out
}

// counts reports whether the nodes of a pool are those of the pools with the value of a Sync's label. Of a pool that is
// gone, and that no Sync is known to have deleted, they are those of each Sync.
func (r nodeReplacements) counts(pool, sync string) bool {
	if owner, there := r.pools[pool]; there {
		return owner == sync
	}
	owner, known := r.removed[pool]
	return !known || owner == sync
}

// maxClockSkew is how much the API server's clock, of which the times of creation are, may be ahead of this process's.
const maxClockSkew = 30 * time.Second

// isOlder reports whether the pools with the value of a Sync's label have a node that may have been made before a time.
func (r nodeReplacements) isOlder(sync string, than time.Time) bool {
	for pool, created := range r.oldest {
		if r.counts(pool, sync) && created.Add(-maxClockSkew).Before(than) {
			return true
		}
	}
	return false
}

// left is how many nodes of the pools with the value of a Sync's label are to be replaced, and how many of them are blocked.
func (r nodeReplacements) left(sync string) (left, blocked int) {
	for _, n := range r.nodes {
		if !r.counts(n.Pool, sync) {
			continue
		}
		left++
		if n.Blocked() || r.closed[n.Pool] {
			blocked++
		}
	}
	return left, blocked
}

// of is what was found of the pools with the value of a Sync's label.
func (r nodeReplacements) of(sync string) result {
	left, blocked := r.left(sync)
	// Neither a number nor a name is in the messages: each node that is replaced would be a write.
	switch {
	case left > 0 && left == blocked:
		return result{metav1.ConditionFalse, disruptionBlocked, "all nodes that are yet to be replaced are blocked; for what blocks one, run: poolwright explain node NAME"}
	case left > 0:
		return result{metav1.ConditionFalse, rollingOut, "nodes are to be replaced; to list them, run: poolwright get nodes"}
	}
	for _, pool := range slices.Sorted(maps.Keys(r.pools)) {
		switch {
		case r.pools[pool] != sync:
		case r.noCluster:
			return result{metav1.ConditionUnknown, noCluster, "there is no Cluster, which names the region of the nodes: apply one"}
		case len(r.unknown[pool]) > 0:
			return result{metav1.ConditionUnknown, partlyUnknown, sanitize.Text(r.unknown[pool][0])}
		}
	}
	return ended
}
