package kubernetes_test

import (
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/poolwright/poolwright/reconciler/targets"
)

// A commit changes a Sync's interval. Between the plan and the request a person makes its
// guard stricter by hand.
func TestAGuardThatWasMadeStricterSinceThePlanIsNotOverwritten(t *testing.T) {
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_syncs.yaml"}}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	const s = `
apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: dev, namespace: $NS}
spec: {interval: %s, guard: {maxPrunePercent: 50}, source: {git: {url: "https://git.example/a.git", ref: {branch: main}}}}
`
	guard := func() any {
		return b.get("poolwright.dev/v1alpha1", "Sync", "dev").Object["spec"].(map[string]any)["guard"].(map[string]any)["maxPrunePercent"]
	}
	b.reconcile(b.declare(fmt.Sprintf(s, "1m")))
	b.reconcile(b.declare(fmt.Sprintf(s, "2m"))) // Nothing came between.
	p := b.guarded(b.declare(fmt.Sprintf(s, "3m")), "")
	b.edit("poolwright.dev/v1alpha1", "Sync", "dev", func(o map[string]any) {
		o["spec"].(map[string]any)["guard"] = map[string]any{"maxPrunePercent": int64(0)}
	})
	if len(p.Changes) != 1 {
		t.Fatalf("changes %v", p.Changes)
	}
	err := b.target.Correct(t.Context(), p.Changes[0])
	if !errors.Is(err, targets.ErrChanged) {
		t.Fatalf("it is updated: %v", err)
	}
	// Whoever prints it names the change.
	if got, want := err.Error(), targets.ErrChanged.Error(); got != want {
		t.Errorf("the error is %q, want %q", got, want)
	}
	if got := guard(); got != int64(0) {
		t.Errorf("the guard is %v", got)
	}
}
