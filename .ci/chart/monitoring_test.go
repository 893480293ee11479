package chart

import (
	"strings"
	"testing"

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
