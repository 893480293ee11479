package aws

import (
	"context"
	"fmt"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
)

// users are who lives on what the Cluster declares in AWS: the nodes that NodePools may
// launch, whoever made those, and all nodes that Karpenter has made or is making, whose
// pools may be on their way out.
type users struct {
	// pools are the NodePools that are declared or exist, nodes the Nodes and the
	// NodeClaims without a Node.
	pools, nodes int
	// names are theirs.
	names loss.Names
	// err is why they could not be counted.
	err error
}

// countUsers counts anew.
func (w *Target) countUsers(ctx context.Context, m desiredState) users {
	pools, err := karpenter.Pools(ctx, w.api)
	if err != nil {
		return users{err: err}
	}
	for _, item := range m.Pools {
		pools[item.Key.Name] = true
	}
	// The NodeClaims that belong to no NodePool have nodes too.
	names, coming, err := karpenter.Nodes(ctx, w.api, karpenter.PoolLabel, "")
	lost := loss.Names{}
	karpenter.Lost(lost, names, coming)
	for pool := range pools {
		lost.Add("NodePool", pool)
	}
	return users{pools: len(pools), nodes: len(names) + len(coming), names: lost, err: err}
}

// nodeDependency is a kind of things on which nodes depend.
type nodeDependency struct {
	// one and many are what happens to one node, and to several, when one of its
	// things goes.
	one, many string
	// field is the one of the Cluster that declares them.
	field string
}

func nodeDependencies() map[string]nodeDependency {
	permissions := nodeDependency{"loses its permissions in AWS", "lose their permissions in AWS", "spec.nodeRole"}
	drained := nodeDependency{"is not drained any more before AWS takes it away", "are not drained any more before AWS takes them away", "spec.interruptionQueue"}
	found := func(what string) nodeDependency {
		by := " no successor where Karpenter finds the " + what + " by this tag"
		return nodeDependency{"is replaced or gets" + by, "are replaced or get" + by, "spec.discovery"}
	}
	return map[string]nodeDependency{
		"AccessEntry":      {"loses its access to the cluster", "lose their access to the cluster", "spec.nodeRole"},
		"Role":             permissions,
		"InstanceProfile":  permissions,
		"Queue":            drained,
		"Rule":             drained,
		"SubnetTag":        found("subnet"),
		"SecurityGroupTag": found("security group"),
	}
}

// nodesDependOn reports whether nodes depend on things of a kind.
func nodesDependOn(kind string) bool { return nodeDependencies()[kind].field != "" }

// usedBy is the field of the Cluster through which things of a kind are used.
func usedBy(kind string) loss.FieldRef {
	if !nodesDependOn(kind) {
		return loss.FieldRef{}
	}
	return loss.FieldRef{Group: v1alpha1.GroupVersion.Group, Kind: "Cluster", Field: nodeDependencies()[kind].field}
}

// removal is what goes with a thing of a kind.
func (u users) removal(kind string) loss.DeletionImpact {
	out := loss.DeletionImpact{UsedBy: usedBy(kind), AfterNodes: nodesDependOn(kind)}
	dependency := nodeDependencies()[kind]
	switch {
	case !nodesDependOn(kind):
	case u.err != nil:
		out.Impact = "the nodes that " + dependency.many + " could not be counted: " + u.err.Error()
		out.Losses = loss.Counts{loss.Uncounted: 1}
	case u.pools == 0 && u.nodes == 1:
		out.Impact = "1 node " + dependency.one
	case u.pools+u.nodes > 0:
		out.Impact = u.String() + " " + dependency.many
	}
	if out.Impact != "" && u.err == nil {
		out.Losses, out.Names = loss.Counts{"NodePool": u.pools, "Node": u.nodes}, u.names
	}
	return out
}

// String names the nodes.
func (u users) String() string {
	pools := "1 NodePool"
	if u.pools != 1 {
		pools = fmt.Sprintf("%d NodePools", u.pools)
	}
	switch {
	case u.pools == 0:
		return fmt.Sprintf("%d nodes", u.nodes)
	case u.nodes == 0:
		return "the nodes of " + pools
	}
	return fmt.Sprintf("the nodes of %s (now %d)", pools, u.nodes)
}
