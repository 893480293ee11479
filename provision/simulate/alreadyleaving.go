package simulate

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/drift"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// alreadyLeaving simulates the pods of nodes that go without the change: those that an earlier
// change made drift, and those that are on their way out. The change decides what takes
// their place: pods that would have found one of the pools as they were, and find none
// of the pools as they become, are its doing. They are tried beside all others that
// wait for a node, on both sides with those nodes gone.
func (c *comparison) alreadyLeaving(ctx context.Context, before, after []pendingPod, gone map[string]bool, ending map[provision.Pod]bool) error {
	leave := c.passing()
	var movers []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(leave)) {
		for _, pod := range c.before.Bound[name] {
			if !gone[name] && podutil.IsReschedulable(pod) && !ending[workload.NameOf(pod)] && !c.hasNoController(pod) {
				movers = append(movers, pod)
			}
		}
	}
	if len(movers) == 0 {
		return nil
	}
	moving := c.alike(movers)
	c.warnPods(moving)
	c.warnClaims(moving)
	c.warnZones(moving)
	then, err := c.place(ctx, c.before, slices.Concat(before, moving), leave)
	if err != nil {
		return err
	}
	all := maps.Clone(leave)
	maps.Copy(all, gone)
	now, err := c.place(ctx, c.after, slices.Concat(after, moving), all)
	if err != nil {
		return err
	}
	stuck := map[provision.Pod]bool{}
	for _, s := range moving {
		had, gets := then[s.pod.UID], now[s.pod.UID]
		for _, pod := range append([]*corev1.Pod{s.pod}, s.like...) {
			stuck[workload.NameOf(pod)] = gets.Reason != ""
		}
		if gets.Reason != "" && had.Reason == "" {
			c.found.NewlyUnschedulable = append(c.found.NewlyUnschedulable, provision.Placement{Pod: workload.NameOf(s.pod), Similar: s.more, Reason: gets.Reason})
		}
	}
	keep(c.drifted, stuck)
	return nil
}

// passing are the names of the nodes that go without the change and still go after it:
// what it puts back as it was makes no node drift any more.
func (c *comparison) passing() map[string]bool {
	drifted := map[string]bool{}
	for _, node := range c.drifted {
		drifted[node.NodeClaim] = true
	}
	out := map[string]bool{}
	for name, claims := range c.before.Claims {
		was, is := c.before.Pools[name], c.after.Pools[name]
		if was == nil || is == nil {
			continue
		}
		for _, claim := range claims {
			node := c.before.Node(claim)
			if node == nil {
				continue
			}
			ends := !claim.DeletionTimestamp.IsZero() || !node.DeletionTimestamp.IsZero()
			if ends || drifted[claim.Name] && (c.drift.ReasonAfter(claim, was, is) != "" || !drift.DecidedByHash(c.drift.ReasonBefore(claim, was))) {
				out[node.Name] = true
			}
		}
	}
	return out
}
