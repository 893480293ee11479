package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/utils/pdb"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/drift"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/placement"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// Drifted lists the nodes that Karpenter is yet to replace or to take away in a
// live cluster, in the order in which it turns to them, and in sentences what cannot be
// determined, by the name of the pool whose nodes it is about. While there is such a
// sentence of a pool, more of its nodes may be to be replaced than are listed.
//
// Nodes of pools that are gone or going are among them, first and as
// "NodePoolRemoved", and nodes that are on their way out are until their NodeClaim
// is gone. Nodes that go for a reason of their own, as consolidation, are not.
// Blockers that only a simulation finds, "unschedulable" and "limit", are left to
// [Compare]: this needs neither prices nor instance types, and takes milliseconds.
func Drifted(ctx context.Context, live provision.ClusterSnapshot) (nodes []provision.Node, unknown map[string][]string, err error) {
	defer func() {
		if p := recover(); p != nil {
			nodes, unknown, err = nil, nil, fmt.Errorf("listing drifted nodes: Karpenter's code gave up with %v: check the objects with poolwright lint", p)
		}
	}()
	if live.Now.IsZero() {
		return nil, nil, errors.New("listing drifted nodes: the snapshot of the cluster has no time: fill Now")
	}
	c := &comparison{unknown: snapshot.Unknowns{}}
	c.before = &placement.Simulation{Resolved: &offerings.Resolved{Indexed: snapshot.New(live, c.unknown)}}
	c.drift = &drift.Change{Before: c.before.Resolved}
	limits, err := pdb.NewLimits(ctx, &snapshot.Client{Snapshot: c.before.Resolved.Indexed})
	if err != nil {
		return nil, nil, fmt.Errorf("listing drifted nodes: %w", err)
	}
	going := map[string]bool{}
	for _, pool := range live.NodePools {
		going[pool.Name] = !pool.DeletionTimestamp.IsZero()
	}
	var found []drainCandidate
	unknown = map[string][]string{}
	for name, claims := range c.before.Claims {
		c.unknown = snapshot.Unknowns{}
		ends, there := going[name]
		pool := c.before.Pools[name]
		if there && !ends && pool == nil {
			unknown[name] = []string{fmt.Sprintf("NodePool %s names no class: the replacement of its nodes cannot be predicted.", name)}
			continue
		}
		for _, claim := range claims {
			reason := poolRemoved
			if pool != nil {
				class := c.warnUnsynced(pool)
				reason = cmp.Or(c.drift.ReasonBefore(claim, pool), drift.ImageReason(claim, class))
			}
			if reason != "" {
				node := drainCandidate{Node: c.node(claim, limits), since: driftedAt(claim)}
				node.Reason = reason
				if pool == nil {
					node.since = time.Time{}
				}
				found = append(found, node)
			}
		}
		if len(c.unknown) > 0 {
			unknown[name] = slices.Sorted(maps.Keys(c.unknown))
		}
	}
	return inDisruptionOrder(found), unknown, ctx.Err()
}

// warnUnsynced warns where Karpenter has not yet reconciled what a pool's class is now:
// its hash, by which nodes are compared, may be of what it was. It returns the class where
// its status is that of what it is now, else nil.
func (c *comparison) warnUnsynced(pool *karpv1.NodePool) *awsv1.EC2NodeClass {
	class := c.before.Class(pool)
	if class == nil {
		c.unknown.Add(snapshot.NodeClassMissing, "NodePool/"+pool.Name, "NodePool %s: there is no usable EC2NodeClass %s: whether its nodes drift is not known.", pool.Name, pool.Spec.Template.Spec.NodeClassRef.Name)
		return nil
	}
	ready := snapshot.Condition(class, status.ConditionReady)
	unsynced := ready == nil || ready.ObservedGeneration != class.Generation
	switch {
	case c.before.Cluster.CABundle == "" && (unsynced || class.Annotations[awsv1.AnnotationEC2NodeClassHash] == ""):
		c.unknown.Add(codeNodeClassOutdated, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: Karpenter has not reconciled its newest generation yet: whether its nodes drift is not known.", class.Name)
	case !unsynced && !ready.IsTrue():
		// Without an AMI, a subnet or a security group Karpenter compares none of its nodes.
		c.unknown.Add(codeNodeClassNotReady, "EC2NodeClass/"+class.Name, "EC2NodeClass %s is not Ready (%s): whether its nodes drift is not known.", class.Name, ready.Reason)
	case !unsynced:
		return class
	}
	return nil
}
