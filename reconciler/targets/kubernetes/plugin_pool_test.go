package kubernetes_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
)

// A pool that leaves while a configuration names it takes nothing along, and nothing is made for
// it. One that was never declared here may have instances with any number of GPUs.
func TestAPoolThatLeavesAConfigGetsNoOverlay(t *testing.T) {
	const fours = "requirements:\n      - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.12xlarge]}"
	four := strings.Replace(pool, "requirements:", fours, 1)
	b := newPluginBench(t)
	overlays := func() []string {
		t.Helper()
		var out []string
		for _, c := range b.plan(b.declare(timeSlices(10))).Changes {
			if c.Key.Kind == "NodeOverlay" {
				out = append(out, string(c.Action)+" "+strings.ReplaceAll(c.Key.Name, b.ns, "$NS"))
			}
		}
		return out
	}
	all := []string{"poolwright-gpu-1-$NS", "poolwright-gpu-16-$NS", "poolwright-gpu-2-$NS", "poolwright-gpu-4-$NS", "poolwright-gpu-8-$NS"}
	for i, name := range all {
		all[i] = string(plan.Create) + " " + name
	}
	if d := cmp.Diff(all, overlays()); d != "" {
		t.Errorf("of a pool that is declared elsewhere (-want +got):\n%s", d)
	}
	b.applyAll(b.plan(b.declare(timeSlices(10), four)))
	b.converged(b.declare(timeSlices(10), four))
	b.get("karpenter.sh/v1alpha1", "NodeOverlay", "poolwright-gpu-4-"+b.ns)
	for _, restart := range []bool{false, true} {
		if restart {
			b.restart()
		}
		if got := overlays(); got != nil {
			t.Errorf("while the pool leaves, after a restart %v: %v", restart, got)
		}
	}
	b.applyAll(b.plan(b.declare(timeSlices(10))))
	for _, restart := range []bool{false, true} {
		if restart {
			b.restart()
		}
		if got := overlays(); got != nil {
			t.Errorf("when the pool is gone, after a restart %v: %v", restart, got)
		}
	}
}
