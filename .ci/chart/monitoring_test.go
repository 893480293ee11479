package chart

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// The sandbox's API server does not have the Prometheus Operator's kinds.
func TestWhatThePrometheusOperatorReadsIsOfItsTypes(t *testing.T) {
	chart, found := load(t, "poolwright"), map[string]bool{}
	for name, values := range sets {
		for key, object := range rendered(t, chart, parseValues(t, values), namespace) {
			var into any
			switch kind, _, _ := strings.Cut(key, "/"); kind {
			case "ServiceMonitor":
				into = &monitoringv1.ServiceMonitor{}
			case "PrometheusRule":
				into = &monitoringv1.PrometheusRule{}
			default:
				continue
			}
			raw, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(raw, into); err != nil {
				t.Errorf("%s: %s: %v", name, key, err)
			}
			found[key] = true
		}
	}
	if len(found) != 2 {
		t.Errorf("only %v were checked", found)
	}
}

// config/monitoring is the same for those who use kustomize; its golden file leaves out the content of dashboards, too.
func TestWithMonitoringTheChartAddsWhatConfigMonitoringHas(t *testing.T) {
	chart := load(t, "poolwright")
	want := objects{}
	raw, err := os.ReadFile("../../config/testdata/monitoring.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want.add(t, string(raw))
	got := rendered(t, chart, parseValues(t, "monitoring: {serviceMonitor: {enabled: true}, rules: {enabled: true}, dashboards: {enabled: true}}"), namespace)
	for key := range rendered(t, chart, nil, namespace) {
		delete(got, key)
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); d != "" {
		t.Errorf("objects (-config/monitoring +chart):\n%s", d)
	}
	for key, object := range got {
		data, _ := object["data"].(map[string]any)
		for name, content := range data {
			file, err := os.ReadFile(filepath.Join("../../config/monitoring/dashboards", name))
			if err != nil || content != string(file) {
				t.Errorf("%s does not hold the dashboard %s: %v", key, name, err)
			}
		}
		if d := cmp.Diff(want[key], withoutDashboard(object)); d != "" {
			t.Errorf("%s (-config/monitoring +chart):\n%s", key, d)
		}
	}
}

// withoutDashboard is an object, with a note in place of a dashboard, which is long and compared elsewhere.
func withoutDashboard(object map[string]any) map[string]any {
	if !strings.HasPrefix(field(object, "metadata", "name"), "poolwright-dashboard-") {
		return object
	}
	out, notes := maps.Clone(object), map[string]any{}
	data, _ := object["data"].(map[string]any)
	for name := range data {
		notes[name] = "the content of " + name
	}
	out["data"] = notes
	return out
}
