package wait

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/forecasting"
)

// nodesInterval is the time between two readings of nodes and pods, of which a cluster has many.
const nodesInterval = 10 * time.Second

// driftedFunc is connect.Drifted.
type driftedFunc func(context.Context, v1alpha1.ClusterSpec, provision.ClusterSnapshot) ([]provision.Node, map[string][]string, error)

// rollout checks that the Sync is ready, and that no node of its pools is to be replaced.
func rollout(ctx context.Context, w *syncWaiter, sync *v1alpha1.Sync) (outcome, error) {
	o, err := ready(ctx, w, sync)
	if err != nil || !o.met {
		return o, err
	}
	if now := w.now(); w.at.IsZero() || now.Sub(w.at) >= nodesInterval {
		if w.nodes, err = w.driftedNodes(ctx, sync.Name); err != nil {
			return outcome{}, err
		}
		w.at = now
	}
	return w.nodes, nil
}

// rolloutOf checks that the Sync has applied a revision, and then its roll-out. Once that was applied, a newer one may follow it:
// its nodes are to be replaced as well.
func rolloutOf(revision string) syncCheck {
	isApplied, applies := applied(revision), false
	return func(ctx context.Context, w *syncWaiter, sync *v1alpha1.Sync) (outcome, error) {
		if !applies {
			o, err := isApplied(ctx, w, sync)
			if err != nil || !o.met {
				return o, err
			}
			applies = true
		}
		return rollout(ctx, w, sync)
	}
}

// driftedNodes reports which nodes are to be replaced.
func (w *syncWaiter) driftedNodes(ctx context.Context, sync string) (outcome, error) {
	decides, err := cluster.Live(w.kube)(ctx)
	if err != nil {
		return outcome{}, err
	}
	if decides == nil {
		return outcome{}, errors.New("there is no Cluster, which names the region of the nodes: apply one, or wait with --for=ready")
	}
	live, err := (&forecasting.SnapshotReader{Reader: w.kube}).Read(ctx, forecasting.ClusterOf(decides.Spec))
	if err != nil {
		return outcome{}, err
	}
	nodes, unknown, err := w.drifted(ctx, decides.Spec, live)
	if err != nil {
		return outcome{}, err
	}
	ours := map[string]bool{}
	for _, pool := range live.NodePools {
		ours[pool.Name] = pool.Labels[v1alpha1.SyncLabel] == connect.LabelValue(sync)
	}
	return replaced(nodes, unknown, ours), nil
}

// poolRemoved is the reason of a node whose pool is gone, so that it is not known which Sync had it.
const poolRemoved = "NodePoolRemoved"

// replaced is the outcome of nodes that are to be replaced, and of what is not known by pool, of the pools of
// a Sync.
func replaced(nodes []provision.Node, unknown map[string][]string, ours map[string]bool) outcome {
	var names []string
	blocked := 0
	for _, n := range nodes {
		if !ours[n.Pool] && n.Reason != poolRemoved {
			continue
		}
		names = append(names, fmt.Sprintf("%s (%s)", nodeName(n), n.Reason))
		if n.Blocked() {
			blocked++
		}
	}
	if len(names) > 0 {
		sentence := plural.Count(len(names), "node") + " to be replaced"
		if blocked > 0 {
			sentence += fmt.Sprintf(", %d of them blocked", blocked)
		}
		return outcome{sentence: sentence + ": " + some(names)}
	}
	for _, pool := range slices.Sorted(maps.Keys(unknown)) {
		if ours[pool] {
			return outcome{sentence: unknown[pool][0]}
		}
	}
	return outcome{met: true, sentence: "no node is to be replaced"}
}

func nodeName(n provision.Node) string {
	if n.Name == "" {
		return n.NodeClaim
	}
	return n.Name
}

// some names the first three.
func some(names []string) string {
	const listed = 3
	if len(names) <= listed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), len(names)-listed)
}
