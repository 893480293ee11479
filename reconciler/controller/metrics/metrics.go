// Package metrics has the Prometheus series of the Git loop.
//
// It refuses content: labels carry names of Syncs, actions and outcomes only. Start reading at
// Metrics.
package metrics

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/poolwright/poolwright/reconciler/apply"
)

// Metrics are the Prometheus series of the Git loop. Labels carry names of
// Syncs, actions and outcomes only, never content.
type Metrics struct {
	ready    *prometheus.GaugeVec
	objects  *prometheus.GaugeVec
	drifted  *prometheus.GaugeVec
	unknown  *prometheus.GaugeVec
	changes  *prometheus.CounterVec
	failures *prometheus.CounterVec
}

// New registers the series with registry. A second registration with
// the same registry is an error.
func New(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		ready: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "poolwright_sync_ready",
			Help: "1 when the Sync's newest revision is applied, and what has to be healthy is, else 0."}, []string{"sync"}),
		objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "poolwright_sync_objects",
			Help: "Objects that the Sync manages."}, []string{"sync"}),
		drifted: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "poolwright_sync_drifted_objects",
			Help: "Live objects that differ from Git and stay so: only reported, read-only, or not to be corrected."}, []string{"sync"}),
		unknown: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "poolwright_sync_unknown_objects",
			Help: "Declared or managed things that could not be read, by target (kubernetes, aws)."}, []string{"sync", "target"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_changes_total",
			Help: "Changes made or attempted, by action (create, update, delete), cause (revision, drift, read_only) and result (" + strings.Join(results(), ", ") + ")."},
			[]string{"sync", "action", "cause", "result"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_sync_failures_total",
			Help: "Runs that did not end ready, by reason."}, []string{"sync", "reason"}),
	}
	for _, c := range []prometheus.Collector{m.ready, m.objects, m.drifted, m.unknown, m.changes, m.failures} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}

// Begin begins the counters of a Sync's changes at 0, where they are not there yet: of a series that begins with its first change,
// increase() leaves that one out.
func (m *Metrics) Begin(sync string) {
	for _, action := range []string{"create", "update", "delete"} {
		for _, cause := range []string{"revision", "drift", "read_only"} {
			for _, result := range results() {
				m.changes.WithLabelValues(sync, action, cause, result)
			}
		}
	}
}

// results are the values of the label result.
func results() []string {
	var out []string
	for _, status := range apply.Statuses() {
		out = append(out, string(status))
	}
	return out
}

// Drop deletes the series of a Sync that is gone.
func (m *Metrics) Drop(sync string) {
	label := prometheus.Labels{"sync": sync}
	for _, v := range []*prometheus.GaugeVec{m.ready, m.objects, m.drifted, m.unknown} {
		v.DeletePartialMatch(label)
	}
	m.changes.DeletePartialMatch(label)
	m.failures.DeletePartialMatch(label)
}

// RecordReady sets whether a Sync is ready.
func (m *Metrics) RecordReady(sync string, ready bool) {
	value := 0.0
	if ready {
		value = 1
	}
	m.ready.WithLabelValues(sync).Set(value)
}

// RecordFailure counts a run of a Sync that did not end ready.
func (m *Metrics) RecordFailure(sync, reason string) { m.failures.WithLabelValues(sync, reason).Inc() }

// RecordChange counts a change by what was done, why, and what became of it.
func (m *Metrics) RecordChange(sync, action, cause, result string) {
	m.changes.WithLabelValues(sync, action, cause, result).Inc()
}

// RecordObjects sets how many objects are a Sync's, how many differ and stay so, and how many are
// unknown in each target.
func (m *Metrics) RecordObjects(sync string, objects, drifted int, unknown map[string]int) {
	m.objects.WithLabelValues(sync).Set(float64(objects))
	m.drifted.WithLabelValues(sync).Set(float64(drifted))
	for target, n := range unknown {
		m.unknown.WithLabelValues(sync, target).Set(float64(n))
	}
}
