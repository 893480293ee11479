package operator

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsnode "sigs.k8s.io/karpenter/pkg/controllers/metrics/node"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
	syncmetrics "github.com/poolwright/poolwright/reconciler/controller/metrics"
	"github.com/poolwright/poolwright/reconciler/notification"
	"github.com/poolwright/poolwright/reconciler/pullrequest"
	"github.com/poolwright/poolwright/reconciler/receiver"
)

// registered is what a description of a metric has as text; it has no other form.
var registered = regexp.MustCompile(`^Desc\{fqName: "(\w+)", .*, variableLabels: \{(.*)\}\}$`)

// The dashboards and alerts of config/monitoring are checked in a module of its own, which does not import the product.
func TestTheDashboardsAreCheckedByTheMetricsThatAreRegistered(t *testing.T) {
	ours := prometheus.NewRegistry()
	_, git := syncmetrics.New(ours)
	_, pulls := pullrequest.NewMetrics(ours)
	hooks := ours.Register(receiver.New(receiver.Config{}).Metrics())
	notifier, err := notification.New(notification.Config{Address: "http://localhost"})
	if err != nil {
		t.Fatal(err)
	}
	sent := ours.Register(notifier.Metrics())
	_, gpus := readiness.New(readiness.Config{
		Cache: struct{ cache.Cache }{}, Client: struct{ client.Client }{}, Live: struct{ client.Reader }{},
		ReadSharing: noSharing, CachedSharing: noSharing, LiveSharing: noSharing, ReplaceEnabled: func() bool { return false },
		Backoff: struct{ readiness.Backoff }{}, Recorder: record.NewFakeRecorder(1), Registry: ours, Clock: clock.RealClock{},
	})
	for _, err := range []error{git, pulls, hooks, sent, gpus} {
		if err != nil {
			t.Fatal(err)
		}
	}
	metricsnode.NewController(nil) // which registers its metrics only then
	var lines []string
	for _, registry := range []prometheus.Collector{ours, crmetrics.Registry.(prometheus.Collector)} {
		lines = append(lines, described(registry)...)
	}
	slices.Sort(lines)
	golden.Compare(t, "../../../.ci/monitoring/testdata/registered.txt", strings.Join(slices.Compact(lines), "\n")+"\n")
}

func noSharing(context.Context) (gpu.Sharing, error) { return gpu.Sharing{}, nil }

// described are the metrics of a registry with their labels, those without a series included. What Go itself and other
// libraries register is left out.
func described(registry prometheus.Collector) (lines []string) {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	for description := range descriptions {
		match := registered.FindStringSubmatch(description.String())
		if match == nil || !slices.ContainsFunc([]string{"poolwright_", "karpenter_", "leader_election_", "controller_runtime_reconcile_"}, func(of string) bool { return strings.HasPrefix(match[1], of) }) {
			continue
		}
		names := strings.FieldsFunc(match[2], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(names)
		lines = append(lines, strings.TrimSpace(match[1]+" "+strings.Join(names, ",")))
	}
	return lines
}
