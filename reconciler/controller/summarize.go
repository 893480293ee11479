package controller

import (
	"cmp"
	"context"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
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
		return ctrl.Result{RequeueAfter: after}, r.writeStatus(ctx, sync, awaiting(sync, done.loading))
	}
	done = done.use(sync, s)
	done.partly = done.Revision != sync.Status.LastAppliedRevision
	result := resultOf(done)
	last := everything
	if s != nil {
		s.drift = s.drift.observe(done, sync.Status.Pending, &result)
		s.used, last = done.scope.Handled, s.drift.computes
	}
	result.required.retained = retainedFrom(r.sessions.previousStatus(sync), sync.Annotations[v1alpha1.ConfirmAnnotation], done.computable(last), done.mayHaveMoved(), result.drift.leaves, done.scope)
	result.requireConfirmation(sync, done)
	r.report(sync, s, done, result)
	if s != nil {
		s.note(sync, done, result)
	}
	updated := sync.DeepCopy()
	switch {
	case done.kind != partial || !result.ready:
		result.write(updated, sync, done)
	case result.drift.complete:
		// Some things are as they should be, or are known to differ; whether the Sync is
		// ready does not follow from them.
		result.findings(updated, sync, done)
		result.confirmation(updated, sync, done)
	}
	r.mismatch(sync, updated)
	if updated.Status.LastAppliedRevision != sync.Status.LastAppliedRevision {
		updated.Status.LastAppliedTime = &metav1.Time{Time: r.Clock.Now()}
	}
	err := r.writeStatus(ctx, sync, updated)
	if err == nil {
		r.sessions.recordSource(sync)
	}
	if s == nil {
		return ctrl.Result{RequeueAfter: interval(sync)}, err
	}
	if after := s.recorded(done, err, r.Clock.Now()); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "The status could not be written", "after", after)
		return ctrl.Result{RequeueAfter: after}, nil
	}
	after := s.requeueAfter(r.Clock.Now(), interval(sync), result)
	logr.FromContextOrDiscard(ctx).V(1).Info("Reconciled", "revision", done.Revision, "reason", result.reason, "after", after)
	return ctrl.Result{RequeueAfter: after}, nil
}
