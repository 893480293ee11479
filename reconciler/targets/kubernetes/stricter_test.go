package kubernetes_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/poolwright/poolwright/reconciler/targets"
)

// syncOf is a Sync with this interval and variables.
func syncOf(interval, substitute string) string {
	return fmt.Sprintf(`
apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: dev, namespace: $NS}
spec: {interval: %s, substitute: %s, guard: {maxPrunePercent: 50}, source: {git: {url: "https://git.example/a.git", ref: {branch: main}}}}
`, interval, substitute)
}

// withSyncs has the control plane serve Syncs.
func withSyncs(t *testing.T) {
	t.Helper()
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_syncs.yaml"}}); err != nil {
		t.Fatal(err)
	}
}

// A commit changes a Sync. Between the plan and one of the requests that carry it out a person makes its
// guard stricter by hand.
func TestAGuardThatWasMadeStricterSinceThePlanIsNotOverwritten(t *testing.T) {
	withSyncs(t)
	// A patch that moves ownership or empties a map is a JSON patch, and an apply none.
	isMoved := func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/syncs/") && strings.Contains(r.Header.Get("Content-Type"), "json-patch")
	}
	for _, tt := range []struct {
		name, after string
		// kubectl is whether a person made it by kubectl apply.
		kubectl bool
		// at is before which request the guard is made stricter; before all of them, where it is nil.
		at func(*http.Request) bool
	}{
		{"before the first request", syncOf("3m", "{A: b}"), false, nil},
		{"while it is taken over from kubectl", syncOf("3m", "{A: b}"), true, isMoved},
		{"while a map is emptied", syncOf("3m", "{}"), false, isMoved},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			if tt.kubectl {
				b.make(strings.Replace(syncOf("2m", "{A: b}"), "metadata: {", `metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}, `, 1), "kubectl-client-side-apply")
			} else {
				b.reconcile(b.declare(syncOf("1m", "{A: b}")))
				b.reconcile(b.declare(syncOf("2m", "{A: b}"))) // Nothing came between.
			}
			declared := b.declare(tt.after)
			p := b.guarded(declared, "")
			if len(p.Changes) != 1 {
				t.Fatalf("changes %v", p.Changes)
			}
			stricter := func() {
				b.edit("poolwright.dev/v1alpha1", "Sync", "dev", func(o map[string]any) { set(o, int64(0), "spec", "guard", "maxPrunePercent") })
			}
			reached := tt.at == nil
			if tt.at == nil {
				stricter()
			} else {
				b.wire.failing(once(tt.at, func(*http.Request) *http.Response { reached = true; stricter(); return nil }))
			}
			err := b.target.Apply(t.Context(), p.Changes[0])
			if !errors.Is(err, targets.ErrChanged) || !reached {
				t.Errorf("it is updated: %v", err)
			}
			// Whoever prints it names the change.
			if err != nil && !strings.HasSuffix(err.Error(), targets.ErrChanged.Error()) {
				t.Errorf("the error is %q", err)
			}
			live := b.get("poolwright.dev/v1alpha1", "Sync", "dev").Object
			if got, _, err := unstructured.NestedInt64(live, "spec", "guard", "maxPrunePercent"); got != 0 || err != nil {
				t.Errorf("the guard is %v, %v", got, err)
			}
		})
	}
}

// What is written before the apply is from the version that was compared, and carries on to the next.
func TestASyncOfWhichAMapIsEmptiedIsUpdatedAtTheFirstAttempt(t *testing.T) {
	withSyncs(t)
	b := newBench(t)
	b.reconcile(b.declare(syncOf("1m", "{A: b}")))
	declared := b.declare(syncOf("2m", "{}"))
	for k, err := range b.apply(b.plan(declared)) {
		t.Errorf("%s: %v", k, err)
	}
	b.converged(declared)
}
