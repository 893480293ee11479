package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/controller/health"
	"github.com/poolwright/poolwright/reconciler/controller/pending"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/rollback"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// finalize applies the deletion policy of a Sync that is being deleted, and removes the finalizer.
func (r *SyncReconciler) finalize(ctx context.Context, sync *v1alpha1.Sync) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(sync, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	current, err := r.states.get(ctx, sync, r.assemble)
	if err == nil {
		// A deletion needs no revision, and may be held: others need the memory.
		current.revisions.Cancel()
		current.revisions.Unload()
	}
	done := reconciliation{err: err}
	// A suspended Sync changes nothing: as Flux does, its deletion leaves what it applied.
	if err == nil && sync.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete && !sync.Spec.Suspend {
		done = r.prune(ctx, sync, current)
	}
	v := deletionResult(done)
	if v.ready {
		if err := current.Orphan(ctx); err != nil {
			v = runResult{reason: deletionFailed, message: sanitize.Text(err.Error())}
		}
	}
	if !v.ready {
		return r.reportDeletion(ctx, sync, done, v)
	}
	r.states.stop(types.NamespacedName{Namespace: sync.Namespace, Name: sync.Name})
	r.Metrics.Drop(sync.Name)
	r.emitOrphaned(sync, done)
	controllerutil.RemoveFinalizer(sync, v1alpha1.Finalizer)
	if err := r.Client.Update(ctx, sync); client.IgnoreNotFound(err) != nil {
		return requeueOnConflict(fmt.Errorf("removing the finalizer from Sync %s: %w", sync.Name, err))
	}
	return ctrl.Result{}, nil
}

// emitOrphaned emits the event on what a Sync leaves although its deletionPolicy is Delete: what is only
// compared, or where it is suspended, all that it applied.
func (r *SyncReconciler) emitOrphaned(sync *v1alpha1.Sync, done reconciliation) {
	left := slices.DeleteFunc(done.Plan.Changes, func(c plan.Change) bool { return !c.ReadOnly() })
	switch {
	case len(left) > 0:
		r.Recorder.Eventf(sync, corev1.EventTypeWarning, "Orphaned", "Left as they are (%d), the first: %s: %s", len(left), state.QualifiedName(left[0].Key), left[0].Hold.String())
	case sync.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete && sync.Spec.Suspend && sync.Status.Objects > 0:
		r.Recorder.Eventf(sync, corev1.EventTypeWarning, "Orphaned", "Left as it is what the Sync applied (%s), since it is suspended: deletionPolicy Delete does not count then", plural.Count(int(sync.Status.Objects), "object"))
	}
}

// deletionResult is the result on the deletion of a Sync: ready means that nothing keeps it.
// What waits for a confirmation is held as in any run. What is unknown may still be there,
// and keeps the Sync.
func deletionResult(done reconciliation) runResult {
	v := runResult{reason: deletionFailed}
	if done.err == nil {
		v.drift = driftStateOf(done)
	}
	switch err := cmp.Or(done.err, done.Outcome.Err()); {
	case err != nil:
		_, _, v.after = state.Classify(err)
		v.message = sanitize.Text(err.Error())
	case len(v.drift.tokens()) > 0:
		v.wait(done.Revision)
	case len(done.Plan.Unknown) > 0:
		v.message = unknowns(done.Plan.Unknown) + "; it may be there to be deleted, so the Sync waits (deletionPolicy: Orphan lets it go)"
	case !v.drift.heldUntil().IsZero():
		v.message = "what a person marked to stay as it is keeps the Sync (deletionPolicy: Orphan lets it go): " + v.drift.heldSentence()
	default:
		v.ready = true
	}
	return v
}

// reportDeletion reports on a Sync that is being deleted why it still exists: by an event
// where the reason is new, and in its status for as long as the reason applies.
func (r *SyncReconciler) reportDeletion(ctx context.Context, sync *v1alpha1.Sync, done reconciliation, v runResult) (ctrl.Result, error) {
	if ctx.Err() != nil {
		return ctrl.Result{}, nil
	}
	done.binding = syncpolicy.Binding(sync)
	v.required.retained = pending.RetainedFrom(r.states.expectations.Previous(sync, fingerprintOf(sync)), sync.Annotations[v1alpha1.ConfirmAnnotation], done.computable(pending.Everything), false, v.drift.isPending, done.binding)
	v.requireConfirmation(sync, done)
	if v.reason == pruneHeld {
		v.message = "the Sync is being deleted with what it applied (deletionPolicy: Delete; Orphan leaves it): " + v.message
	}
	updated := sync.DeepCopy()
	v.write(updated, sync, done)
	conditions.MarkUnknown(updated, "Drifted", "Terminating", "Drift is not computed while the Sync is being deleted")
	r.mismatch(sync, updated)
	r.Metrics.RecordReady(sync.Name, false)
	r.Metrics.RecordFailure(sync.Name, v.reason)
	before, after := conditions.Get(sync, fluxmeta.ReadyCondition), conditions.Get(updated, fluxmeta.ReadyCondition)
	if !health.SameState(before, after) {
		r.Recorder.Event(sync, corev1.EventTypeWarning, v.reason, v.message)
	}
	wait := cmp.Or(v.after, interval(sync))
	if until, now := v.drift.heldUntil(), r.Clock.Now(); until.After(now) {
		wait = min(wait, max(until.Sub(now), time.Second))
	}
	return ctrl.Result{RequeueAfter: wait}, r.writeStatus(ctx, sync, updated)
}

// prune deletes everything that the Sync applied, but for what is read-only.
func (r *SyncReconciler) prune(ctx context.Context, sync *v1alpha1.Sync, s *syncState) reconciliation {
	result, err := s.Loop.Finalize(ctx, reconciler.Options{Policies: syncpolicy.ForDeletion(sync, r.Clock.Now()), Apply: apply.Options{BeforeDeletes: r.unchanged(sync)}})
	if err == nil {
		r.reportConfirmed(sync, sync.Status.LastAttemptedRevision, "", result.Outcome.Results, false)
	}
	return reconciliation{Result: result, err: err}
}

// unchanged reads the Sync live, for a run that began minutes ago: what it deletes was
// allowed by a spec and a confirmation that a person may have changed since.
func (r *SyncReconciler) unchanged(then *v1alpha1.Sync) func(context.Context) error {
	name, uid, generation, ref := client.ObjectKeyFromObject(then), then.UID, then.Generation, rollback.Ref(then)
	confirmation, leaving := then.Annotations[v1alpha1.ConfirmAnnotation], !then.DeletionTimestamp.IsZero()
	return func(ctx context.Context) error {
		var now v1alpha1.Sync
		if err := r.Live.Get(ctx, name, &now); err != nil {
			return state.Fail(state.Retry, "SyncNotRead", fmt.Errorf("not deleted: reading Sync %s: %w", name.Name, err))
		}
		if now.UID != uid || now.Generation != generation || !now.DeletionTimestamp.IsZero() != leaving ||
			now.Annotations[v1alpha1.ConfirmAnnotation] != confirmation || rollback.Ref(&now) != ref {
			return state.Failf(state.Retry, "SyncChanged", "not deleted: Sync %s was changed since this run began; the next run uses its current spec", name.Name)
		}
		return nil
	}
}
