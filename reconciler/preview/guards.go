package preview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
)

// applyGuards reports what the Sync's rules make of a proposal, and blocks in Proposed what the
// apply would hold.
func applyGuards(sync *v1alpha1.Sync, found plan.Proposal, forecast func([]plan.Change) hold.Nodes) (plan.Plan, []report.GuardResult) {
	changed, out := guardNodes(sync.Spec.Guard.MaxNodesReplaced, found, forecast)
	for _, r := range found.Proposed.Reasons() {
		if slices.Contains([]hold.Rule{hold.MaxPrunePercent, hold.DeletionLosses, hold.UpdateLosses, hold.QuotaExceeded, hold.SyncChangeHeld}, r.Rule) {
			out = append(out, report.GuardResult{Key: r.Key(), Rule: string(r.Rule), Result: report.GuardHeld, Text: r.String()})
		}
	}
	for _, r := range found.Proposed.Reasons() {
		if r.Rule == hold.HoldUntil { // It ends by itself, and nobody has to act.
			out = append(out, report.GuardResult{Key: r.Key(), Rule: string(r.Rule), Result: report.GuardWarning, Text: r.String()})
		}
	}
	if n := len(found.Problems) - len(found.ExistingProblems); n > 0 {
		out = append(out, report.GuardResult{Rule: "lint", Result: report.GuardHeld, Text: "objects with problems are not applied; nothing is deleted until they are corrected"})
	}
	if len(found.ExistingProblems) > 0 {
		// Its text may quote what is in the file.
		out = append(out, report.GuardResult{Rule: "lint", Result: report.GuardWarning,
			Text: fmt.Sprintf("the base has problems already (%d), which keep things from being deleted; the first: %s", len(found.ExistingProblems), positionOf(found.ExistingProblems[0]))})
	}
	return changed, out
}

// setNothingApplied reports that nothing of a folder can be rendered, where otherwise only its
// problems would be reported.
func setNothingApplied(guards []report.GuardResult) {
	for i, g := range guards {
		if g.Rule == "lint" && g.Result == report.GuardHeld {
			guards[i].Text = "nothing of the folder can be rendered: once merged, neither this nor any later commit is applied until that is corrected"
		}
	}
}

// positionOf is where a problem is.
func positionOf(o state.Problem) string {
	if o.Origin == (state.Origin{}) {
		return "of the repository as a whole"
	}
	return o.Origin.String()
}

// guardNodes holds changes of pools that would cost more nodes than the limit. The apply
// counts what the base has yet to replace as well, for it makes both.
func guardNodes(limit *int32, found plan.Proposal, forecast func([]plan.Change) hold.Nodes) (plan.Plan, []report.GuardResult) {
	if limit == nil || len(found.Proposed.Guarded()) == 0 {
		return found.Proposed, nil
	}
	whole, before := found.Proposed, pendingPools(found)
	whole.Changes = slices.Concat(found.Proposed.Changes, before)
	whole = whole.GuardNodes(new(int(*limit)), nil, "", forecast)
	changed := found.Proposed
	changed.Changes = whole.Changes[:len(found.Proposed.Changes)]
	g := report.GuardResult{Rule: string(hold.MaxNodesReplaced), Result: report.GuardOK, Text: fmt.Sprintf("at most %d nodes may be replaced without confirmation", *limit)}
	for _, r := range changed.Reasons() {
		if r.Rule == hold.MaxNodesReplaced {
			g.Key, g.Result, g.Text = r.Key(), report.GuardHeld, r.String()
		}
	}
	out := []report.GuardResult{g}
	if len(before) > 0 {
		out = append(out, report.GuardResult{Rule: g.Rule, Result: report.GuardWarning, Text: pendingText(before)})
	}
	return changed, out
}

// pendingPools are the changes of pools that the base declares and that are not made yet.
func pendingPools(found plan.Proposal) []plan.Change {
	return slices.DeleteFunc(slices.Clone(found.Drift.Changes), func(c plan.Change) bool {
		again := slices.ContainsFunc(found.Proposed.Changes, func(o plan.Change) bool { return o.Key == c.Key })
		return again || !c.IsNodeConfiguration() || c.Drift || c.ReadOnly()
	})
}

// pendingText lists with what the merge was counted.
func pendingText(before []plan.Change) string {
	var names []string
	for _, c := range before[:min(len(before), 3)] {
		names = append(names, c.Key.Kind+" "+c.Key.Name)
	}
	if rest := len(before) - len(names); rest > 0 {
		names = append(names, fmt.Sprintf("%d more", rest))
	}
	return "the nodes of what the base branch declares and is not made yet count as well: " + strings.Join(names, ", ")
}
