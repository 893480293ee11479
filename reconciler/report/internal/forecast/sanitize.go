package forecast

import (
	"slices"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/blocker"
	"github.com/poolwright/poolwright/provision/noderepair"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Sanitized is a copy as it is shown, with secrets masked by their shape and lists that are
// not null; nil for none.
func Sanitized(in *provision.Forecast) *provision.Forecast {
	if in == nil {
		return nil
	}
	f := *in
	f.Pools = each(f.Pools, cleanPool)
	f.Replaced = each(f.Replaced, cleanNode)
	f.Drifted = each(f.Drifted, cleanNode)
	f.Removed = each(f.Removed, func(x provision.RemovedPool) provision.RemovedPool {
		x.Pool, x.Nodes = sanitize.Redact(x.Pool), each(x.Nodes, cleanNode)
		return x
	})
	f.Rollout.Assumptions = each(f.Rollout.Assumptions, sanitize.Redact)
	f.PodScheduling = provision.PodScheduling{
		NewlySchedulable:   each(f.PodScheduling.NewlySchedulable, cleanPlacement),
		NewlyUnschedulable: each(f.PodScheduling.NewlyUnschedulable, cleanPlacement),
		Unschedulable:      each(f.PodScheduling.Unschedulable, cleanPlacement),
	}
	if f.ReservationEnds != nil {
		f.ReservationEnds = each(f.ReservationEnds, cleanReservationEnd)
	}
	if f.Repairs != nil {
		f.Repairs = each(f.Repairs, cleanRepair)
	}
	f.Cost.Prices = each(f.Cost.Prices, cleanPrice)
	f.Cost.Notes = cleanNotes(f.Cost.Notes)
	f.Unknown = each(f.Unknown, func(u provision.Unknown) provision.Unknown {
		u.Code, u.Object, u.Text = provision.UnknownCode(sanitize.Redact(string(u.Code))), sanitize.Redact(u.Object), sanitize.Redact(u.Text)
		return u
	})
	return &f
}

// each is a new list of what f makes of the entries, never nil.
func each[T any](in []T, f func(T) T) []T {
	out := make([]T, 0, len(in))
	for _, e := range in {
		out = append(out, f(e))
	}
	return out
}

func cleanPool(p provision.Pool) provision.Pool {
	p.Name = sanitize.Redact(p.Name)
	p.Changes = each(p.Changes, cleanChange)
	p.Cost.Prices = each(p.Cost.Prices, cleanPrice)
	p.Cost.Notes = cleanNotes(p.Cost.Notes)
	p.OverLimit = slices.Clone(p.OverLimit)
	for i, e := range p.OverLimit {
		p.OverLimit[i] = provision.ExceededLimit{Resource: sanitize.Redact(e.Resource), Used: sanitize.Redact(e.Used), Limit: sanitize.Redact(e.Limit)}
	}
	p.Disruption.Budget, p.Disruption.LimitMessage = sanitize.Redact(p.Disruption.Budget), sanitize.Redact(p.Disruption.LimitMessage)
	return p
}

func cleanReservationEnd(e provision.ReservationEnd) provision.ReservationEnd {
	e.ID, e.Type, e.Pools = sanitize.Redact(e.ID), sanitize.Redact(e.Type), each(e.Pools, sanitize.Redact)
	return e
}

func cleanRepair(r noderepair.Repair) noderepair.Repair {
	r.Node, r.Pool = sanitize.Redact(r.Node), sanitize.Redact(r.Pool)
	r.Condition, r.Reason = sanitize.Redact(r.Condition), sanitize.Redact(r.Reason)
	return r
}

func cleanChange(c provision.Change) provision.Change {
	return provision.Change{Object: sanitize.Redact(c.Object), Field: sanitize.Redact(c.Field), Reason: sanitize.Redact(c.Reason)}
}

func cleanNode(n provision.Node) provision.Node {
	n.NodeClaim, n.Name, n.Pool, n.Reason = sanitize.Redact(n.NodeClaim), sanitize.Redact(n.Name), sanitize.Redact(n.Pool), sanitize.Redact(n.Reason)
	n.InstanceType, n.CapacityType, n.Zone = sanitize.Redact(n.InstanceType), sanitize.Redact(n.CapacityType), sanitize.Redact(n.Zone)
	n.Changes, n.Pods = each(n.Changes, cleanChange), each(n.Pods, cleanPod)
	n.Blockers = each(n.Blockers, func(b provision.Blocker) provision.Blocker {
		b.Kind, b.Pod, b.PodDisruptionBudgets = blocker.Kind(sanitize.Redact(string(b.Kind))), cleanPod(b.Pod), each(b.PodDisruptionBudgets, sanitize.Redact)
		return b
	})
	return n
}

// cleanNotes are notes of a cost, which are left out where there are none.
func cleanNotes(notes []string) []string {
	if len(notes) == 0 {
		return nil
	}
	return each(notes, sanitize.Redact)
}

func cleanPrice(p provision.Price) provision.Price {
	return provision.Price{CapacityType: sanitize.Redact(p.CapacityType), Basis: sanitize.Redact(p.Basis), Date: sanitize.Redact(p.Date), Outdated: p.Outdated}
}

func cleanPod(p provision.Pod) provision.Pod {
	p.Namespace, p.Name = sanitize.Redact(p.Namespace), sanitize.Redact(p.Name)
	return p
}

// SanitizedNodes are copies as they are shown, never null.
func SanitizedNodes(nodes []provision.Node) []provision.Node { return each(nodes, cleanNode) }

func cleanPlacement(p provision.Placement) provision.Placement {
	p.Pod, p.Workload, p.Pool, p.Reason = cleanPod(p.Pod), sanitize.Redact(p.Workload), sanitize.Redact(p.Pool), sanitize.Redact(p.Reason)
	return p
}

// pod names a pod.
func (v View) pod(p provision.Pod) string { return v.Name(podName(p)) }

func podName(p provision.Pod) string { return p.Namespace + "/" + p.Name }
