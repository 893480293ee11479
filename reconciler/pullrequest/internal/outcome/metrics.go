package outcome

import (
	"cmp"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/poolwright/poolwright/reconciler/report"
)

// Metrics are the Prometheus series that compare what was predicted of merges with what happened.
type Metrics struct {
	rollouts, nodes, seconds *prometheus.CounterVec
	cost                     *prometheus.GaugeVec
}

// NewMetrics registers the series. A second registration with the same registry is an error.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		rollouts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_forecast_rollouts_total",
			Help: "Merges whose roll-out has ended, by how many nodes went (equal: as many as the comment predicted, more, fewer, unknown: nothing was predicted, or not all was observed)."},
			[]string{"sync", "result"}),
		nodes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_forecast_nodes_total",
			Help: "Nodes that the merges of these roll-outs replaced or removed with their pools, by source (predicted, actual)."}, []string{"sync", "source"}),
		seconds: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_forecast_rollout_seconds_total",
			Help: "How long these roll-outs took, by source (predicted_min, predicted_max, actual)."}, []string{"sync", "source"}),
		cost: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "poolwright_forecast_cost_change_usd_per_hour",
			Help: "By how much nodes cost more after the newest of these roll-outs, at most, by source (predicted, actual)."}, []string{"sync", "source"}),
	}
	for _, c := range []prometheus.Collector{m.rollouts, m.nodes, m.seconds, m.cost} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics of roll-outs: %w", err)
		}
	}
	return m, nil
}

// Begin begins the counters of a Sync at 0, where they are not there yet: of a series that begins with its first roll-out, increase() leaves
// that one out.
func (m *Metrics) Begin(sync string) {
	for _, result := range []string{"equal", "more", "fewer", "unknown"} {
		m.rollouts.WithLabelValues(sync, result)
	}
	for _, source := range []string{"predicted", "actual"} {
		m.nodes.WithLabelValues(sync, source)
	}
	for _, source := range []string{"predicted_min", "predicted_max", "actual"} {
		m.seconds.WithLabelValues(sync, source)
	}
}

// Delete deletes the series with the labels.
func (m *Metrics) Delete(label prometheus.Labels) {
	m.rollouts.DeletePartialMatch(label)
	m.nodes.DeletePartialMatch(label)
	m.seconds.DeletePartialMatch(label)
	m.cost.DeletePartialMatch(label)
}

// Add adds a roll-out that has ended to the comparison; what is nil is not known.
func (m *Metrics) Add(sync string, predicted, actual *report.RolloutFigures) {
	if predicted == nil || actual == nil || actual.Incomplete {
		m.rollouts.WithLabelValues(sync, "unknown").Inc()
		return
	}
	was, is := predicted.Replaced+predicted.Removed, actual.Replaced+actual.Removed
	m.rollouts.WithLabelValues(sync, map[int]string{-1: "fewer", 0: "equal", 1: "more"}[cmp.Compare(is, was)]).Inc()
	m.nodes.WithLabelValues(sync, "predicted").Add(float64(was))
	m.nodes.WithLabelValues(sync, "actual").Add(float64(is))
	for source, minutes := range map[string]int{"predicted_min": predicted.MinMinutes, "predicted_max": predicted.MaxMinutes, "actual": actual.MaxMinutes} {
		m.seconds.WithLabelValues(sync, source).Add(float64(minutes) * 60)
	}
	if predicted.CostChange != nil && actual.CostChange != nil {
		m.cost.WithLabelValues(sync, "predicted").Set(predicted.CostChange.Max)
		m.cost.WithLabelValues(sync, "actual").Set(actual.CostChange.Max)
	}
}
