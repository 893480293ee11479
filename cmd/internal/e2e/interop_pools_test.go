package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// poolwrightWrites reports whether a live NodePool has fields that Poolwright has written.
func (s *syncFixture) poolwrightWrites(pool string) bool {
	s.Helper()
	return slices.ContainsFunc(s.pool(pool).GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "poolwright" })
}

// A Kustomization of Flux applies a NodePool, and the Sync declares another limit: it reports the owner and the field, and writes nothing.
func TestInteropANodePoolOfFluxIsNotWritten(t *testing.T) {
	t.Parallel()
	const pool = "interop-flux-owner"
	f := newFlux(t, pool)
	f.applier = f.program("kustomize-controller")
	f.repo.write("apps/pool.yaml", interopPool(pool, 100))
	f.repo.write("apps/class.yaml", interopClass(pool))
	f.repo.write("config/namespace.yaml", fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", f.apps))
	f.repo.write("config/own.yaml", f.configMap("own", "ours"))
	first := f.repo.commit("Begin")
	f.start()
	repository := f.follows()
	f.applied(first)
	owner := f.ownedByFlux("pools", "./apps", false)
	if err := f.hand.Create(t.Context(), owner.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f.limited(pool, 100)

	f.repo.write("config/pool.yaml", interopPool(pool, 200))
	f.repo.write("config/class.yaml", interopClass(pool))
	f.repo.commit("Declare it twice")
	f.reconcile(repository)
	f.reconcileSync()
	message := f.waitForNotReady("ApplyFailed")
	if !strings.Contains(message, "Flux Kustomization "+f.system+"/pools") || !strings.Contains(message, ".spec.limits.cpu") {
		t.Errorf("the Sync does not report the owner and the field: %s", message)
	}
	// Flux has applied the new revision too, before its reconciliations are counted.
	f.reconcile(owner)
	before := f.limited(pool, 100)
	for range 20 {
		f.reconcile(owner)
		f.reconcileSync()
	}
	if now := f.limited(pool, 100); now.GetResourceVersion() != before.GetResourceVersion() || now.GetUID() != before.GetUID() {
		t.Errorf("written since: %s is not %s", now.GetResourceVersion(), before.GetResourceVersion())
	}
	if f.poolwrightWrites(pool) {
		t.Errorf("Poolwright has written %s", pool)
	}
	// That Flux is at work.
	f.patches(pool, `{"spec":{"limits":{"cpu":"300"}}}`)
	f.reconcile(owner)
	f.limited(pool, 100)

	// The control: without Flux's labels, the Sync writes its limit.
	f.patch(owner, `{"spec":{"suspend":true}}`)
	f.patches(pool, `{"metadata":{"labels":{"kustomize.toolkit.fluxcd.io/name":null,"kustomize.toolkit.fluxcd.io/namespace":null}}}`)
	f.reconcileSync()
	f.limited(pool, 200)
	if !f.poolwrightWrites(pool) {
		t.Errorf("Poolwright has not written %s", pool)
	}
	f.holds("own", "ours")
}
