package controller

import (
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// base is a Sync that the stage's depends on.
type base struct {
	*stage
	sync *v1alpha1.Sync
}

func dependsOnBase(sync *v1alpha1.Sync) {
	sync.Spec.DependsOn = []v1alpha1.DependencyReference{{Name: "base"}}
}

// newBase creates it without a status.
func newBase(s *stage) *base {
	s.Helper()
	b := &base{s, &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: stageName.Namespace, Name: "base", Generation: 1}}}
	if err := s.r.Client.Create(s.Context(), b.sync); err != nil {
		s.Fatal(err)
	}
	return b
}

// becomes gives it a condition Ready, at the revision of the stage where that is True.
func (b *base) becomes(status metav1.ConditionStatus, reason string) {
	b.Helper()
	meta.SetStatusCondition(&b.sync.Status.Conditions, metav1.Condition{Type: fluxmeta.ReadyCondition, Status: status, Reason: reason, ObservedGeneration: b.sync.Generation})
	b.sync.Status.ObservedGeneration = b.sync.Generation
	if status == metav1.ConditionTrue {
		b.sync.Status.LastAppliedRevision = b.revision
	}
	of := b.sync.Status
	if err := b.r.Client.Update(b.Context(), b.sync); err != nil {
		b.Fatal(err)
	}
	b.sync.Status = of
	if err := b.r.Client.Status().Update(b.Context(), b.sync); err != nil {
		b.Fatal(err)
	}
}

func TestASyncIsAppliedOnceWhatItDependsOnIsReady(t *testing.T) {
	s := newStage(t, dependsOnBase)
	s.commit("kubernetes/a=1")
	after := s.reconcile()
	message := s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionFalse, fluxmeta.DependencyNotReadyReason)
	if !strings.Contains(message, "waiting for Sync base: it does not exist") || len(s.cluster.live) > 0 {
		t.Errorf("Ready is %q, and there is %v", message, s.cluster.live)
	}
	if after != time.Minute {
		t.Errorf("it polls after %s", after)
	}
	if c := meta.FindStatusCondition(s.sync().Status.Conditions, fluxmeta.StalledCondition); c != nil {
		t.Errorf("Stalled is %+v", c)
	}
	b := newBase(s)
	b.becomes(metav1.ConditionTrue, "ReconciliationSucceeded")
	s.reconcile()
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionTrue, "ReconciliationSucceeded")

	// The next revision waits for the same one of base, which the event is no warning of.
	s.takeEvents()
	s.commit("kubernetes/a=2")
	s.later()
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionFalse, fluxmeta.DependencyNotReadyReason)
	s.later()
	want := []string{"Normal DependencyNotReady waiting for Sync base: it has not applied revision " + s.revision + "; revision main@sha1:11 stays applied"}
	if d := cmp.Diff(want, s.takeEvents()); d != "" {
		t.Error(d)
	}
	if got := s.sync().Status; got.LastAppliedRevision == s.revision || got.LastAttemptedRevision != s.revision || got.ObservedGeneration != 1 {
		t.Errorf("the status is %+v", got)
	}
	b.becomes(metav1.ConditionTrue, "ReconciliationSucceeded")
	s.reconcile() // Which a watch brings.
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionTrue, "ReconciliationSucceeded")
	if s.cluster.live["a"] != "2" || s.sync().Status.LastAppliedRevision != s.revision {
		t.Errorf("there is %v", s.cluster.live)
	}
}

