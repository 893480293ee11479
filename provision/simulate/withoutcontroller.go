package simulate

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/blocker"
	"github.com/poolwright/poolwright/provision/simulate/internal/placement"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// hasNoController reports whether nothing makes the pod again once it is evicted: it has no
// owner, no workload takes it for its own, and no revision declares it.
func (c *comparison) hasNoController(pod *corev1.Pod) bool {
	if len(pod.OwnerReferences) > 0 {
		return false
	}
	if c.managed == nil {
		c.managed = map[provision.Pod]bool{}
		for _, f := range []*placement.Simulation{c.before, c.after} {
			if f == nil {
				continue
			}
			for _, w := range workload.PodsByWorkload(f.Workloads, c.before.Pods) {
				for _, live := range w.Live {
					c.managed[workload.NameOf(live)] = true
				}
			}
		}
	}
	return !c.managed[workload.NameOf(pod)]
}

// terminating are the nodes that go, their pods that must find another, and those that
// are replaced nodes' and that nothing makes again. Those that end need none.
func (c *comparison) terminating(ending map[provision.Pod]bool) (gone map[string]bool, movers, withoutController []*corev1.Pod) {
	gone = map[string]bool{}
	leave := func(node provision.Node, replaced bool) {
		if node.Name == "" || heldByReservation(node) {
			return
		}
		gone[node.Name] = true
		for _, pod := range c.before.Bound[node.Name] {
			switch {
			case !podutil.IsReschedulable(pod) || ending[workload.NameOf(pod)]:
			case !c.hasNoController(pod):
				movers = append(movers, pod)
			case replaced:
				withoutController = append(withoutController, pod)
			}
		}
	}
	for _, node := range c.replaced {
		leave(node, true)
	}
	for _, removal := range c.removed {
		for _, node := range removal.Nodes {
			leave(node, false)
		}
	}
	return gone, movers, withoutController
}

// release drops what holds nodes of pools that go where the pod ends with the change.
func (c *comparison) release(ending map[provision.Pod]bool) {
	for _, removal := range c.removed {
		for i, node := range removal.Nodes {
			removal.Nodes[i].Blockers = slices.DeleteFunc(node.Blockers, func(b provision.Blocker) bool { return ending[b.Pod] })
		}
	}
}

// keep adds what keeps a node whose pods would find no other: Karpenter takes none
// away before its pods have somewhere to go.
func keep(nodes []provision.Node, stuck map[provision.Pod]bool) {
	for i, node := range nodes {
		for _, pod := range node.Pods {
			pod.WithoutController = false
			if stuck[pod] {
				nodes[i].Blockers = append(nodes[i].Blockers, provision.Blocker{Kind: blocker.Unschedulable, Pod: pod})
			}
		}
	}
}

// blockWithoutController blocks the nodes of pods without a controller: Karpenter does not
// check that, and schedules them as all others, on nodes that they never get.
func (c *comparison) blockWithoutController(ctx context.Context, movers, withoutController []*corev1.Pod, gone map[string]bool) error {
	if len(withoutController) == 0 {
		return nil
	}
	pending := c.alike(slices.Concat(movers, withoutController))
	placed, err := c.place(ctx, c.after, pending, gone)
	if err != nil {
		return err
	}
	stuck := map[provision.Pod]bool{}
	for _, pod := range withoutController {
		stuck[workload.NameOf(pod)] = placed[snapshot.PodID(pod)].Reason != ""
	}
	keep(c.replaced, stuck)
	return nil
}

// keptFor reports whether the pod is one that holds its node for good.
func keptFor(node provision.Node, pod provision.Pod) bool {
	return slices.ContainsFunc(node.Blockers, func(b provision.Blocker) bool { return b.ForcedAfterSeconds == 0 && b.Pod == pod })
}
