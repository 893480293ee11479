package controller

import (
	"cmp"
	"context"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/health"
	"github.com/poolwright/poolwright/reconciler/controller/pending"
	"github.com/poolwright/poolwright/reconciler/events"
)

// summarize turns a run into status, events, metrics and the next reconciliation.
func (r *SyncReconciler) summarize(ctx context.Context, sync *v1alpha1.Sync, s *syncState, done reconciliation) (ctrl.Result, error) {
	if ctx.Err() != nil {
		// We are stopping: what was cut short proves nothing about the Sync.
		return ctrl.Result{}, nil
	}
	if done.kind == waiting {
		// The source's result brings the next reconciliation; the interval is the net under it.
		after := cmp.Or(max(done.after, 0), interval(sync))
		s.next = r.Clock.Now().Add(after)
		return ctrl.Result{RequeueAfter: after}, r.writeStatus(ctx, sync, awaiting(sync, done.loading))
	}
	done = done.use(sync, s)
	done.partly = !isLastApplied(sync, done.Revision, done.TreeID)
	result := resultOf(done)
	last := pending.Everything
	if s != nil {
		s.drift = s.drift.observe(done, sync.Status.Pending, &result)
		s.used, last = done.binding.Handled, s.drift.computes
	}
	result.required.retained = pending.RetainedFrom(r.states.expectations.Previous(sync, fingerprintOf(sync)), sync.Annotations[v1alpha1.ConfirmAnnotation], done.computable(last), done.mayHaveMoved(), result.drift.isPending, done.binding)
	result.requireConfirmation(sync, done)
	updated := s.statusOf(sync)
	switch {
	case done.kind != partial || !result.ready:
		result.write(updated, sync, done)
	case result.drift.complete:
		// Some things are as they should be, or are known to differ; whether the Sync is ready does not follow.
		result.findings(updated, sync, done)
		result.confirmation(updated, sync, done)
	}
	if !isLastApplied(sync, updated.Status.LastAppliedRevision, updated.Status.LastAppliedTreeID) {
		updated.Status.LastAppliedTime = &metav1.Time{Time: r.Clock.Now()}
	}
	if s != nil && (done.kind != partial || !result.ready) {
		s.ready = health.Ready(updated)
		s.health.RecordOrigin(updated.Status.LastAppliedRevision, done.Result)
	}
	healthy := r.addHealth(sync, s, updated)
	r.report(sync, s, done, result, healthy.Healthy())
	r.reportHealth(updated, healthy)
	r.mismatch(sync, updated)
	r.RollOut.Applied(sync, done.Outcome.Results)
	s.record(sync, done, result) // The response to the status has the newest Sync, and what was changed in it meanwhile was not run.
	err := r.writeStatus(ctx, sync, updated)
	if err == nil {
		r.states.expectations.RecordSource(sync, fingerprintOf(sync))
	}
	if s == nil {
		return ctrl.Result{RequeueAfter: interval(sync)}, err
	}
	if after := s.recorded(done, err, r.Clock.Now()); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "The status could not be written", "after", after)
		return ctrl.Result{RequeueAfter: after}, nil
	}
	after := s.requeueAfter(r.Clock.Now(), interval(sync), result)
	s.next = r.Clock.Now().Add(after)
	logr.FromContextOrDiscard(ctx).V(1).Info("Reconciled", "revision", done.Revision, "reason", result.reason, "after", healthy.Next(after))
	return ctrl.Result{RequeueAfter: healthy.Next(after)}, nil
}

// isLastApplied reports whether a revision with the id of its files is what a Sync has applied last. An earlier release
// recorded no id of the files.
func isLastApplied(sync *v1alpha1.Sync, revision, treeID string) bool {
	last := sync.Status
	return revision == last.LastAppliedRevision && (last.LastAppliedTreeID == "" || treeID == last.LastAppliedTreeID)
}

// onlyConditions reports whether nothing but the health of objects, or the end of a roll-out, can have brought the
// reconciliation: it then costs no request but that for the status.
func (s *syncState) onlyConditions(sync *v1alpha1.Sync, now time.Time, rolloutDue func(*v1alpha1.Sync) bool) bool {
	if s.ready == nil || s.statusWriteFailures > 0 || !now.Before(s.nextFetch) || !now.Before(s.next) || s.forced(sync, now) || !s.health.Due(now) && !rolloutDue(sync) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.requested && sync.Annotations[v1alpha1.UpdateParametersAnnotation] == sync.Status.LastHandledUpdateParameters
}

// updateHealth writes what the health of objects changes of the status.
func (r *SyncReconciler) updateHealth(ctx context.Context, sync *v1alpha1.Sync, s *syncState) (ctrl.Result, error) {
	updated := s.statusOf(sync)
	healthy := r.addHealth(sync, s, updated)
	r.Metrics.RecordReady(sync.Name, healthy.Healthy())
	r.reportHealth(updated, healthy)
	return ctrl.Result{RequeueAfter: healthy.Next(s.next.Sub(r.Clock.Now()))}, r.writeStatus(ctx, sync, updated)
}

// statusOf is a Sync with the status of one before the health of objects.
func (s *syncState) statusOf(sync *v1alpha1.Sync) *v1alpha1.Sync {
	updated := sync.DeepCopy()
	if s != nil && s.ready != nil {
		conditions.Set(updated, s.ready.DeepCopy())
		conditions.Delete(updated, fluxmeta.StalledCondition)
		conditions.Delete(updated, fluxmeta.ReconcilingCondition)
	}
	return updated
}

// addHealth completes the status of updated, a copy of the Sync, by the health of what the Sync
// requires to be healthy. Where the Sync is not ready for another reason, that stays.
func (r *SyncReconciler) addHealth(sync *v1alpha1.Sync, s *syncState, updated *v1alpha1.Sync) health.Result {
	if s == nil || s.lastFull.IsZero() {
		return health.Result{}
	}
	defer health.KeepTransitions(updated, sync)
	now := r.Clock.Now()
	found := s.health.Check(sync, updated.Status.LastAppliedTime, now)
	conditions.Delete(updated, fluxmeta.HealthyCondition)
	if !found.Checked() {
		return found
	}
	conditions.Set(updated, &metav1.Condition{
		Type: fluxmeta.HealthyCondition, Status: found.Status, Reason: found.Reason, Message: conditionMessage(found.Message), LastTransitionTime: metav1.NewTime(now),
	})
	if s.ready == nil || found.Healthy() {
		return found
	}
	message := conditionMessage(s.ready.Message + "; " + found.Message)
	conditions.MarkFalse(updated, fluxmeta.ReadyCondition, found.Reason, "%s", message)
	switch {
	case found.Stalled:
		conditions.MarkStalled(updated, found.Reason, "%s", message)
	case found.Status == metav1.ConditionFalse:
		conditions.MarkReconciling(updated, fluxmeta.ProgressingWithRetryReason, "%s", message)
	default:
		conditions.MarkReconciling(updated, fluxmeta.ProgressingReason, "%s", message)
	}
	return found
}

// reportHealth emits an event where objects became healthy, or failed to.
func (r *SyncReconciler) reportHealth(sync *v1alpha1.Sync, found health.Result) {
	if found.Changed && found.Status == metav1.ConditionFalse {
		r.Metrics.RecordFailure(sync.Name, found.Reason)
	}
	found.Report(events.WithRevision(r.Recorder, sync.Status.LastAppliedRevision, found.OriginRevision), sync, sync.Status.LastAppliedRevision)
}
