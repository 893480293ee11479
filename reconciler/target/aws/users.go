package aws

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/target/internal/api"
)

// users are who lives on what the Cluster declares in AWS: the nodes of the NodePools that
// are declared, and all nodes that Karpenter has made, whose pools may be on their way out.
type users struct {
	pools, nodes int
	// err says why the nodes could not be counted.
	err error
}

// usersOf counts the nodes anew.
func (w *World) usersOf(ctx context.Context, m wish) users {
	out := users{pools: len(m.pools)}
	nodes := api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
	err := w.api.Names(ctx, nodes, "karpenter.sh/nodepool", "", func(*metav1.PartialObjectMetadata) { out.nodes++ })
	out.err = api.Refused("counting the nodes", err, false)
	return out
}

// bearing is a kind of things on which nodes live.
type bearing struct {
	// fate is what happens to the nodes when one of its things goes.
	fate string
	// part is the field of the Cluster that declares them.
	part string
}

func bearings() map[string]bearing {
	const nodeRole, queue, discovery = "spec.nodeRole", "spec.interruptionQueue", "spec.discovery"
	return map[string]bearing{
		"AccessEntry":      {"lose their access to the cluster", nodeRole},
		"Role":             {"lose their permissions in AWS", nodeRole},
		"InstanceProfile":  {"lose their permissions in AWS", nodeRole},
		"Queue":            {"are not drained any more before AWS takes them away", queue},
		"Rule":             {"are not drained any more before AWS takes them away", queue},
		"SubnetTag":        {"are replaced or get no successor where Karpenter finds the subnet by this tag", discovery},
		"SecurityGroupTag": {"are replaced or get no successor where Karpenter finds the security group by this tag", discovery},
	}
}

// carries reports whether nodes live on things of a kind.
func carries(kind string) bool { return bearings()[kind].part != "" }

// usedBy is the part of the Cluster through which things of a kind are used.
func usedBy(kind string) loss.Part {
	if !carries(kind) {
		return loss.Part{}
	}
	return loss.Part{Group: v1alpha1.GroupVersion.Group, Kind: "Cluster", Field: bearings()[kind].part}
}

// removal is what goes with a thing of a kind.
func (u users) removal(kind string) loss.Removal {
	out := loss.Removal{UsedBy: usedBy(kind)}
	fate := bearings()[kind].fate
	switch {
	case !carries(kind):
	case u.err != nil:
		out.Grave = "the nodes that " + fate + " could not be counted: " + u.err.Error()
		out.Losses = loss.Counts{loss.Uncounted: 1}
	case u.pools+u.nodes > 0:
		out.Grave = u.String() + " " + fate
		out.Losses = loss.Counts{"NodePool": u.pools, "Node": u.nodes}
	}
	return out
}

// String names the nodes.
func (u users) String() string {
	count := func(n int, noun string) string {
		if n == 1 {
			return "1 " + noun
		}
		return fmt.Sprintf("%d %ss", n, noun)
	}
	switch {
	case u.pools == 0:
		return count(u.nodes, "node")
	case u.nodes == 0:
		return "the nodes of " + count(u.pools, "NodePool")
	}
	return fmt.Sprintf("the nodes of %s (now %d)", count(u.pools, "NodePool"), u.nodes)
}
