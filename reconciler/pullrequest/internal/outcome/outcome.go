// Package outcome compares what was predicted of a merge with what happened: what a Sync's status keeps of a roll-out, and the
// metrics of it. It reads nothing itself. Start reading at [Observe].
package outcome

import (
	"slices"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/report"
)

// PoolRemoved is the reason of nodes whose pool goes.
const PoolRemoved = "NodePoolRemoved"

// Observe counts the nodes that are to be replaced for the merge, each once. What is counted is in the status: a
// node that is replaced stays pending for as long as its instance takes to start and to end, and nothing is replaced while
// no controller runs.
func Observe(item *v1alpha1.PullRequestStatus, remaining []provision.Node, poolCosts map[string]provision.Amount) {
	if item.Rollout == nil {
		item.Rollout = &v1alpha1.RolloutOutcome{CostBefore: costOf(item.Reviewed, poolCosts)}
	}
	out := item.Rollout
	for _, n := range remaining {
		at, counted := slices.BinarySearch(out.NodeClaims, n.NodeClaim)
		switch {
		case counted:
			continue
		case n.Reason == PoolRemoved:
			out.NodesRemoved++
		default:
			out.NodesReplaced++
		}
		out.NodeClaims = slices.Insert(out.NodeClaims, at, n.NodeClaim)
	}
}

// End completes what was observed of a roll-out that has ended.
func End(item *v1alpha1.PullRequestStatus, poolCosts map[string]provision.Amount) {
	if out := item.Rollout; out != nil {
		out.CostAfter, out.NodeClaims = costOf(item.Reviewed, poolCosts), nil
	}
}

// costOf is what the nodes of the pools cost that the merge touches; nil where that is not known.
func costOf(reviewed *v1alpha1.ReviewedDisruption, poolCosts map[string]provision.Amount) *v1alpha1.HourlyCost {
	if poolCosts == nil || reviewed == nil {
		return nil
	}
	var least, most float64
	for _, pool := range reviewed.Pools {
		amount := poolCosts[pool.Name]
		if amount.Unpriced > 0 {
			return nil
		}
		least, most = least+amount.Least(), most+amount.Most()
	}
	return forecasting.HourlyCost(least, most)
}

// Figures are what the comment predicted of nodes, and what happened; nil where the one or the other is not known.
func Figures(item *v1alpha1.PullRequestStatus) (predicted, actual *report.RolloutFigures) {
	reviewed, out := item.Reviewed, item.Rollout
	if reviewed == nil || out == nil || item.RolledOutTime == nil {
		return nil, nil
	}
	predicted = &report.RolloutFigures{
		Replaced: int(reviewed.NodesReplaced), Removed: int(reviewed.NodesRemoved),
		MinMinutes: int(reviewed.MinMinutes), MaxMinutes: int(reviewed.MaxMinutes), CostChange: rangeOf(forecasting.ReadHourlyCost(reviewed.CostChange)),
	}
	actual = &report.RolloutFigures{Replaced: int(out.NodesReplaced), Removed: int(out.NodesRemoved), Incomplete: out.Incomplete}
	if took := item.RolledOutTime.Sub(item.AppliedTime.Time); actual.Replaced > 0 {
		actual.MinMinutes = int(took.Minutes() + 0.5)
		actual.MaxMinutes = actual.MinMinutes
	}
	actual.CostChange = rangeOf(forecasting.ActualCostChange(out))
	return predicted, actual
}

// rangeOf is an amount that is known; nil for another.
func rangeOf(least, most float64, known bool) *report.USDRange {
	if !known {
		return nil
	}
	return &report.USDRange{Min: least, Max: most}
}
