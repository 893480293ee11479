package wire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report"
)

// guard says what the Sync's rules make of a proposal, and holds in its step what the
// apply would hold.
func guard(sync *v1alpha1.Sync, found reconciler.Proposal, foretell func([]plan.Change) plan.Consequences) (plan.Plan, []report.Guard) {
	var out []report.Guard
	changed := found.Step
	if most := sync.Spec.Guard.MaxNodesReplaced; most != nil {
		changed = found.Step.GuardNodes(new(int(*most)), nil, "", foretell)
		g := report.Guard{Rule: "guard.maxNodesReplaced", Result: "ok", Text: fmt.Sprintf("at most %d nodes may be replaced unasked", *most)}
		if reason := newHold(found.Step, changed); reason != "" {
			g.Result, g.Text = "held", reason
		}
		if len(changed.Guarded()) > 0 {
			out = append(out, g)
		}
	}
	if at := slices.IndexFunc(found.Step.Changes, func(c plan.Change) bool { return c.Action == plan.Delete && c.Hold != "" && !c.Standing() }); at >= 0 {
		out = append(out, report.Guard{Rule: "guard.maxPrunePercent", Result: "held", Text: withoutWord(found.Step.Changes[at].Hold)})
	}
	if n := len(found.Problems) - len(found.Old); n > 0 {
		out = append(out, report.Guard{Rule: "lint", Result: "held", Text: "what the mistakes are in is not applied, and nothing is deleted while there are any"})
	}
	if len(found.Old) > 0 {
		out = append(out, report.Guard{Rule: "lint", Result: "warning",
			Text: fmt.Sprintf("the base has mistakes already (%d), which keep things from being deleted; the first: %s", len(found.Old), found.Old[0])})
	}
	return changed, out
}

// newHold is the reason that only the second plan gives.
func newHold(before, after plan.Plan) string {
	for i, c := range after.Changes {
		if c.Hold != before.Changes[i].Hold {
			return withoutWord(strings.TrimPrefix(strings.TrimPrefix(c.Hold, before.Changes[i].Hold), "; "))
		}
	}
	return ""
}

// withoutWord is a reason without the word that confirms it: the apply has its own.
func withoutWord(reason string) string {
	text, _, _ := strings.Cut(reason, "; confirm with ")
	return text
}
