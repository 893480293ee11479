package simulate

import (
	"cmp"
	"context"
	"slices"
	"strings"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/blocker"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
)

// checkReservations blocks the nodes that a full capacity reservation keeps: Karpenter launches a
// replacement before it terminates the node, unless its feature gate TerminateFirstDrift is on.
func (c *comparison) checkReservations(ctx context.Context) error {
	if c.after.Cluster.FeatureGates["TerminateFirstDrift"] {
		return nil
	}
	c.after.Replacing = true
	defer func() { c.after.Replacing = false }()
	tried, full := map[string]int{}, map[string]bool{}
	for i, node := range c.replaced {
		if node.CapacityType != karpv1.CapacityTypeReserved || len(node.Pods) == 0 || node.Name == "" {
			continue
		}
		// Further nodes of a pool are as those that were tried.
		if tried[node.Pool]++; tried[node.Pool] <= mostTried {
			fits, err := c.elsewhere(ctx, node)
			if err != nil {
				return err
			}
			full[node.Pool] = !fits
		}
		if full[node.Pool] {
			c.replaced[i].Blockers = append(c.replaced[i].Blockers, provision.Blocker{Kind: blocker.Reservation})
		}
	}
	return nil
}

// heldByReservation reports whether a full capacity reservation keeps the node.
func heldByReservation(n provision.Node) bool {
	return slices.ContainsFunc(n.Blockers, func(b provision.Blocker) bool { return b.Kind == blocker.Reservation })
}

// reservationEnds are the reservations with an end date of the classes after the change.
func (c *comparison) reservationEnds() []provision.ReservationEnd {
	found := map[string]*provision.ReservationEnd{}
	for _, pool := range c.after.SortedPools() {
		class := c.after.Class(pool)
		if class == nil || !offerings.Requirements(pool).Get(karpv1.CapacityTypeLabelKey).Has(karpv1.CapacityTypeReserved) {
			continue
		}
		for _, r := range c.after.Reservations(class).List {
			if r.EndTime == nil {
				continue
			}
			end, known := found[r.ID]
			if !known {
				end = &provision.ReservationEnd{ID: r.ID, Type: string(r.ReservationType), End: r.EndTime.UTC(), NodesLeave: r.LeavesAt()}
				found[r.ID] = end
			}
			end.Pools = append(end.Pools, pool.Name)
			for _, claim := range c.before.Claims[pool.Name] {
				if claim.Labels[cloudprovider.ReservationIDLabel] == r.ID {
					end.Nodes++
				}
			}
		}
	}
	var out []provision.ReservationEnd
	for _, end := range found {
		out = append(out, *end)
	}
	slices.SortFunc(out, func(a, b provision.ReservationEnd) int {
		return cmp.Or(a.End.Compare(b.End), strings.Compare(a.ID, b.ID))
	})
	return out
}
