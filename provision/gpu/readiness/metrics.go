package readiness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scrapeWait bounds how long a scrape waits for the cache.
const scrapeWait = 2 * time.Second

// series are the metrics. Gauges are made of Pools at each scrape, so none is of
// a pool that is gone; what is counted is kept.
type series struct {
	controller *Controller
	replaced   *prometheus.CounterVec
	duration   *prometheus.HistogramVec

	nodes, updated, unhealthyNodes, backoff *prometheus.Desc

	mu    sync.Mutex
	known map[string]bool
}

func newMetrics(registry prometheus.Registerer, k *Controller) (*series, error) {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("poolwright_gpu_"+name, help, append([]string{"nodepool"}, labels...), nil)
	}
	s := &series{
		controller: k,
		known:      map[string]bool{},
		replaced: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_gpu_nodes_replaced_total",
			Help: "Nodes replaced because they never advertised their GPUs, by reason."}, []string{"nodepool", "reason"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "poolwright_gpu_node_startup_duration_seconds",
			Help:    "Time from a node's registration until it advertised its GPUs and took pods.",
			Buckets: []float64{2, 5, 10, 20, 30, 60, 120, 300, 600, 1200}}, []string{"nodepool"}),
		nodes:          describe("nodes", "Nodes with NVIDIA GPUs in pools that a configuration serves.", "config"),
		updated:        describe("nodes_updated", "Of those, the ones whose plugin runs as declared and that advertise the resources of their configuration.", "config"),
		unhealthyNodes: describe("nodes_unhealthy", "Nodes that do not advertise what they should, by reason.", "reason"),
		backoff:        describe("pool_backoff_end_timestamp_seconds", "Unix time until which no GPU node of the pool is launched; 0 when they may be."),
	}
	if err := registry.Register(s); err != nil {
		return nil, fmt.Errorf("registering the metrics of GPU nodes: %w", err)
	}
	return s, nil
}

// Describe implements prometheus.Collector.
func (s *series) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.nodes, s.updated, s.unhealthyNodes, s.backoff} {
		out <- d
	}
	s.replaced.Describe(out)
	s.duration.Describe(out)
}

// Collect implements prometheus.Collector. Only the leader has gauges: it alone
// acts, and two replicas must not be added up.
func (s *series) Collect(out chan<- prometheus.Metric) {
	s.replaced.Collect(out)
	s.duration.Collect(out)
	if !s.controller.leading.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWait)
	defer cancel()
	pools, err := s.controller.Pools(ctx)
	if err != nil {
		s.controller.cfg.Log.V(1).Info("Could not measure the pools with GPUs", "error", err.Error())
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for _, p := range pools {
		gauge(s.nodes, float64(p.Nodes), p.Pool, p.Config)
		gauge(s.updated, float64(p.Updated), p.Pool, p.Config)
		reasons := map[string]int{}
		for _, t := range p.Unhealthy {
			reasons[t.Reason]++
		}
		for reason, n := range reasons {
			gauge(s.unhealthyNodes, float64(n), p.Pool, reason)
		}
		until := 0.0
		if !p.BackoffUntil.IsZero() {
			until = float64(p.BackoffUntil.Unix())
		}
		gauge(s.backoff, until, p.Pool)
	}
}

// advertised notes how long a node took.
func (s *series) advertised(pool string, took time.Duration) {
	s.duration.WithLabelValues(pool).Observe(took.Seconds())
	s.register(pool)
}

// replacedOne counts a node that was replaced.
func (s *series) replacedOne(pool, reason string) {
	s.replaced.WithLabelValues(pool, reason).Inc()
	s.register(pool)
}

func (s *series) register(pool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[pool] = true
}

// pools are those of which something was counted.
func (s *series) pools() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.known))
}

// drop drops what was counted of a pool that is gone.
func (s *series) drop(pool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, pool)
	label := prometheus.Labels{"nodepool": pool}
	s.replaced.DeletePartialMatch(label)
	s.duration.DeletePartialMatch(label)
}
