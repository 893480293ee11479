package simulate

import (
	"context"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/simulate/internal/placement"
)

// mostWork bounds the simulations of replaced nodes, in the instance types that the scheduler considers for each
// pool and each pod and the nodes that it considers: about a third of a second.
var mostWork = 40_000

// replacements finds what Karpenter launches in the place of the nodes that the change replaces.
func (c *comparison) replacements(ctx context.Context) error {
	found, err := c.after.Replace(ctx, c.replacement())
	if err != nil {
		return err
	}
	c.launched, c.assumptions = found.Launched, launchAssumptions(found)
	return nil
}

// replacement is what of the change the simulation of launches needs.
func (c *comparison) replacement() placement.Replacement {
	change := placement.Replacement{Gone: map[string]bool{}, MostWork: mostWork}
	for _, removal := range c.removed {
		for _, n := range removal.Nodes {
			change.Gone[n.Name] = true
		}
	}
	claims := map[string]*karpv1.NodeClaim{}
	for _, all := range c.before.Claims {
		for _, claim := range all {
			claims[claim.Name] = claim
		}
	}
	never := map[string]bool{} // By pool: each is worked out from all nodes of the pool.
	for _, n := range c.replaced {
		pool := c.after.Pools[n.Pool]
		switch {
		case n.Name == "" || pool == nil || pool.Spec.Replicas != nil || heldByReservation(n):
		case c.isDeleted(n):
			change.Gone[n.Name] = true
		default:
			if _, known := never[n.Pool]; !known {
				_, _, never[n.Pool] = c.replacementBatch(n.Pool)
			}
			change.Nodes = append(change.Nodes, placement.ReplacedNode{Name: n.Name, NodeClaim: n.NodeClaim, Pool: n.Pool, Was: ownOffer(claims[n.NodeClaim]), Last: never[n.Pool] || isBlocked(n)})
		}
	}
	for _, s := range c.waiting {
		change.Waiting = append(change.Waiting, s.pod)
	}
	return change
}

// launchAssumptions are those about what is launched.
func launchAssumptions(found placement.Launches) []string {
	var out []string
	if found.Together {
		out = append(out, "Many nodes are replaced: the pods of each are taken to move to one new node of the same NodePool, the cheapest that holds them.")
	}
	if found.Reserved {
		out = append(out, "Nodes in capacity reservations are taken to be launched in theirs again where that is allowed.")
	}
	if found.OtherPools {
		out = append(out, "Some nodes are replaced by nodes of another NodePool: what these cost is counted with the NodePool of the replaced node.")
	}
	if found.Incomplete {
		out = append(out, "Of some of these nodes no allowed instance type holds all pods: they are taken to keep theirs where it is allowed.")
	}
	return out
}
