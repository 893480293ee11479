package collector

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/poolwright/poolwright/reconciler/history"
)

// metrics are the sums of NodePools since this process leads. A series is of a NodePool that there is or that has nodes, one of
// three capacity types and one of five states, which bounds their number.
type metrics struct {
	seconds *prometheus.CounterVec
	usd     *prometheus.CounterVec
	pools   map[string]bool
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		seconds: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_gpu_seconds_total",
			Help: "Seconds of GPUs of a NodePool's nodes, by state (paid, allocatable, requested, idle, unobserved)."}, []string{"nodepool", "state"}),
		usd: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_cost_usd_total",
			Help: "US dollars for a NodePool's instances, by capacity type and state (paid; those of GPUs: allocatable, requested, idle, unobserved)."},
			[]string{"nodepool", "capacity_type", "state"}),
		pools: map[string]bool{},
	}
	for _, c := range []prometheus.Collector{m.seconds, m.usd} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}

// add is a recorder.AddFunc.
func (m *metrics) add(pool, capacityType string, gpuSeconds, usd history.States) {
	m.pools[pool] = true
	for state, n := range byState(gpuSeconds) {
		m.seconds.WithLabelValues(pool, state).Add(max(0, n))
	}
	for state, n := range byState(usd) {
		m.usd.WithLabelValues(pool, capacityType, state).Add(max(0, n))
	}
}

func byState(s history.States) map[string]float64 {
	return map[string]float64{"paid": s.Paid, "allocatable": s.Allocatable, "requested": s.Requested, "idle": s.Idle, "unobserved": s.Unobserved}
}

// retain deletes the series of all NodePools but those that there are. What the last node of another one still adds begins
// anew, and is deleted after it.
func (m *metrics) retain(pools map[string]bool) {
	for _, pool := range slices.Sorted(maps.Keys(m.pools)) {
		if !pools[pool] {
			m.seconds.DeletePartialMatch(prometheus.Labels{"nodepool": pool})
			m.usd.DeletePartialMatch(prometheus.Labels{"nodepool": pool})
			delete(m.pools, pool)
		}
	}
}
