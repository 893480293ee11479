package workload_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// Each entry is a pod's spec beside its containers, unless it has some of its own.
func TestValidateRefusesWhatTheAPIServerRefuses(t *testing.T) {
	affinity := func(kind, rest string) string {
		return "affinity: {" + kind + ": {requiredDuringSchedulingIgnoredDuringExecution: " + rest + "}}"
	}
	long := strings.Repeat("x", 64)
	tests := map[string]struct{ valid, invalid []string }{
		"containers": {
			valid:   []string{"containers: [{name: c}]"},
			invalid: []string{"containers: []", "containers: [], initContainers: [{name: i}]"},
		},
		"quantities": {
			valid: []string{"containers: [{name: c, resources: {requests: {cpu: 0}}}]", "overhead: {cpu: 1m}", "resources: {limits: {cpu: 1}}"},
			invalid: []string{
				"containers: [{name: c, resources: {requests: {cpu: -1}}}]", "containers: [{name: c, resources: {limits: {nvidia.com/gpu: -1}}}]",
				"initContainers: [{name: c, resources: {limits: {cpu: -1m}}}]", "overhead: {memory: -1}", "resources: {requests: {cpu: -1}}", "resources: {limits: {cpu: -1}}",
			},
		},
		"ports": {
			valid:   []string{"containers: [{name: c, ports: [{containerPort: 1, hostPort: 65535}]}]", "containers: [{name: c, ports: [{containerPort: 1}]}]"},
			invalid: []string{"containers: [{name: c, ports: [{containerPort: 1, hostPort: 65536}]}]", "initContainers: [{name: c, ports: [{containerPort: 1, hostPort: -1}]}]"},
		},
		"the node selector": {
			valid:   []string{"nodeSelector: {a: ''}", "nodeSelector: {example.com/a: b}"},
			invalid: []string{"nodeSelector: {'': b}", "nodeSelector: {a: 'b c'}", "nodeSelector: {a: " + long + "}", "nodeSelector: {'a/b/c': d}"},
		},
		"tolerations": {
			valid: []string{
				"tolerations: [{operator: Exists}]", "tolerations: [{key: a, value: b}]", "tolerations: [{key: a, operator: Gt, value: '1'}]",
				"tolerations: [{key: a, operator: Exists, effect: NoExecute}]", "tolerations: [{key: a, operator: Equal, effect: PreferNoSchedule}]",
			},
			invalid: []string{"tolerations: [{value: b}]", "tolerations: [{operator: Equal}]", "tolerations: [{key: a, operator: In}]", "tolerations: [{key: a, effect: Sometimes}]"},
		},
		"spread over a topology": {
			valid: []string{
				"topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]",
				"topologySpreadConstraints: [{maxSkew: 2, minDomains: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, matchLabelKeys: [a]}]",
			},
			invalid: []string{
				"topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]",
				"topologySpreadConstraints: [{maxSkew: 1, minDomains: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]",
				"topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone}]",
				"topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]",
				"topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: ['a b']}]",
				"topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchExpressions: [{key: a, operator: Like}]}}]",
			},
		},
		"the affinity to nodes": {
			valid: []string{
				affinity("nodeAffinity", "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}, {key: a, operator: Exists}, {key: a, operator: Gt, values: ['1']}]}]}"),
				"affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: DoesNotExist}]}}]}}",
			},
			invalid: []string{
				affinity("nodeAffinity", "{nodeSelectorTerms: []}"),
				affinity("nodeAffinity", "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]}"),
				affinity("nodeAffinity", "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists, values: [b]}]}]}"),
				affinity("nodeAffinity", "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: [b]}]}]}"),
				affinity("nodeAffinity", "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Like, values: [b]}]}]}"),
				affinity("nodeAffinity", "{nodeSelectorTerms: [{}, {matchExpressions: [{key: '', operator: Exists}]}]}"),
				"affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: NotIn}]}}]}}",
			},
		},
		"the affinity to pods": {
			valid: []string{affinity("podAffinity", "[{topologyKey: zone, namespaceSelector: {}}]"), affinity("podAntiAffinity", "[{topologyKey: zone, mismatchLabelKeys: [a]}]")},
			invalid: []string{
				affinity("podAffinity", "[{labelSelector: {}}]"), affinity("podAntiAffinity", "[{topologyKey: 'a b'}]"),
				affinity("podAffinity", "[{topologyKey: zone, labelSelector: {matchLabels: {a: 'b c'}}}]"),
				affinity("podAffinity", "[{topologyKey: zone, namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}]"),
				affinity("podAffinity", "[{topologyKey: zone, mismatchLabelKeys: ['a b']}]"),
				"affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: ''}}]}}",
				"affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: ''}}]}}",
			},
		},
	}
	check := func(t *testing.T, text string) error {
		t.Helper()
		if !strings.HasPrefix(text, "containers:") {
			text += ", containers: [{name: c}]"
		}
		var spec corev1.PodSpec
		if err := yaml.UnmarshalStrict([]byte("{"+text+"}"), &spec); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return workload.Validate(metav1.ObjectMeta{}, spec)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, text := range tt.valid {
				if err := check(t, text); err != nil {
					t.Errorf("%s is refused: %v", text, err)
				}
			}
			for _, text := range tt.invalid {
				if check(t, text) == nil {
					t.Errorf("%s is not refused", text)
				}
			}
		})
	}
	if workload.Validate(metav1.ObjectMeta{Labels: map[string]string{"a": "b c"}}, corev1.PodSpec{Containers: []corev1.Container{{}}}) == nil {
		t.Error("a label that is none is not refused")
	}
}