func TestDriftIsCorrectedAndNothingPrunedWhileADependencyIsNotReady(t *testing.T) {
	s := newStage(t, dependsOnBase)
	b := newBase(s)
	s.commit("kubernetes/a=1", "kubernetes/left=1", "aws/queue=1")
	b.becomes(metav1.ConditionTrue, "ReconciliationSucceeded")
	s.reconcile()
	applied := s.revision

	b.becomes(metav1.ConditionFalse, "HealthCheckFailed")
	s.commit("kubernetes/a=2", "kubernetes/new=1", "aws/queue=2")
	compared := s.cluster.fullComparisons
	s.reconcile()
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionFalse, fluxmeta.DependencyNotReadyReason)
	if s.cluster.fullComparisons != compared {
		t.Error("a revision that waits costs a comparison in full")
	}
	s.cluster.live["a"] = "by hand"
	s.drift(at("kubernetes", "a"))
	delete(s.cluster.live, "left")
	s.drift(at("kubernetes", "left"))
	s.aws.live["queue"] = "by hand"
	s.clock.Step(resync)
	s.reconcile()
	if d := cmp.Diff([]map[string]string{{"a": "1", "left": "1"}, {"queue": "1"}}, []map[string]string{s.cluster.live, s.aws.live}); d != "" {
		t.Error(d)
	}
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionFalse, fluxmeta.DependencyNotReadyReason)
	// A changed spec, and a request, are no way around it.
	s.edit(func(sync *v1alpha1.Sync) {
		sync.Generation++
		sync.Annotations = map[string]string{fluxmeta.ReconcileRequestAnnotation: "now"}
	})
	s.reconcile()
	if got := s.sync().Status; s.cluster.live["a"] != "1" || got.LastAppliedRevision != applied || got.LastHandledReconcileAt != "now" || got.ObservedGeneration != 1 {
		t.Errorf("there is %v, and the status %+v", s.cluster.live, got)
	}
	b.becomes(metav1.ConditionTrue, "ReconciliationSucceeded")
	s.reconcile()
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionTrue, "ReconciliationSucceeded")
	if d := cmp.Diff([]map[string]string{{"a": "2", "new": "1"}, {"queue": "2"}}, []map[string]string{s.cluster.live, s.aws.live}); d != "" {
		t.Error(d)
	}
}

func TestADependencyThatBecomesReadyIsFoundBesideDrift(t *testing.T) {
	s := newStage(t, dependsOnBase)
	b := newBase(s)
	s.commit("kubernetes/a=1")
	b.becomes(metav1.ConditionTrue, "ReconciliationSucceeded")
	s.reconcile()
	s.commit("kubernetes/a=2")
	s.later()
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionFalse, fluxmeta.DependencyNotReadyReason)
	b.becomes(metav1.ConditionTrue, "ReconciliationSucceeded")
	s.cluster.live["a"] = "by hand"
	s.drift(at("kubernetes", "a"))
	if s.cluster.live["a"] != "2" {
		t.Errorf("there is %v", s.cluster.live)
	}
	// Also where nothing but the health of objects could have brought the reconciliation.
	s.later()
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionTrue, "ReconciliationSucceeded")
	b.becomes(metav1.ConditionFalse, "ApplyFailed")
	s.become(0, 0)
	s.reconcile()
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionFalse, fluxmeta.DependencyNotReadyReason)
	b.becomes(metav1.ConditionTrue, "ReconciliationSucceeded")
	compared := s.cluster.fullComparisons
	s.reconcile()
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionTrue, "ReconciliationSucceeded")
	if s.cluster.fullComparisons != compared {
		t.Error("what was applied all along is compared in full")
	}
}

func TestADependencyThatIsDeletedIsWaitedFor(t *testing.T) {
	s := newStage(t, dependsOnBase)
	b := newBase(s)
	s.commit("kubernetes/a=1")
	b.becomes(metav1.ConditionTrue, "ReconciliationSucceeded")
	s.reconcile()
	if err := s.r.Client.Delete(t.Context(), b.sync); err != nil {
		t.Fatal(err)
	}
	s.reconcile()
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionFalse, fluxmeta.DependencyNotReadyReason)
	s.edit(func(sync *v1alpha1.Sync) { sync.Spec.DependsOn, sync.Generation = nil, sync.Generation+1 })
	s.reconcile()
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionTrue, "ReconciliationSucceeded")
}

func TestACycleOfDependenciesIsStalledAndNamed(t *testing.T) {
	s := newStage(t, dependsOnBase)
	b := newBase(s)
	b.sync.Spec.DependsOn = []v1alpha1.DependencyReference{{Name: "dev"}}
	b.becomes(metav1.ConditionTrue, "ReconciliationSucceeded")
	s.commit("kubernetes/a=1")
	s.reconcile()
	s.expectCondition(fluxmeta.StalledCondition, metav1.ConditionTrue, "CircularDependency")
	if message := s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionFalse, "CircularDependency"); !strings.Contains(message, "dev -> base -> dev") || len(s.cluster.live) > 0 {
		t.Errorf("Ready is %q, and there is %v", message, s.cluster.live)
	}
	b.sync.Spec.DependsOn = nil
	b.becomes(metav1.ConditionTrue, "ReconciliationSucceeded")
	s.reconcile()
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionTrue, "ReconciliationSucceeded")
}
