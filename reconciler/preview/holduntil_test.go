package preview

import (
	"testing"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
)

// A hold ends by itself, so that it keeps nobody from merging; what a guard holds does.
func TestAHoldIsAWarningOfACommentAndFailsNoStatus(t *testing.T) {
	item := state.Item{Key: state.Key{Target: state.TargetKubernetes, Kind: "ConfigMap", Namespace: "a", Name: "b"}}
	for rule, want := range map[hold.Rule]report.GuardOutcome{hold.HoldUntil: report.GuardWarning, hold.DeletionLosses: report.GuardHeld} {
		reason := hold.Reason{Rule: rule, Facts: hold.Facts{Object: "ConfigMap/a/b", Until: "2026-11-28T18:00:00Z", Detail: "INC-7"}}
		found := plan.Proposal{Proposed: plan.Plan{Changes: []plan.Change{{Key: item.Key, Action: plan.Delete, Before: &item, Hold: hold.Reasons{reason}}}}}
		_, guards := applyGuards(&v1alpha1.Sync{}, found, nil)
		if len(guards) != 1 || guards[0].Result != want || guards[0].Rule != string(rule) || guards[0].Text != reason.String() {
			t.Errorf("%s: got %+v", rule, guards)
		}
	}
}
