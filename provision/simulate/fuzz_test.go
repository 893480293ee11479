package simulate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
)

// FuzzHostileWorkloads gives what a stranger may declare beside the pools. However
// odd it is, it must keep nobody from being told of the nodes.
func FuzzHostileWorkloads(f *testing.F) {
	spec := func(text string) string {
		return strings.Replace(serve, "    spec:\n", "    spec:\n      "+text+"\n", 1)
	}
	f.Add(serve)
	f.Add(spec("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: [many]}]}]}}}"))
	f.Add(spec("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Like, values: [b]}]}]}}}"))
	f.Add(spec("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}"))
	f.Add(spec("affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Lt, values: []}]}}]}}"))
	f.Add(spec("affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: '', labelSelector: {matchExpressions: [{key: a, operator: Like}]}}]}}"))
	f.Add(spec("affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, namespaceSelector: {matchLabels: {'/': '/'}}}]}}"))
	f.Add(spec("topologySpreadConstraints: [{maxSkew: 0, topologyKey: rack, whenUnsatisfiable: Perhaps, labelSelector: {matchExpressions: [{key: a, operator: Like}]}}]"))
	f.Add(spec("topologySpreadConstraints: [{maxSkew: 1, minDomains: -5, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: serve}}, matchLabelKeys: ['']}]"))
	f.Add(spec("nodeSelector: {'': '', karpenter.sh/nodepool: '*', kubernetes.io/hostname: x}"))
	f.Add(spec("tolerations: [{key: '', operator: Sometimes, effect: X}]"))
	f.Add(spec("initContainers: [{restartPolicy: Always, ports: [{hostPort: -1, hostIP: 'nowhere'}], resources: {requests: {cpu: -1, memory: 1e30, nvidia.com/gpu: 0.5}}}]"))
	f.Add(spec("resources: {limits: {cpu: -1}}\n      overhead: {cpu: -9}\n      resourceClaims: [{name: x, resourceClaimName: y}]"))
	f.Add(strings.Replace(serve, "replicas: 2", "replicas: 2147483647", 1))
	f.Add(strings.Replace(serve, "replicas: 2", "replicas: -2147483648", 1))
	f.Add(strings.Replace(serve, "{matchLabels: {app: serve}}", "{matchExpressions: [{key: '', operator: Like}]}", 1))
	f.Add(strings.NewReplacer("Deployment", "DaemonSet", "    spec:\n", "    spec:\n      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: [b]}]}]}}}\n").Replace(serve))
	f.Add("apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: n}\noverhead: {podFixed: {cpu: -1}}")
	f.Add("apiVersion: v1\nkind: Pod\nmetadata: {name: n}")
	f.Add("apiVersion: batch/v1\nkind: Job\nmetadata: {name: n}\nspec: {parallelism: -1, completions: -1}")
	reader, err := simulate.NewReader()
	if err != nil {
		f.Fatal(err)
	}
	types := prices(f, "g4dn", "g5")
	f.Fuzz(func(t *testing.T, text string) {
		before, after := busy(t, pool, class), read(t, tainted, class, serve)
		object := map[string]any{}
		if yaml.Unmarshal([]byte(text), &object) != nil || reader.Add(&after, object) != nil {
			return
		}
		got, err := simulate.Compare(engine.Offline(t.Context(), settings()), before, after, types)
		if err != nil {
			t.Fatalf("the forecast failed: %v", err)
		}
		if len(got.Replaced) == 0 {
			t.Fatal("no node is told")
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatalf("the forecast cannot be written: %v", err)
		}
	})
}

// FuzzHostileDeclarations gives what a stranger may write in a pull request: it
// must end neither the process nor the forecast of the rest.
func FuzzHostileDeclarations(f *testing.F) {
	f.Add(pool, class, slices8)
	f.Add(strings.Replace(pool, "{team: ml}", "{karpenter.sh/nodepool: other}", 1), strings.Replace(class, "al2023@v20261001", "@", 1), slices8)
	f.Add(strings.Replace(pool, "operator: In, values: [linux]", "operator: Gt, values: [linux]", 1), class, strings.Replace(slices8, `"8"`, `"-8"`, 1))
	f.Add(strings.Replace(pool, "nvidia.com/gpu: 8", "nvidia.com/gpu: -8, cpu: 1e100", 1), strings.Replace(class, "50Gi", "-1", 1), strings.Replace(slices8, "capacity:", "price: '-1'\n  capacity:", 1))
	f.Add(strings.Replace(pool, "consolidateAfter: 1m", "consolidateAfter: 1m, budgets: [{nodes: '-5%', schedule: '* * * * *', duration: 0s}]", 1), strings.Replace(class, "  role: nodes", "  role: nodes\n  kubelet: {maxPods: -1, systemReserved: {cpu: x}}", 1), slices8)
	f.Add(pool, class, strings.Replace(slices8, "capacity:", `price: "d-1'"`+"\n  capacity:", 1))
	for _, operator := range []string{"Gt", "Lt", "Gte", "Lte"} {
		f.Add(strings.Replace(pool, "operator: In, values: [linux]", "operator: "+operator, 1), class, strings.Replace(slices8, `operator: In, values: ["1"]`, "operator: "+operator, 1))
	}
	reader, err := simulate.NewReader()
	if err != nil {
		f.Fatal(err)
	}
	types := prices(f, "g4dn", "g5")
	f.Fuzz(func(t *testing.T, poolText, classText, overlayText string) {
		before := busy(t, pool, class)
		after := read(t)
		for _, text := range []string{poolText, classText, overlayText} {
			object := map[string]any{}
			if yaml.Unmarshal([]byte(text), &object) != nil {
				continue
			}
			if err := reader.Add(&after, object); err != nil && strings.Contains(err.Error(), "gave up") {
				t.Fatal(err)
			}
		}
		got, err := simulate.Compare(engine.Offline(t.Context(), settings()), before, after, types)
		if err != nil {
			t.Fatalf("the forecast failed: %v", err)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatalf("the forecast cannot be written: %v", err)
		}
	})
}
