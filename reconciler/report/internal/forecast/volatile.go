package forecast

import (
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision"
)

// offeringsRefused is the code of what EC2 refused of a NodePool.
const offeringsRefused = "OfferingsRefused"

// StripVolatile is a Forecast without what changes by itself, by which two of them are compared.
func StripVolatile(f *provision.Forecast) *provision.Forecast {
	if f == nil {
		return nil
	}
	out := *f
	out.Replaced = each(f.Replaced, stripNode)
	out.Removed = each(f.Removed, func(r provision.RemovedPool) provision.RemovedPool {
		r.Nodes, r.Pods, r.Rescheduled, r.Unschedulable = each(r.Nodes, stripNode), 0, 0, 0
		return r
	})
	out.Drifted = nil
	for _, n := range f.Drifted {
		same := func(o provision.Node) bool { return o.Pool == n.Pool && o.Reason == n.Reason }
		if !slices.ContainsFunc(out.Drifted, same) {
			out.Drifted = append(out.Drifted, provision.Node{Pool: n.Pool, Reason: n.Reason})
		}
	}
	out.Pools = each(f.Pools, func(p provision.Pool) provision.Pool {
		p.Disruption.AllowedDisruptions, p.Disruption.NextWindow = 0, time.Time{}
		if p.Replaced == 0 {
			p.Nodes = 0
		}
		p.Cost.Prices, p.Cost.Unblocked = nil, nil
		p.Cost.NonComputeNow, p.Cost.NonComputeAfter = provision.NonCompute{}, provision.NonCompute{}
		if len(p.OverLimit) > 0 {
			p.OverLimit = each(p.OverLimit, func(e provision.ExceededLimit) provision.ExceededLimit {
				e.Used = ""
				return e
			})
		}
		return p
	})
	out.PodScheduling = provision.PodScheduling{NewlySchedulable: stripPods(f.PodScheduling.NewlySchedulable), NewlyUnschedulable: stripPods(f.PodScheduling.NewlyUnschedulable), Unschedulable: stripPods(newcomers(f))}
	out.ReservationEnds = slices.Clone(f.ReservationEnds)
	for i := range out.ReservationEnds {
		out.ReservationEnds[i].Nodes = 0
	}
	// Which nodes are unhealthy changes without the pull request, and so does what EC2 refuses and when: what that has of a cost
	// counts.
	out.Repairs = nil
	out.Unknown = slices.DeleteFunc(slices.Clone(f.Unknown), func(u provision.Unknown) bool { return u.Code == offeringsRefused })
	// The headline has the difference, rounded as it is shown.
	out.Cost.Now, out.Cost.After = provision.Amount{}, provision.Amount{}
	out.Cost.NonComputeNow, out.Cost.NonComputeAfter = provision.NonCompute{}, provision.NonCompute{}
	out.Cost.SpotUnchanged, out.Cost.UnpricedUnchanged, out.Cost.Unblocked, out.Cost.Notes = 0, 0, nil, nil
	out.Cost.Prices = each(f.Cost.Prices, func(p provision.Price) provision.Price {
		p.Date = ""
		return p
	})
	return &out
}

func stripNode(n provision.Node) provision.Node {
	blockers := n.Blockers
	n.Pods, n.Blockers = nil, nil
	for _, b := range blockers {
		b.Pod = provision.Pod{}
		same := func(o provision.Blocker) bool {
			return o.Kind == b.Kind && o.ForcedAfterSeconds == b.ForcedAfterSeconds && slices.Equal(o.PodDisruptionBudgets, b.PodDisruptionBudgets)
		}
		if !slices.ContainsFunc(n.Blockers, same) {
			n.Blockers = append(n.Blockers, b)
		}
	}
	return n
}

// stripPods is one placement for each pool and reason.
func stripPods(list []provision.Placement) []provision.Placement {
	var out []provision.Placement
	for _, p := range list {
		p.Pod, p.Similar = provision.Pod{}, 0
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
