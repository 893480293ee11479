package simulate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
)

// FuzzHostileDeclarations gives what a stranger may write in a pull request: it
// must end neither the process nor the forecast of the rest.
func FuzzHostileDeclarations(f *testing.F) {
	f.Add(pool, class, slices8)
	f.Add(strings.Replace(pool, "{team: ml}", "{karpenter.sh/nodepool: other}", 1), strings.Replace(class, "al2023@v20261001", "@", 1), slices8)
	f.Add(strings.Replace(pool, "operator: In, values: [linux]", "operator: Gt, values: [linux]", 1), class, strings.Replace(slices8, `"8"`, `"-8"`, 1))
	f.Add(strings.Replace(pool, "nvidia.com/gpu: 8", "nvidia.com/gpu: -8, cpu: 1e100", 1), strings.Replace(class, "50Gi", "-1", 1), strings.Replace(slices8, "capacity:", "price: '-1'\n  capacity:", 1))
	f.Add(strings.Replace(pool, "consolidateAfter: 1m", "consolidateAfter: 1m, budgets: [{nodes: '-5%', schedule: '* * * * *', duration: 0s}]", 1), strings.Replace(class, "  role: nodes", "  role: nodes\n  kubelet: {maxPods: -1, systemReserved: {cpu: x}}", 1), slices8)
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
