package simulate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/blocker"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
)

// cost is what the pool's nodes cost.
func (c *comparison) cost(name string) provision.Cost {
	book := c.ledger()
	var out provision.Cost
	var unblocked, same provision.Amount
	is, outcomes := c.after.Pools[name], c.nodeOutcomes(name)
	for _, claim := range c.before.Claims[name] {
		kind, zone := claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[corev1.LabelTopologyZone]
		capacity := claim.Labels[karpv1.CapacityTypeLabelKey]
		if kind == "" {
			continue // It was not launched yet.
		}
		outcome := outcomes[claim.Name]
		own := ownOffer(claim)
		next := []*offerings.Offering{own}
		switch {
		case is == nil || outcome.deleted:
			next = nil
		case outcome.replaced:
			next = c.launchedFor(claim, is, own)
		}
		final := next
		if outcome.blocked {
			next = []*offerings.Offering{own}
		}
		book.pay(&out.Now, kind, zone, capacity)
		for to, all := range map[*provision.Amount][]*offerings.Offering{&out.After: next, &unblocked: final} {
			for _, o := range all {
				book.pay(to, o.InstanceType, o.Zone, o.CapacityType)
			}
		}
		if slices.ContainsFunc(next, own.SameAs) {
			book.pay(&same, kind, zone, capacity)
		}
	}
	out.Now, out.After, unblocked = rounded(out.Now), rounded(out.After), rounded(unblocked)
	out.SpotUnchanged, out.UnpricedUnchanged = cents(same.SpotAtMost), same.Unpriced
	if unblocked != out.After {
		out.Unblocked = &unblocked
	}
	if was := c.before.Pools[name]; was != nil {
		out.MaxBefore, out.MaxBeforeUnknown = c.maxCost(c.before, was, book)
	}
	if is != nil {
		out.Max, out.MaxUnknown = c.maxCost(c.after, is, book)
		c.minCost(is, &out, book)
	}
	out.Prices, out.Notes = book.sources(), c.notes(name)
	out.NonComputeNow, out.NonComputeAfter = c.nonCompute(name)
	return out
}

// launchedFor is what is launched in the place of a replaced node, which may be none or several; where no price is known of what its pool may buy, its own
// type, whose price is not known either.
func (c *comparison) launchedFor(claim *karpv1.NodeClaim, pool *karpv1.NodePool, own *offerings.Offering) []*offerings.Offering {
	if launched, simulated := c.launched[claim.Name]; simulated {
		return launched
	}
	next, sold := c.replacementOffering(claim, pool), c.after.Offerings[pool.Name]
	if next == nil && len(sold.Allowed) > 0 && len(sold.Offerings) == 0 {
		return []*offerings.Offering{own}
	}
	if next == nil {
		return nil
	}
	return []*offerings.Offering{next}
}

// nodeOutcome is what the change does to a node.
type nodeOutcome struct {
	// replaced is a node of a pool that stays.
	replaced bool
	// blocked is a node whose disruption something blocks until somebody acts.
	blocked bool
	// deleted is a node in whose place Karpenter launches none.
	deleted bool
}

// nodeOutcomes are by the names of NodeClaims.
func (c *comparison) nodeOutcomes(pool string) map[string]nodeOutcome {
	out := map[string]nodeOutcome{}
	_, _, never := c.replacementBatch(pool)
	for _, n := range c.replaced {
		if n.Pool == pool {
			out[n.NodeClaim] = nodeOutcome{replaced: true, blocked: never || isBlocked(n), deleted: c.isDeleted(n)}
		}
	}
	for _, removal := range c.removed {
		for _, n := range removal.Nodes {
			if removal.Pool == pool {
				out[n.NodeClaim] = nodeOutcome{blocked: isBlocked(n)}
			}
		}
	}
	return out
}

// isBlocked reports whether something blocks the disruption of the node until somebody acts. One that is
// about to start is blocked for a while only.
func isBlocked(n provision.Node) bool {
	return slices.ContainsFunc(n.Blockers, func(b provision.Blocker) bool {
		return b.ForcedAfterSeconds == 0 && b.Kind != blocker.Starting
	})
}

