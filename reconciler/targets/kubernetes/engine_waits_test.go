package kubernetes_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// A revision with a problem deletes nothing, so that its plan has no deletion of the pool either.
func TestARevisionThatDeletesNothingDoesNotStopTheEngine(t *testing.T) {
	b := engineBench(t)
	b.reconcile(b.declare(clusterOf("cluster", "Embedded"), pool, config, web))
	gone := b.ownedClaim(string(b.get("karpenter.sh/v1", "NodePool", b.ns).GetUID()))
	declared := b.declare(config, web, clusterOf("cluster", `"Off"`))
	withProblems := func(confirmation string) plan.Plan {
		desired := b.want(declared)
		observed, err := b.target.Observe(b.Context(), desired)
		if err != nil {
			t.Fatal(err)
		}
		return plan.Compute(desired, observed, plan.NoPrune(), plan.Guard(50, confirmation))
	}
	token := withProblems("").Confirmation()
	out := apply.Run(b.Context(), withProblems(token), map[string]targets.Target{kubernetes.Name: b.target}, apply.Options{NoDeletes: true})
	if b.engineMode() != "Embedded" {
		t.Errorf("the engine stopped before the nodes of a pool that the revision removes are gone: %v", out.Err())
	}
	b.goes(false)
	_ = b.outcome(b.guarded(declared, b.guarded(declared, "").Confirmation()))
	gone()
	b.reconcile(b.declare())
}

// What has a finalizer of Karpenter's, or takes such along, is gone before the engine stops.
func TestTheEngineStaysUntilWhatItFinalizesIsGone(t *testing.T) {
	for name, c := range map[string]struct{ apiVersion, kind, object, manifest string }{
		"a Node of Karpenter": {"v1", "Node", "$NS", `
apiVersion: v1
kind: Node
metadata: {name: $NS, finalizers: [karpenter.sh/termination]}
`},
		"the definition of a kind of Karpenter": {"apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.karpenter.sh", `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.karpenter.sh, finalizers: [example.com/kept]}
spec:
  group: karpenter.sh
  scope: Cluster
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`},
	} {
		t.Run(name, func(t *testing.T) {
			b := engineBench(t)
			object := c.object
			if object == "$NS" {
				object = b.ns
			}
			b.make(c.manifest, "karpenter")
			release := func() {
				live := &unstructured.Unstructured{}
				live.SetGroupVersionKind(schema.FromAPIVersionAndKind(c.apiVersion, c.kind))
				live.SetName(object)
				err := b.hand.Patch(context.WithoutCancel(t.Context()), live, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`)))
				if client.IgnoreNotFound(err) != nil {
					t.Error(err)
				}
			}
			t.Cleanup(func() { release(); b.removeAll(c.manifest) })
			b.reconcile(b.declare(clusterOf("cluster", "Embedded"), config, web))
			live := b.get(c.apiVersion, c.kind, object)
			if err := b.hand.Delete(b.Context(), live); err != nil {
				t.Fatal(err)
			}
			off := b.declare(clusterOf("cluster", `"Off"`), config, web)
			run := func() error { return b.outcome(b.guarded(off, b.guarded(off, "").Confirmation())).Err() }
			if err := run(); reasonOf(err) != "EngineNeeded" || b.engineMode() != "Embedded" {
				t.Errorf("the mode is %s: %v", b.engineMode(), err)
			}
			release()
			eventually(t, func() bool {
				_, err := b.find(c.apiVersion, c.kind, object)
				return apierrors.IsNotFound(err)
			})
			if err := run(); err != nil || b.engineMode() != "Off" {
				t.Errorf("with it gone, the mode is %s: %v", b.engineMode(), err)
			}
			b.reconcile(b.declare())
		})
	}
}

// Whoever confirmed that a pool goes and the engine stops has confirmed both: nothing more is lost by
// the time at which the pool's nodes are gone.
func TestTheEngineStopsByTheTokenThatWasReportedWithThePool(t *testing.T) {
	for name, after := range map[string][]string{
		"the engine is switched off":     {clusterOf("cluster", `"Off"`)},
		"the Cluster is removed as well": nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := engineBench(t)
			b.reconcile(b.declare(clusterOf("cluster", "Embedded"), pool, config, web))
			gone := b.ownedClaim(string(b.get("karpenter.sh/v1", "NodePool", b.ns).GetUID()))
			b.make(otherClaim, "karpenter")
			t.Cleanup(func() { b.removeAll(otherClaim) })
			declared := b.declare(append([]string{config, web}, after...)...)
			token := b.guarded(declared, "").Confirmation()
			if !strings.HasPrefix(token, "deletions-1-") || !strings.Contains(token, ",engine-1-") || !strings.HasSuffix(token, "+1Engine+2NodeClaim") {
				t.Errorf("it asks for %s", token)
			}
			if err := b.outcome(b.guarded(declared, token)).Err(); reasonOf(err) != "EngineNeeded" {
				t.Errorf("with a node of the pool there: %v", err)
			}
			draining := b.guarded(declared, "")
			for _, c := range draining.Changes {
				if c.Key.Kind == "Cluster" && c.Before.Losses["NodeClaim"] != 1 {
					t.Errorf("besides the claim that goes, %v run on: %s", c.Before.Losses, c.Before.Impact)
				}
			}
			if p := b.guarded(declared, token); len(p.Reasons()) > 0 {
				t.Errorf("it asks again, for %s: %s", p.Confirmation(), p.Reasons())
			}
			gone()
			if err := b.outcome(b.guarded(declared, token)).Err(); err != nil || b.engineMode() == "Embedded" {
				t.Errorf("with the nodes gone, the mode is %q: %v", b.engineMode(), err)
			}
			b.reconcile(b.declare())
		})
	}
}

// What the engine deletes to its end before it stops does not run on without it.
func TestWhatIsBeingDeletedDoesNotRunOnWithoutTheEngine(t *testing.T) {
	b := engineBench(t)
	b.reconcile(b.declare(clusterOf("cluster", "Embedded"), config, web))
	gone := b.ownedClaim(poolGone)
	off := b.declare(clusterOf("cluster", `"Off"`), config, web)
	if p := b.guarded(off, ""); p.Confirmation() != "" {
		t.Errorf("it asks for %s: %s", p.Confirmation(), p.Reasons())
	}
	if err := b.outcome(b.guarded(off, "")).Err(); reasonOf(err) != "EngineNeeded" || b.engineMode() != "Embedded" {
		t.Errorf("the mode is %s: %v", b.engineMode(), err)
	}
	gone()
	b.reconcile(b.declare())
}
