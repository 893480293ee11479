package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// unlabelled removes Flux's labels from a live NodePool, as docs/howto/beside-flux-or-argocd.md does.
func (s *syncFixture) unlabelled(pool string) {
	s.Helper()
	s.patches(pool, `{"metadata":{"labels":{"kustomize.toolkit.fluxcd.io/name":null,"kustomize.toolkit.fluxcd.io/namespace":null}}}`)
}

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
	f.unlabelled(pool)
	f.reconcileSync()
	f.limited(pool, 200)
	if !f.poolwrightWrites(pool) {
		t.Errorf("Poolwright has not written %s", pool)
	}
	f.holds("own", "ours")
}

// manifest is a live NodePool as a file declares it, with a limit of vCPUs, and with annotations that are all "disabled".
func (s *syncFixture) manifest(pool string, limit int, disabled ...string) string {
	s.Helper()
	live := s.pool(pool)
	out := &unstructured.Unstructured{Object: map[string]any{"spec": live.DeepCopy().Object["spec"]}}
	out.SetAPIVersion(live.GetAPIVersion())
	out.SetKind(live.GetKind())
	out.SetName(pool)
	annotations := map[string]string{}
	for _, name := range disabled {
		annotations[name] = "disabled"
	}
	out.SetAnnotations(annotations)
	err := unstructured.SetNestedField(out.Object, fmt.Sprint(limit), "spec", "limits", "cpu")
	raw, marshalErr := yaml.Marshal(out.Object)
	if err := errors.Join(err, marshalErr); err != nil {
		s.Fatal(err)
	}
	return string(raw)
}

// claimUIDs are those of the NodeClaims of a pool, by their names.
func (s engineSuite) claimUIDs(pool string) map[string]types.UID {
	s.Helper()
	claims, err := s.claims(pool)
	if err != nil {
		s.Fatal(err)
	}
	out := map[string]types.UID{}
	for i := range claims {
		out[claims[i].Name] = claims[i].UID
	}
	return out
}

// The steps of docs/howto/beside-flux-or-argocd.md for a NodePool with a node, and those back: nobody deletes the pool, and its NodeClaim and its
// instance stay.
func TestInteropANodePoolMovesFromFluxAndBackWithItsNode(t *testing.T) {
	t.Parallel()
	skipWithoutInterop(t)
	const pool, fluxPrune = "interop-pool-moves", "kustomize.toolkit.fluxcd.io/prune"
	e := newEngineFixture(t)
	s := newSyncFixtureIn(e.fixture, pool, engineSystem)
	s.now = &controller{Process: e.now}
	f := newFluxOn(s)
	f.applier = f.program("kustomize-controller")
	e.addPool(pool, []string{onDemand}, "c5.large")
	e.addDeployment(pool, 1)
	node := e.waitForNodeWithPod(pool)
	claims, uid := e.claimUIDs(pool), f.pool(pool).GetUID()
	stays := func(limit int) {
		t.Helper()
		if now := f.limited(pool, limit); now.GetUID() != uid || now.GetDeletionTimestamp() != nil {
			t.Errorf("the pool is %s, and was %s", now.GetUID(), uid)
		}
		if now := e.claimUIDs(pool); !maps.Equal(now, claims) || len(e.terminations(node.ID)) > 0 {
			t.Errorf("the NodeClaims are %v, and were %v; %s was terminated %d times", now, claims, node.ID, len(e.terminations(node.ID)))
		}
	}

	f.declare("ours", "own")
	f.repo.write("apps/other.yaml", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-flux, namespace: %s}\n", f.system))
	// 1. Annotated in the old repository.
	f.repo.write("apps/pool.yaml", f.manifest(pool, 40, fluxPrune))
	f.repo.commit("Begin")
	repository := f.follows()
	owner := f.ownedByFlux("pools", "./apps", false)
	if err := f.hand.Create(t.Context(), owner.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	stays(40)

	// 2. Removed there, and added to the folder of the Sync.
	f.repo.remove("apps/pool.yaml")
	f.repo.write("config/pool.yaml", f.manifest(pool, 40))
	second := f.fetched(repository, "Move it")
	f.reconcile(owner)
	stays(40)
	// 3. Flux's labels are removed.
	f.unlabelled(pool)
	f.reconcileSync()
	f.applied(second)
	f.eventually("the pool is the Sync's", func() error {
		if got := f.pool(pool).GetLabels()[v1alpha1.SyncLabel]; got == "" {
			return errors.New("it has no label of a Sync")
		}
		return nil
	})
	f.repo.write("config/pool.yaml", f.manifest(pool, 50, v1alpha1.PruneAnnotation))
	f.applied(f.fetched(repository, "Change it, and keep it"))
	stays(50)

	// And back, by the annotation of ours.
	f.repo.remove("config/pool.yaml")
	f.repo.write("apps/pool.yaml", f.manifest(pool, 60))
	f.applied(f.fetched(repository, "Move it back"))
	f.reconcile(owner)
	stays(60)

	// The control: without the annotation Flux deletes it, and Karpenter the node.
	f.repo.remove("apps/pool.yaml")
	f.fetched(repository, "Remove it")
	f.reconcile(owner)
	f.eventually("the pool is deleted, and its instance terminated", func() error {
		if left := len(e.terminations(node.ID)); left == 0 || f.pool(pool) != nil {
			return fmt.Errorf("%d terminations of %s", left, node.ID)
		}
		return nil
	})
}
