package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/blocker"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// mostTried is for how many nodes without room it is tried whether their pods find
// it elsewhere.
const mostTried = 5

// checkLimits blocks the nodes that a limit keeps: Karpenter counts a pool without the node
// that it considers, and then needs capacity for a replacement below the limit, unless the
// node's pods fit on others.
func (c *comparison) checkLimits(ctx context.Context) error {
	c.fullPools = map[string]string{}
	tried, usages := 0, map[string]*limitUsage{}
	for i, node := range c.replaced {
		of, known := usages[node.Pool]
		if !known {
			of = c.limitUsageOf(node.Pool)
			usages[node.Pool] = of
		}
		if of == nil || len(node.Pods) == 0 {
			continue
		}
		sentence := of.full(node)
		if sentence == "" {
			continue
		}
		lost := slices.ContainsFunc(node.Blockers, func(b provision.Blocker) bool { return b.Kind == blocker.Unschedulable })
		if tried++; !lost && tried <= mostTried {
			fits, err := c.elsewhere(ctx, node)
			if err != nil {
				return err
			}
			if fits {
				continue
			}
		}
		c.replaced[i].Blockers = append(c.replaced[i].Blockers, provision.Blocker{Kind: blocker.Limit})
		if c.fullPools[node.Pool] == "" {
			c.fullPools[node.Pool] = sentence
		}
	}
	return nil
}

// elsewhere reports whether all pods of the node find another, with everything
// else as it is.
func (c *comparison) elsewhere(ctx context.Context, node provision.Node) (bool, error) {
	var pending []pendingPod
	for _, pod := range c.before.Bound[node.Name] {
		if slices.ContainsFunc(node.Pods, func(p provision.Pod) bool { return workload.ComparePods(p, workload.NameOf(pod)) == 0 }) {
			pending = append(pending, pendingPod{pod: snapshot.Unbound(pod)})
		}
	}
	placed, err := c.place(ctx, c.after, pending, map[string]bool{node.Name: true})
	if err != nil {
		return false, err
	}
	for _, p := range placed {
		if p.Reason != "" {
			return false, nil
		}
	}
	return true, nil
}

// full names the limit of its pool that leaves no room for the node's replacement.
func (of *limitUsage) full(node provision.Node) string {
	used := of.without[node.NodeClaim]
	for _, name := range workload.SortedNames(corev1.ResourceList(of.limits)) {
		limit, least := of.limits[name], of.smallest[name]
		has := used[name]
		if has.AsApproximateFloat64()+least > limit.AsApproximateFloat64() {
			return fmt.Sprintf("The limit of %s %s leaves no capacity for a replacement: the other nodes have %s, and the smallest node allowed has %s.",
				limit.String(), name, has.String(), resource.NewQuantity(int64(least), has.Format))
		}
	}
	return ""
}

// over lists the limits that the change sets below what the pool uses.
func (c *comparison) over(name string) []provision.ExceededLimit {
	was, is := c.before.Pools[name], c.after.Pools[name]
	if was == nil || is == nil || len(c.before.Claims[name]) == 0 {
		return nil
	}
	used := c.usage(name)
	var out []provision.ExceededLimit
	for _, resource := range workload.SortedNames(corev1.ResourceList(is.Spec.Limits)) {
		limit, has := is.Spec.Limits[resource], used[resource]
		if old, ok := was.Spec.Limits[resource]; ok && old.Cmp(limit) == 0 || has.Cmp(limit) <= 0 {
			continue
		}
		out = append(out, provision.ExceededLimit{Resource: string(resource), Used: has.String(), Limit: limit.String()})
	}
	return out
}

// limitUsage is what of a pool's limits is used beside each of its nodes.
type limitUsage struct {
	limits karpv1.Limits
	// smallest is how much of each limited resource the smallest node allowed has.
	smallest map[corev1.ResourceName]float64
	// without is, by NodeClaim, what the pool holds without it and without the nodes
	// that go before it because they have no pods.
	without map[string]corev1.ResourceList
}

// limitUsageOf is nil where no limit of the pool can keep a node.
func (c *comparison) limitUsageOf(name string) *limitUsage {
	pool, types := c.after.Pools[name], c.after.Offerings[name].Allowed
	if len(types) == 0 || len(pool.Spec.Limits) == 0 {
		return nil
	}
	out := &limitUsage{limits: pool.Spec.Limits, smallest: map[corev1.ResourceName]float64{}}
	for limited := range pool.Spec.Limits {
		least := math.Inf(1)
		for _, it := range types {
			least = min(least, units(it, limited))
		}
		out.smallest[limited] = least
	}
	leaves := map[string]bool{}
	for _, n := range c.replaced {
		if n.Pool == name && len(n.Pods) == 0 && !n.Blocked() {
			leaves[n.NodeClaim] = true
		}
	}
	out.without = c.usageWithoutEach(slices.DeleteFunc(slices.Clone(c.before.Claims[name]), func(claim *karpv1.NodeClaim) bool { return leaves[claim.Name] }))
	return out
}

// usageWithoutEach is, by each NodeClaim, the capacity of the others. It adds what comes before
// and what comes after, since a sum takes how it is written from the first of its terms.
func (c *comparison) usageWithoutEach(claims []*karpv1.NodeClaim) map[string]corev1.ResourceList {
	following := make([]corev1.ResourceList, len(claims)+1)
	for i := len(claims) - 1; i >= 0; i-- {
		following[i] = resources.Merge(c.before.Capacity(claims[i]), following[i+1])
	}
	out, preceding := map[string]corev1.ResourceList{}, corev1.ResourceList{}
	for i, claim := range claims {
		others := resources.Merge(preceding, following[i+1])
		others[nodesLimit] = *resource.NewQuantity(int64(len(claims)-1), resource.DecimalSI)
		out[claim.Name], preceding = others, resources.Merge(preceding, c.before.Capacity(claim))
	}
	return out
}

// usage is the capacity of a pool's nodes.
func (c *comparison) usage(pool string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, claim := range c.before.Claims[pool] {
		resources.MergeInto(out, c.before.Capacity(claim))
	}
	out[nodesLimit] = *resource.NewQuantity(int64(len(c.before.Claims[pool])), resource.DecimalSI)
	return out
}
