package health

import (
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Next is when the next reconciliation has to come that would come after a time: earlier, where
// what is not healthy has failed by then.
func (r Result) Next(after time.Duration) time.Duration {
	if r.After > 0 {
		return min(after, r.After)
	}
	return after
}

// Report emits an event where objects became healthy, or failed to, at a revision.
func (r Result) Report(recorder record.EventRecorder, sync *v1alpha1.Sync, revision string) {
	switch {
	case r.Changed && r.Status == metav1.ConditionFalse:
		recorder.Event(sync, corev1.EventTypeWarning, r.Reason, r.Message)
	case r.Recovered:
		recorder.Eventf(sync, corev1.EventTypeNormal, fluxmeta.ReconciliationSucceededReason, "Applied revision %s: %s", revision, r.Message)
	}
}

// Ready is the condition Ready of a Sync, where it is True, else nil.
func Ready(sync *v1alpha1.Sync) *metav1.Condition {
	if !conditions.IsTrue(sync, fluxmeta.ReadyCondition) {
		return nil
	}
	return conditions.Get(sync, fluxmeta.ReadyCondition)
}

// KeepTransitions has the conditions of updated, a copy of the Sync in which they were set one over
// another, keep the time of their last transition where they are as before. That of Healthy is when
// its status changed, since the timeout counts from there, and not when its message did.
func KeepTransitions(updated, sync *v1alpha1.Sync) {
	for i, c := range updated.Status.Conditions {
		before := conditions.Get(sync, c.Type)
		if before == nil || before.Status != c.Status {
			continue
		}
		if c.Type == fluxmeta.HealthyCondition || SameState(before, &c) {
			updated.Status.Conditions[i].LastTransitionTime = before.LastTransitionTime
		}
	}
}

// SameState reports whether a condition, which may be nil, is as before, whenever and of whatever generation that was: as conditions.Set of
// Flux compares them.
func SameState(before, after *metav1.Condition) bool {
	if before == nil || after == nil {
		return before == after
	}
	was, is := *before, *after
	was.LastTransitionTime, was.ObservedGeneration = is.LastTransitionTime, is.ObservedGeneration
	return was == is
}
