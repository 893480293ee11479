package pullrequest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

func TestWhatHappenedIsComparedWithWhatWasPredictedHoweverOftenTheControllerStarts(t *testing.T) {
	s := newStage(t)
	plan := s.oracle.plan
	s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
		p, err := plan(pr)
		p.Reviewed.NodesReplaced, p.Reviewed.NodesRemoved, p.Reviewed.MinMinutes, p.Reviewed.MaxMinutes = 3, 0, 9, 12
		p.Reviewed.CostChange = &v1alpha1.HourlyCost{Min: "4.1", Max: "4.1"}
		p.Reviewed.Pools = []v1alpha1.ReviewedPool{{Name: "gpu", Nodes: 3}}
		return p, err
	}
	s.offer(1, sha("a"))
	s.pass()
	s.clock.Step(time.Minute)
	s.merge(1, sha("e"))
	s.oracle.costs = map[string]provision.Amount{"gpu": {OnDemand: 1.578}, "other": {OnDemand: 100}}
	s.oracle.stale = nodes("gpu", 3)
	s.apply(sha("f"), sha("e"))
	s.pass()

	s.restart()
	s.oracle.stale = nodes("gpu", 4)[2:] // Two are gone, and one more was launched from the old pool.
	s.oracle.costs = map[string]provision.Amount{"gpu": {OnDemand: 3}, "other": {OnDemand: 7}}
	s.later(7 * time.Minute)
	if got := s.item(1).Rollout; got == nil || got.NodesReplaced != 4 || len(got.NodeClaims) != 4 {
		t.Errorf("while it goes on: %+v", got)
	}

	s.restart()
	s.oracle.stale = nil
	s.oracle.costs = map[string]provision.Amount{"gpu": {OnDemand: 5.678}}
	s.later(7 * time.Minute)
	want := &v1alpha1.RolloutOutcome{NodesReplaced: 4, CostBefore: &v1alpha1.HourlyCost{Min: "1.578", Max: "1.578"}, CostAfter: &v1alpha1.HourlyCost{Min: "5.678", Max: "5.678"}}
	if d := cmp.Diff(want, s.item(1).Rollout); d != "" {
		t.Errorf("in the end (-want +got):\n%s", d)
	}
	for _, line := range []string{"| predicted | 3 | 0 | 9–12 | +$4.10/h |", "| actual | 4 | 0 | 14 | +$4.10/h |"} {
		if got := s.comment(1).Footer; !strings.Contains(strings.ReplaceAll(got, `\`, ""), line) {
			t.Errorf("%s is not in the comment:\n%s", line, got)
		}
	}
	if got := s.item(1).Phase; got != v1alpha1.PullRequestDone {
		t.Errorf("phase %s", got)
	}
	counted := func() (sum float64) {
		families, err := s.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "poolwright_forecast_rollouts_total" {
				for _, series := range family.GetMetric() {
					sum += series.GetCounter().GetValue()
				}
			}
		}
		return sum
	}
	if got := counted(); got != 1 {
		t.Errorf("the roll-out is counted %g times", got)
	}
	s.restart()
	s.later(time.Hour)
	if got := counted(); got != 0 {
		t.Errorf("after a restart it is counted again, %g times", got)
	}
}

func TestAStatusKeepsAsManyNodeClaimsAsItHasRoomFor(t *testing.T) {
	names := make([]string, limits.MaxNodeClaims-1)
	records := map[int64]*entry{}
	for number := range int64(3) {
		records[number+1] = &entry{item: v1alpha1.PullRequestStatus{Number: number + 1, Phase: v1alpha1.PullRequestRollingOut, Rollout: &v1alpha1.RolloutOutcome{NodeClaims: names}}}
	}
	var kept []int
	var incomplete []bool
	for _, item := range items(records) {
		kept, incomplete = append(kept, len(item.Rollout.NodeClaims)), append(incomplete, item.Rollout.Incomplete)
	}
	if d := cmp.Diff([]any{[]int{len(names), 1, 0}, []bool{false, true, true}}, []any{kept, incomplete}); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if records[1].item.Rollout.Incomplete {
		t.Error("the process itself has all names still")
	}
}
