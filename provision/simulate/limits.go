package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/provision"
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
	tried := 0
	for i, node := range c.replaced {
		sentence := c.full(node)
		if sentence == "" || len(node.Pods) == 0 {
			continue
		}
		lost := slices.ContainsFunc(node.Blockers, func(b provision.Blocker) bool { return b.Kind == "unschedulable" })
		if tried++; !lost && tried <= mostTried {
			fits, err := c.elsewhere(ctx, node)
			if err != nil {
				return err
			}
			if fits {
				continue
			}
		}
		c.replaced[i].Blockers = append(c.replaced[i].Blockers, provision.Blocker{Kind: "limit"})
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
		if p.Why != "" {
			return false, nil
		}
	}
	return true, nil
}

// full names the limit of its pool that leaves no room for the node's replacement.
func (c *comparison) full(node provision.Node) string {
	pool, types := c.after.Pools[node.Pool], c.after.Offerings[node.Pool].Allowed
	if len(types) == 0 || len(pool.Spec.Limits) == 0 {
		return ""
	}
	used := c.used(node)
	for _, name := range workload.SortedNames(corev1.ResourceList(pool.Spec.Limits)) {
		limit, least := pool.Spec.Limits[name], math.Inf(1)
		for _, it := range types {
			least = min(least, units(it, name))
		}
		has := used[name]
		if has.AsApproximateFloat64()+least > limit.AsApproximateFloat64() {
			return fmt.Sprintf("The limit of %s %s leaves no room for a replacement: the other nodes have %s, and the smallest node allowed has %s.",
				limit.String(), name, has.String(), resource.NewQuantity(int64(least), has.Format))
		}
	}
	return ""
}

// over lists the limits that the step sets below what the pool uses.
func (c *comparison) over(name string) []provision.Excess {
	was, is := c.before.Pools[name], c.after.Pools[name]
	if was == nil || is == nil || len(c.before.Claims[name]) == 0 {
		return nil
	}
	used := c.usage(name, nil)
	var out []provision.Excess
	for _, resource := range workload.SortedNames(corev1.ResourceList(is.Spec.Limits)) {
		limit, has := is.Spec.Limits[resource], used[resource]
		if old, ok := was.Spec.Limits[resource]; ok && old.Cmp(limit) == 0 || has.Cmp(limit) <= 0 {
			continue
		}
		out = append(out, provision.Excess{Resource: string(resource), Used: has.String(), Limit: limit.String()})
	}
	return out
}

// used is what the node's pool holds without it, and without the nodes that go
// before it because they have no pods.
func (c *comparison) used(but provision.Node) corev1.ResourceList {
	leaves := map[string]bool{but.NodeClaim: true}
	for _, n := range c.replaced {
		if n.Pool == but.Pool && len(n.Pods) == 0 && !n.Blocked() {
			leaves[n.NodeClaim] = true
		}
	}
	return c.usage(but.Pool, leaves)
}

// usage is the capacity of a pool's nodes without those that leave.
func (c *comparison) usage(pool string, leaves map[string]bool) corev1.ResourceList {
	out, nodes := corev1.ResourceList{}, int64(0)
	for _, claim := range c.before.Claims[pool] {
		if leaves[claim.Name] {
			continue
		}
		nodes++
		for name, quantity := range c.before.Capacity(claim) {
			have := out[name]
			have.Add(quantity)
			out[name] = have
		}
	}
	out[nodesLimit] = *resource.NewQuantity(nodes, resource.DecimalSI)
	return out
}
