package pullrequest

import (
	"cmp"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/poolwright/poolwright/reconciler/report"
)

// Metrics are the Prometheus series of pull requests. Labels carry names of Syncs and
// values of ours only, never anything from a pull request.
type Metrics struct {
	open     *prometheus.GaugeVec
	plans    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	// rollouts, nodes, seconds and cost compare what was predicted of merges with what happened.
	rollouts *prometheus.CounterVec
	nodes    *prometheus.CounterVec
	seconds  *prometheus.CounterVec
	cost     *prometheus.GaugeVec
}

// NewMetrics registers the series with registry. A second registration with the
// same registry is an error.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "poolwright_pullrequests_open",
			Help: "Open pull requests into the branch that the Sync follows, those that are not planned included."}, []string{"sync"}),
		plans: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_pullrequest_plans_total",
			Help: "Plans of pull requests, by result (planned, refused: the author must correct it, failed: it is retried, outdated: the pull request moved or closed meanwhile)."},
			[]string{"sync", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "poolwright_pullrequest_plan_duration_seconds",
			Help: "How long the plan of a pull request took, with the time that it waited for others.", Buckets: []float64{.1, .25, .5, 1, 2, 5, 10, 30, 60, 120}}, []string{"sync"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_forge_errors_total",
			Help: "Calls of the forge that failed, by reason (RateLimited, Unauthorized, Forbidden, NotFound, Refused, ForgeUnavailable)."},
			[]string{"sync", "reason"}),
		rollouts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_forecast_rollouts_total",
			Help: "Merges whose roll-out has ended, by how many nodes went (equal: as many as the comment predicted, more, fewer, unknown: nothing was predicted, or not all was observed)."},
			[]string{"sync", "result"}),
		nodes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_forecast_nodes_total",
			Help: "Nodes that the merges of these roll-outs replaced or removed with their pools, by source (predicted, happened)."}, []string{"sync", "source"}),
		seconds: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_forecast_rollout_seconds_total",
			Help: "How long these roll-outs took, by source (predicted_min, predicted_max, happened)."}, []string{"sync", "source"}),
		cost: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "poolwright_forecast_cost_change_usd_per_hour",
			Help: "By how much nodes cost more after the newest of these roll-outs, at most, by source (predicted, happened)."}, []string{"sync", "source"}),
	}
	for _, c := range []prometheus.Collector{m.open, m.plans, m.duration, m.errors, m.rollouts, m.nodes, m.seconds, m.cost} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}

// deleteSeries deletes the series of a Sync that reports on no pull requests any more.
func (m *Metrics) deleteSeries(sync string) {
	label := prometheus.Labels{"sync": sync}
	m.open.DeletePartialMatch(label)
	m.plans.DeletePartialMatch(label)
	m.duration.DeletePartialMatch(label)
	m.errors.DeletePartialMatch(label)
	m.rollouts.DeletePartialMatch(label)
	m.nodes.DeletePartialMatch(label)
	m.seconds.DeletePartialMatch(label)
	m.cost.DeletePartialMatch(label)
}

// compared adds a roll-out that has ended to the comparison; what is nil is not known.
func (m *Metrics) compared(sync string, predicted, happened *report.RolloutFigures) {
	if predicted == nil || happened == nil || happened.Incomplete {
		m.rollouts.WithLabelValues(sync, "unknown").Inc()
		return
	}
	was, is := predicted.Replaced+predicted.Removed, happened.Replaced+happened.Removed
	m.rollouts.WithLabelValues(sync, map[int]string{-1: "fewer", 0: "equal", 1: "more"}[cmp.Compare(is, was)]).Inc()
	m.nodes.WithLabelValues(sync, "predicted").Add(float64(was))
	m.nodes.WithLabelValues(sync, "happened").Add(float64(is))
	for source, minutes := range map[string]int{"predicted_min": predicted.MinMinutes, "predicted_max": predicted.MaxMinutes, "happened": happened.MaxMinutes} {
		m.seconds.WithLabelValues(sync, source).Add(float64(minutes) * 60)
	}
	if predicted.CostChange != nil && happened.CostChange != nil {
		m.cost.WithLabelValues(sync, "predicted").Set(predicted.CostChange.Max)
		m.cost.WithLabelValues(sync, "happened").Set(happened.CostChange.Max)
	}
}

func (m *Metrics) planned(sync, result string, took time.Duration) {
	m.plans.WithLabelValues(sync, result).Inc()
	m.duration.WithLabelValues(sync).Observe(took.Seconds())
}
