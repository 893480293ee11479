package kubernetes_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// revisionSource is a source that keeps every revision.
type revisionSource struct{ revision string }

// Fetch implements gitsource.Source.
func (m *revisionSource) Fetch(context.Context) (gitsource.Snapshot, error) {
	return gitsource.Snapshot{Revision: m.revision}, nil
}

// Earlier returns any revision.
func (m *revisionSource) Earlier(_ context.Context, revision, _ string) (gitsource.Snapshot, bool) {
	return gitsource.Snapshot{Revision: revision}, true
}

// r2 removed an object, whose deletion was sent and takes a while (a finalizer, as that of a
// NodePool that drains); something else of r2 failed, so that r1 is lastAppliedRevision. The
// controller restarts while the head r3 cannot be loaded: what the deletion took is not made anew.
func TestADeletionUnderWayIsNotUndoneByARestart(t *testing.T) {
	b := newBench(t)
	revs := map[string]state.Set{"r1": b.declare(web, config), "r2": b.declare(web)}
	load := func(_ context.Context, s gitsource.Snapshot) (declared.Declared, error) {
		set, ok := revs[s.Revision]
		if !ok {
			return declared.Declared{}, errors.New("cannot be loaded")
		}
		return declared.Declared{Set: set}, nil
	}
	src := &revisionSource{"r1"}
	start := func(applied string) *reconciler.Loop {
		return reconciler.NewLoop(src, load, reconciler.NamedTarget{Name: kubernetes.Name, Target: b.target}).ResumesFrom(applied, "")
	}
	run := func(l *reconciler.Loop) reconciler.Result {
		t.Helper()
		r, err := l.RunOnce(t.Context(), reconciler.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	loop := start("")
	run(loop)
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) {
		set(o, []any{"example.com/drains"}, "metadata", "finalizers")
	})
	run(loop)
	src.revision = "r2"
	run(loop)
	if b.get("v1", "ConfigMap", "settings").GetDeletionTimestamp() == nil {
		t.Fatal("its deletion was not sent")
	}
	src.revision = "r3"
	b.restart()
	loop = start("r1")
	run(loop)
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) { set(o, int64(5), "spec", "replicas") })
	if r := run(loop); len(r.Outcome.Applied()) != 1 {
		t.Fatalf("drift of something else is not corrected: %+v", r.Plan.Changes)
	}
	// Recording that keeps how far the deletion was allowed.
	b.restart()
	deleting, err := b.target.Deleting(t.Context())
	if err != nil || len(deleting) != 1 || deleting[0].Name != "settings" {
		t.Fatalf("r2 began to delete %v, %v", deleting, err)
	}
	loop = start("r1")
	run(loop)
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) {
		set(o, []any{}, "metadata", "finalizers")
	})
	if _, err := b.find("v1", "ConfigMap", "settings"); client.IgnoreNotFound(err) != nil || err == nil {
		t.Fatal("it is not gone", err)
	}
	r := run(loop)
	if _, err := b.find("v1", "ConfigMap", "settings"); err == nil {
		t.Errorf("what r2 deleted is there again:\n%s", show(r.Plan))
	}
}

// A pool that is made again under the name of one whose deletion was confirmed (by another run of
// ours, which desired it again) is another: nobody has confirmed its deletion.
func TestWhatWasConfirmedForOneIncarnationNeedsAnotherConfirmationForTheNext(t *testing.T) {
	b := newBench(t)
	b.reconcile(b.declare(pool, config, web))
	b.hasAccount(b.ns)
	b.make(nodeWithPod, "karpenter")
	without := b.declare(config, web)
	b.denying(http.MethodDelete, "/nodepools/"+b.ns)
	first := b.guarded(without, "").Confirmation()
	if r := b.run(b.guarded(without, first)); r.Status != apply.Failed {
		t.Fatalf("the deletion is %s: %v", r.Status, r.Err)
	}
	b.wire.failing(nil)
	if p := b.guarded(without, first); p.Confirmation() != "" {
		t.Fatalf("what was confirmed is asked for again: %v", p.Reasons())
	}
	b.removeAll(pool)
	again := strings.Replace(pool, "metadata: {name: $NS,", "metadata: {name: $NS, labels: {poolwright.dev/sync: sync-$NS},", 1)
	for _, item := range b.declare(again).Items() {
		config := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: item.Object})
		if err := b.hand.Apply(t.Context(), config, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
			t.Fatal(err)
		}
	}
	p := b.guarded(without, "")
	if len(p.Changes) != 1 || p.Changes[0].Action != plan.Delete || p.Changes[0].Admitted() {
		t.Fatalf("planned %s", show(p))
	}
	if r := b.run(p); r.Status != apply.Held {
		t.Errorf("the deletion is %s: %v", r.Status, r.Err)
	}
	b.goes(false)
}
