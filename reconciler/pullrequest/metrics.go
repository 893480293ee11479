package pullrequest

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/outcome"
)

// Metrics are the Prometheus series of pull requests. Labels carry names of Syncs and
// values of ours only, never anything from a pull request.
type Metrics struct {
	open     *prometheus.GaugeVec
	plans    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	outcomes *outcome.Metrics
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
	}
	for _, c := range []prometheus.Collector{m.open, m.plans, m.duration, m.errors} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	var err error
	m.outcomes, err = outcome.NewMetrics(registry)
	return m, err
}

// deleteSeries deletes the series of a Sync that reports on no pull requests any more.
func (m *Metrics) deleteSeries(sync string) {
	label := prometheus.Labels{"sync": sync}
	m.open.DeletePartialMatch(label)
	m.plans.DeletePartialMatch(label)
	m.duration.DeletePartialMatch(label)
	m.errors.DeletePartialMatch(label)
	m.outcomes.Delete(label)
}

func (m *Metrics) planned(sync, result string, took time.Duration) {
	m.plans.WithLabelValues(sync, result).Inc()
	m.duration.WithLabelValues(sync).Observe(took.Seconds())
}
