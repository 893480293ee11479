package pullrequest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report"
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
	for _, line := range []string{"| predicted | 3 | 0 | 9–12 | +$4.10/h |", "| happened | 4 | 0 | 14 | +$4.10/h |"} {
		if got := s.comment(1).Footer; !strings.Contains(strings.ReplaceAll(got, `\`, ""), line) {
			t.Errorf("%s is not in the comment:\n%s", line, got)
		}
	}
	if got := s.item(1).Phase; got != v1alpha1.PullRequestDone {
		t.Errorf("phase %s", got)
	}
	label := s.r.Metrics.rollouts.WithLabelValues("dev", "more")
	if got := testutil.ToFloat64(label); got != 1 {
		t.Errorf("%v roll-outs with more nodes are counted", got)
	}
	s.restart()
	s.later(time.Hour)
	if got := testutil.ToFloat64(label); got != 1 {
		t.Errorf("after a restart %v are counted", got)
	}
}

func TestFiguresOfARolloutAreKnownOrAbsent(t *testing.T) {
	applied := stamp(dawn)
	reviewed := &v1alpha1.ReviewedDisruption{NodesReplaced: 2, MinMinutes: 3, MaxMinutes: 5, Objects: []v1alpha1.ReviewedObject{{Kind: "NodePool", Name: "gpu"}}}
	cost := func(least, most string) *v1alpha1.HourlyCost { return &v1alpha1.HourlyCost{Min: least, Max: most} }
	for _, tt := range []struct {
		name     string
		item     v1alpha1.PullRequestStatus
		happened *report.RolloutFigures
	}{
		{"nothing was predicted", v1alpha1.PullRequestStatus{Rollout: &v1alpha1.RolloutOutcome{NodesReplaced: 2}}, nil},
		{"no pool was touched", v1alpha1.PullRequestStatus{Reviewed: reviewed}, nil},
		{"prices are not known", v1alpha1.PullRequestStatus{Reviewed: reviewed, Rollout: &v1alpha1.RolloutOutcome{NodesReplaced: 1, NodesRemoved: 2, CostAfter: cost("1", "1")}},
			&report.RolloutFigures{Replaced: 1, Removed: 2, MinMinutes: 4, MaxMinutes: 4}},
		{"no node was replaced", v1alpha1.PullRequestStatus{Reviewed: reviewed, Rollout: &v1alpha1.RolloutOutcome{CostBefore: cost("2", "2"), CostAfter: cost("1", "1")}},
			&report.RolloutFigures{CostChange: &report.USDRange{Min: -1, Max: -1}}},
		{"spot prices are not known", v1alpha1.PullRequestStatus{Reviewed: reviewed, Rollout: &v1alpha1.RolloutOutcome{NodesReplaced: 1, CostBefore: cost("1", "2"), CostAfter: cost("3", "5")}},
			&report.RolloutFigures{Replaced: 1, MinMinutes: 4, MaxMinutes: 4, CostChange: &report.USDRange{Min: 1, Max: 4}}},
		{"the same spot instances as before", v1alpha1.PullRequestStatus{Reviewed: reviewed, Rollout: &v1alpha1.RolloutOutcome{NodesReplaced: 1, CostBefore: cost("1", "2"), CostAfter: cost("1", "2")}},
			&report.RolloutFigures{Replaced: 1, MinMinutes: 4, MaxMinutes: 4, CostChange: &report.USDRange{}}},
		{"somebody wrote something else", v1alpha1.PullRequestStatus{Reviewed: reviewed, Rollout: &v1alpha1.RolloutOutcome{NodesReplaced: 1, CostBefore: cost("x", "2"), CostAfter: cost("1", "2"), Incomplete: true}},
			&report.RolloutFigures{Replaced: 1, MinMinutes: 4, MaxMinutes: 4, Incomplete: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.item.AppliedTime, tt.item.RolledOutTime = applied, stamp(dawn.Add(4*time.Minute))
			predicted, happened := (&entry{item: tt.item}).figures()
			if d := cmp.Diff(tt.happened, happened); d != "" || (predicted == nil) != (tt.happened == nil) {
				t.Errorf("predicted %+v, happened (-want +got):\n%s", predicted, d)
			}
		})
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

func TestTheMetricsOfAComparisonGoWithTheSync(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	of := func(replaced, minutes int, usd float64) *report.RolloutFigures {
		return &report.RolloutFigures{Replaced: replaced, MinMinutes: minutes, MaxMinutes: 2 * minutes, CostChange: &report.USDRange{Min: usd, Max: usd}}
	}
	m.compared("dev", of(3, 6, 4.1), of(2, 7, 4))
	m.compared("dev", of(3, 6, 1), of(3, 7, 1))
	m.compared("dev", nil, nil)
	want := `
# HELP poolwright_forecast_rollouts_total Merges whose roll-out has ended, by how many nodes went (equal: as many as the comment predicted, more, fewer, unknown: nothing was predicted, or not all was observed).
# TYPE poolwright_forecast_rollouts_total counter
poolwright_forecast_rollouts_total{result="equal",sync="dev"} 1
poolwright_forecast_rollouts_total{result="fewer",sync="dev"} 1
poolwright_forecast_rollouts_total{result="unknown",sync="dev"} 1
# HELP poolwright_forecast_nodes_total Nodes that the merges of these roll-outs replaced or removed with their pools, by source (predicted, happened).
# TYPE poolwright_forecast_nodes_total counter
poolwright_forecast_nodes_total{source="happened",sync="dev"} 5
poolwright_forecast_nodes_total{source="predicted",sync="dev"} 6
# HELP poolwright_forecast_rollout_seconds_total How long these roll-outs took, by source (predicted_min, predicted_max, happened).
# TYPE poolwright_forecast_rollout_seconds_total counter
poolwright_forecast_rollout_seconds_total{source="happened",sync="dev"} 1680
poolwright_forecast_rollout_seconds_total{source="predicted_max",sync="dev"} 1440
poolwright_forecast_rollout_seconds_total{source="predicted_min",sync="dev"} 720
# HELP poolwright_forecast_cost_change_usd_per_hour By how much nodes cost more after the newest of these roll-outs, at most, by source (predicted, happened).
# TYPE poolwright_forecast_cost_change_usd_per_hour gauge
poolwright_forecast_cost_change_usd_per_hour{source="happened",sync="dev"} 1
poolwright_forecast_cost_change_usd_per_hour{source="predicted",sync="dev"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	m.deleteSeries("dev")
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("%d series are left, %v", n, err)
	}
}