// isDeleted reports whether Karpenter launches nothing in the place of a node, or deletes it again once it is empty.
// For one without pods Karpenter starts no other. For pods that nothing makes again
// it does, and finds that one empty once they are gone.
func (c *comparison) isDeleted(n provision.Node) bool {
	pool := c.after.Pools[n.Pool]
	starts := slices.ContainsFunc(n.Blockers, func(b provision.Blocker) bool { return b.Kind == blocker.Starting })
	if pool == nil || pool.Spec.Replicas != nil || starts {
		return false
	}
	return !slices.ContainsFunc(n.Pods, func(p provision.Pod) bool { return !p.WithoutController }) &&
		(len(n.Pods) == 0 || pool.Spec.Disruption.ConsolidateAfter.Duration != nil)
}

// notes state what the pool's cost after the change leaves out.
func (c *comparison) notes(pool string) []string {
	var out []string
	for _, removal := range c.removed {
		if removal.Pool != pool {
			continue
		}
		if removal.Unschedulable > 0 {
			out = append(out, fmt.Sprintf("NodePool %[2]s goes: %[1]s no other node, and what is no longer paid for their nodes is saved only while they do not run.", counted(removal.Unschedulable, "of it finds", "of it find"), pool))
		}
		if removal.Rescheduled > 0 {
			out = append(out, fmt.Sprintf("NodePool %[2]s goes: %[1]s to other nodes, and what new nodes for that cost is left out.", counted(removal.Rescheduled, "of it moves", "of it move"), pool))
		}
	}
	return out
}

func counted(pods int, one, many string) string {
	if pods == 1 {
		return "1 pod " + one
	}
	return fmt.Sprintf("%d pods %s", pods, many)
}

// total adds the pools up. Without a limit on one of them there is none on all.
func (c *comparison) total(pools []provision.Pool) provision.Cost {
	var out provision.Cost
	var before, after maxima
	all := map[provision.Price]bool{}
	var unblocked provision.Amount
	for _, p := range pools {
		out.Now, out.After = plus(out.Now, p.Cost.Now), plus(out.After, p.Cost.After)
		out.NonComputeNow, out.NonComputeAfter = plusNonCompute(out.NonComputeNow, p.Cost.NonComputeNow), plusNonCompute(out.NonComputeAfter, p.Cost.NonComputeAfter)
		final := p.Cost.After
		if p.Cost.Unblocked != nil {
			final = *p.Cost.Unblocked
		}
		unblocked = plus(unblocked, final)
		out.Notes = append(out.Notes, p.Cost.Notes...)
		out.Min, out.SpotUnchanged = out.Min+p.Cost.Min, out.SpotUnchanged+p.Cost.SpotUnchanged
		out.UnpricedUnchanged += p.Cost.UnpricedUnchanged
		out.MinUnknown, out.MinAtMost = out.MinUnknown || p.Cost.MinUnknown, out.MinAtMost || p.Cost.MinAtMost
		if p.Action != "delete" {
			after.add(p.Cost.Max, p.Cost.MaxUnknown)
		}
		if p.Action != "create" {
			before.add(p.Cost.MaxBefore, p.Cost.MaxBeforeUnknown)
		}
		for _, price := range p.Cost.Prices {
			all[price] = true
		}
	}
	out.Now, out.After, out.Min = rounded(out.Now), rounded(out.After), cents(out.Min)
	out.SpotUnchanged = cents(out.SpotUnchanged)
	out.MaxBefore, out.MaxBeforeUnknown = before.total()
	out.Max, out.MaxUnknown = after.total()
	if unblocked = rounded(unblocked); unblocked != out.After {
		out.Unblocked = &unblocked
	}
	out.Prices = (&ledger{prices: all}).sources()
	return out
}

// maxima adds the maxima of pools up.
type maxima struct {
	usd                float64
	unbounded, unknown bool
}

func (c *maxima) add(bound *float64, unknown bool) {
	switch {
	case unknown:
		c.unknown = true
	case bound == nil:
		c.unbounded = true
	default:
		c.usd += *bound
	}
}

// total is that of all; nil where one has none, or is not known.
func (c *maxima) total() (bound *float64, unknown bool) {
	if c.unbounded || c.unknown {
		return nil, !c.unbounded
	}
	usd := cents(c.usd)
	return &usd, false
}
