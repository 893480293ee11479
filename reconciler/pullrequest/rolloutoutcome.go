package pullrequest

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/report"
)

// poolRemoved is the reason of nodes whose pool goes.
const poolRemoved = "NodePoolRemoved"

// observeRollout counts the nodes that are to be replaced for the merge, each once. What is counted is in the status: a
// node that is replaced stays pending for as long as its instance takes to start and to end, and nothing is replaced while
// no controller runs.
func (e *entry) observeRollout(remaining []provision.Node, poolCosts map[string]provision.Amount) {
	if !e.touchesPools() {
		return
	}
	if e.item.Rollout == nil {
		e.item.Rollout = &v1alpha1.RolloutOutcome{CostBefore: e.costOf(poolCosts)}
	}
	out := e.item.Rollout
	for _, n := range remaining {
		at, counted := slices.BinarySearch(out.NodeClaims, n.NodeClaim)
		switch {
		case counted:
			continue
		case n.Reason == poolRemoved:
			out.NodesRemoved++
		default:
			out.NodesReplaced++
		}
		out.NodeClaims = slices.Insert(out.NodeClaims, at, n.NodeClaim)
	}
}

// endRollout completes what was observed of a roll-out that has ended.
func (e *entry) endRollout(poolCosts map[string]provision.Amount) {
	if out := e.item.Rollout; out != nil {
		out.CostAfter, out.NodeClaims = e.costOf(poolCosts), nil
	}
}

// costOf is what the nodes of the pools cost that the merge touches; nil where that is not known.
func (e *entry) costOf(poolCosts map[string]provision.Amount) *v1alpha1.HourlyCost {
	if poolCosts == nil || e.item.Reviewed == nil {
		return nil
	}
	var least, most float64
	for _, pool := range e.item.Reviewed.Pools {
		amount := poolCosts[pool.Name]
		if amount.Unpriced > 0 {
			return nil
		}
		least, most = least+amount.Least(), most+amount.Most()
	}
	return forecasting.HourlyCost(least, most)
}

// figures are what the comment predicted of nodes, and what happened; nil where the one or the other is not known.
func (e *entry) figures() (predicted, happened *report.RolloutFigures) {
	reviewed, out := e.item.Reviewed, e.item.Rollout
	if reviewed == nil || out == nil || e.item.RolledOutTime == nil {
		return nil, nil
	}
	predicted = &report.RolloutFigures{
		Replaced: int(reviewed.NodesReplaced), Removed: int(reviewed.NodesRemoved),
		MinMinutes: int(reviewed.MinMinutes), MaxMinutes: int(reviewed.MaxMinutes), CostChange: rangeOf(reviewed.CostChange),
	}
	happened = &report.RolloutFigures{Replaced: int(out.NodesReplaced), Removed: int(out.NodesRemoved), Incomplete: out.Incomplete}
	if took := e.item.RolledOutTime.Sub(e.item.AppliedTime.Time); happened.Replaced > 0 {
		happened.MinMinutes = int(took.Minutes() + 0.5)
		happened.MaxMinutes = happened.MinMinutes
	}
	before, after := rangeOf(out.CostBefore), rangeOf(out.CostAfter)
	if before != nil && after != nil {
		happened.CostChange = &report.USDRange{Min: after.Min - before.Max, Max: after.Max - before.Min}
		if *out.CostBefore == *out.CostAfter { // Spot instances that cost the same, whatever that is.
			happened.CostChange = &report.USDRange{}
		}
	}
	return predicted, happened
}

// rangeOf reads an amount of a status; nil for none, and where somebody has written something else there.
func rangeOf(c *v1alpha1.HourlyCost) *report.USDRange {
	if c == nil {
		return nil
	}
	least, err := strconv.ParseFloat(c.Min, 64)
	most, failed := strconv.ParseFloat(c.Max, 64)
	if cmp.Or(err, failed) != nil {
		return nil
	}
	return &report.USDRange{Min: least, Max: most}
}
