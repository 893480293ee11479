package simulate

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/utils/pdb"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/blocker"
	"github.com/poolwright/poolwright/provision/simulate/internal/drift"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
	"github.com/poolwright/poolwright/provision/simulate/reduce"
)

// poolRemoved is the reason of nodes whose pool goes or has gone.
const poolRemoved = "NodePoolRemoved"

// drainCandidate is a node with what decides about its turn.
type drainCandidate struct {
	provision.Node
	// since is when Karpenter marked it as drifted, far ahead for not yet.
	since time.Time
}

// classify sorts every NodeClaim into replaced, drifted, removed or none of them.
func (c *comparison) classify(ctx context.Context) error {
	limits, err := pdb.NewLimits(ctx, &snapshot.Client{Snapshot: c.before.Resolved.Indexed})
	if err != nil {
		return err
	}
	var replaced, drifted []drainCandidate
	for name, claims := range c.before.Claims {
		was, is := c.before.Pools[name], c.after.Pools[name]
		if was == nil {
			c.unknown.Add(codeNodePoolMissing, "NodePool/"+name, "NodePool %s does not exist, and %d nodes are of it: their replacement cannot be predicted.", name, len(claims))
			continue
		}
		if is == nil {
			c.remove(name, claims, limits)
			continue
		}
		for _, claim := range claims {
			if !claim.DeletionTimestamp.IsZero() || !snapshot.Condition(claim, karpv1.ConditionTypeLaunched).IsTrue() {
				continue // It goes already, or Karpenter does not evaluate it yet.
			}
			already, next := c.drift.ReasonBefore(claim, was), c.drift.ReasonAfter(claim, was, is)
			if already == "" && next == "" {
				continue
			}
			node := drainCandidate{Node: c.node(claim, limits), since: driftedAt(claim)}
			node.Reason = cmp.Or(already, next)
			if already != "" {
				drifted = append(drifted, node)
			} else {
				replaced = append(replaced, node)
			}
		}
	}
	c.drifted, c.replaced = inDisruptionOrder(drifted), inDisruptionOrder(replaced)
	c.explain()
	slices.SortFunc(c.removed, func(a, b provision.RemovedPool) int { return strings.Compare(a.Pool, b.Pool) })
	return nil
}

// explain adds the changes that cause each replacement.
func (c *comparison) explain() {
	changes := map[string][]provision.Change{}
	for i, node := range c.replaced {
		if _, ok := changes[node.Pool]; !ok {
			changes[node.Pool] = c.changes(node.Pool)
		}
		c.replaced[i].Changes = drift.Causes(changes[node.Pool], node.Reason)
	}
}

// changes lists what differs in a pool, in its class and in the overlays.
func (c *comparison) changes(name string) []provision.Change {
	return c.drift.Changes(name, func(reason string) bool { return c.anyFor(name, reason) })
}

// anyFor reports whether a node of the pool is replaced for the reason, which is
// taken for so while no node is known.
func (c *comparison) anyFor(pool, reason string) bool {
	return len(c.before.Claims[pool]) == 0 || slices.ContainsFunc(c.replaced, func(n provision.Node) bool {
		return n.Pool == pool && n.Reason == reason
	})
}

func (c *comparison) remove(name string, claims []*karpv1.NodeClaim, limits pdb.Limits) {
	removal := provision.RemovedPool{Pool: name, Nodes: []provision.Node{}}
	for _, claim := range claims {
		node := c.node(claim, limits)
		node.Reason = poolRemoved
		node.Blockers = c.draining(node)
		removal.Nodes = append(removal.Nodes, node)
		removal.Pods += len(node.Pods)
	}
	c.removed = append(c.removed, removal)
}

