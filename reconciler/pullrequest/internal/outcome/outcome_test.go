package outcome

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report"
)

func TestFiguresOfARolloutAreKnownOrAbsent(t *testing.T) {
	applied := time.Date(2026, 11, 28, 6, 0, 0, 0, time.UTC)
	reviewed := &v1alpha1.ReviewedDisruption{NodesReplaced: 2, MinMinutes: 3, MaxMinutes: 5, Objects: []v1alpha1.ReviewedObject{{Kind: "NodePool", Name: "gpu"}}}
	cost := func(least, most string) *v1alpha1.HourlyCost { return &v1alpha1.HourlyCost{Min: least, Max: most} }
	for _, tt := range []struct {
		name   string
		item   v1alpha1.PullRequestStatus
		actual *report.RolloutFigures
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
			tt.item.AppliedTime, tt.item.RolledOutTime = &metav1.Time{Time: applied}, &metav1.Time{Time: applied.Add(4 * time.Minute)}
			predicted, actual := Figures(&tt.item)
			if d := cmp.Diff(tt.actual, actual); d != "" || (predicted == nil) != (tt.actual == nil) {
				t.Errorf("predicted %+v, happened (-want +got):\n%s", predicted, d)
			}
		})
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
	m.Begin("dev")
	m.Add("dev", of(3, 6, 4.1), of(2, 7, 4))
	m.Add("dev", of(3, 6, 1), of(3, 7, 1))
	m.Add("dev", nil, nil)
	// What has begun goes on.
	m.Begin("dev")
	want := `
# HELP poolwright_forecast_rollouts_total Merges whose roll-out has ended, by how many nodes went (equal: as many as the comment predicted, more, fewer, unknown: nothing was predicted, or not all was observed).
# TYPE poolwright_forecast_rollouts_total counter
poolwright_forecast_rollouts_total{result="equal",sync="dev"} 1
poolwright_forecast_rollouts_total{result="fewer",sync="dev"} 1
poolwright_forecast_rollouts_total{result="more",sync="dev"} 0
poolwright_forecast_rollouts_total{result="unknown",sync="dev"} 1
# HELP poolwright_forecast_nodes_total Nodes that the merges of these roll-outs replaced or removed with their pools, by source (predicted, actual).
# TYPE poolwright_forecast_nodes_total counter
poolwright_forecast_nodes_total{source="actual",sync="dev"} 5
poolwright_forecast_nodes_total{source="predicted",sync="dev"} 6
# HELP poolwright_forecast_rollout_seconds_total How long these roll-outs took, by source (predicted_min, predicted_max, actual).
# TYPE poolwright_forecast_rollout_seconds_total counter
poolwright_forecast_rollout_seconds_total{source="actual",sync="dev"} 1680
poolwright_forecast_rollout_seconds_total{source="predicted_max",sync="dev"} 1440
poolwright_forecast_rollout_seconds_total{source="predicted_min",sync="dev"} 720
# HELP poolwright_forecast_cost_change_usd_per_hour By how much nodes cost more after the newest of these roll-outs, at most, by source (predicted, actual).
# TYPE poolwright_forecast_cost_change_usd_per_hour gauge
poolwright_forecast_cost_change_usd_per_hour{source="actual",sync="dev"} 1
poolwright_forecast_cost_change_usd_per_hour{source="predicted",sync="dev"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	m.Delete(prometheus.Labels{"sync": "dev"})
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("%d series are left, %v", n, err)
	}
}