// node describes a NodeClaim.
func (c *comparison) node(claim *karpv1.NodeClaim, limits pdb.Limits) provision.Node {
	out := provision.Node{
		NodeClaim: claim.Name, Name: claim.Status.NodeName, Pool: claim.Labels[karpv1.NodePoolLabelKey],
		InstanceType: claim.Labels[corev1.LabelInstanceTypeStable], CapacityType: claim.Labels[karpv1.CapacityTypeLabelKey],
		Zone: claim.Labels[corev1.LabelTopologyZone], Created: claim.CreationTimestamp.UTC(), Pods: []provision.Pod{},
	}
	node := c.before.Node(claim)
	if node == nil {
		out.Blockers = []provision.Blocker{{Kind: blocker.Starting}}
		return out
	}
	out.Name = node.Name
	if node.Labels[karpv1.NodeInitializedLabelKey] != "true" {
		out.Blockers = append(out.Blockers, provision.Blocker{Kind: blocker.Starting})
	}
	if node.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" || claim.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" {
		out.Blockers = append(out.Blockers, provision.Blocker{Kind: blocker.Node})
	}
	for _, pod := range c.before.Bound[node.Name] {
		if podutil.IsReschedulable(pod) {
			named := workload.NameOf(pod)
			named.WithoutController = c.hasNoController(pod)
			out.Pods = append(out.Pods, named)
		}
		if found, ok := c.blocker(pod, claim, limits); ok {
			out.Blockers = append(out.Blockers, found)
		}
	}
	slices.SortFunc(out.Pods, workload.ComparePods)
	slices.SortStableFunc(out.Blockers, func(a, b provision.Blocker) int { return workload.ComparePods(a.Pod, b.Pod) })
	return out
}

// blocker is what protects a pod from being moved.
func (c *comparison) blocker(pod *corev1.Pod, claim *karpv1.NodeClaim, limits pdb.Limits) (provision.Blocker, bool) {
	out := provision.Blocker{Pod: workload.NameOf(pod)}
	if grace := claim.Spec.TerminationGracePeriod; grace != nil {
		out.ForcedAfterSeconds = int(math.Ceil(grace.Duration.Seconds()))
	}
	if !podutil.IsDisruptable(pod, c.before.Clock, nil) {
		out.Kind = blocker.DoNotDisrupt
		return out, true
	}
	if budgets := c.blockingBudgets(pod, limits); len(budgets) > 0 {
		out.Kind, out.PodDisruptionBudgets = blocker.PDB, budgets
		return out, true
	}
	return provision.Blocker{}, false
}

// blockingBudgets are the PodDisruptionBudgets that keep a pod from being evicted, found once for pods of one shape: Karpenter
// compares each pod with each of them. A pod that must not be disrupted, which depends on its age, is none of these.
func (c *comparison) blockingBudgets(pod *corev1.Pod, limits pdb.Limits) []string {
	key := reduce.ShapeKeyOf(pod)
	if known, ok := c.evictions[key]; ok {
		return slices.Clone(known)
	}
	var out []string
	if budgets, free := limits.CanEvictPods([]*corev1.Pod{pod}, c.before.Clock, nil); !free {
		for _, b := range budgets {
			out = append(out, b.String())
		}
	}
	slices.Sort(out)
	if c.evictions == nil {
		c.evictions = map[reduce.ShapeKey][]string{}
	}
	c.evictions[key] = out
	return slices.Clone(out)
}

// draining are the blockers that hold a node even though it is deleted: pods that
// are waited for. What keeps Karpenter from choosing a node no longer matters then.
func (c *comparison) draining(node provision.Node) []provision.Blocker {
	waited := map[provision.Pod]bool{}
	for _, pod := range c.before.Bound[node.Name] {
		if podutil.IsDrainable(pod, c.before.Clock) {
			waited[workload.NameOf(pod)] = true
		}
	}
	return slices.DeleteFunc(node.Blockers, func(b provision.Blocker) bool { return !waited[b.Pod] })
}

// inDisruptionOrder sorts nodes as Karpenter turns to them: those without pods first, then by
// how long they are marked; those that are not marked yet by age.
func inDisruptionOrder(nodes []drainCandidate) []provision.Node {
	slices.SortFunc(nodes, func(a, b drainCandidate) int {
		return cmp.Or(
			cmp.Compare(min(len(a.Pods), 1), min(len(b.Pods), 1)),
			a.since.Compare(b.since),
			a.Created.Compare(b.Created),
			strings.Compare(a.NodeClaim, b.NodeClaim),
		)
	})
	out := make([]provision.Node, 0, len(nodes))
	for _, n := range nodes {
		out = append(out, n.Node)
	}
	return out
}

// driftedAt is when Karpenter marked a NodeClaim as drifted.
func driftedAt(claim *karpv1.NodeClaim) time.Time {
	if found := snapshot.Condition(claim, karpv1.ConditionTypeDrifted); found.IsTrue() {
		return found.LastTransitionTime.Time
	}
	return time.Unix(1<<40, 0)
}
