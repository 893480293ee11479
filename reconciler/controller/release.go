package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// release honours the deletion policy and lets the Sync go.
func (r *SyncReconciler) release(ctx context.Context, sync *v1alpha1.Sync) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(sync, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	session, err := r.sessions.get(ctx, sync, r.Build)
	if err == nil {
		// A release needs no revision, and may wait for a person: others need the memory.
		session.revisions.Cancel()
		session.revisions.Unload()
	}
	var left []plan.Change
	if err == nil && sync.Spec.DeletionPolicy == v1alpha1.DeletionPrune {
		left, err = r.prune(ctx, sync, session)
	}
	if err == nil {
		err = session.Forget(ctx)
	}
	if err != nil {
		return r.reportDeletionFailure(ctx, sync, err)
	}
	r.sessions.stop(types.NamespacedName{Namespace: sync.Namespace, Name: sync.Name})
	r.Metrics.forget(sync.Name)
	if len(left) > 0 {
		r.Recorder.Eventf(sync, "Warning", "LeftBehind", "Left as they are (%d), the first: %s: %s", len(left), thing(left[0].Key), left[0].Hold.String())
	}
	controllerutil.RemoveFinalizer(sync, v1alpha1.Finalizer)
	if err := r.Client.Update(ctx, sync); client.IgnoreNotFound(err) != nil {
		return again(fmt.Errorf("removing the finalizer from Sync %s: %w", sync.Name, err))
	}
	return ctrl.Result{}, nil
}

// reportDeletionFailure reports on a Sync that is being deleted why it still exists: by
// an event where the reason is new, and in Ready for as long as the reason applies.
func (r *SyncReconciler) reportDeletionFailure(ctx context.Context, sync *v1alpha1.Sync, why error) (ctrl.Result, error) {
	if ctx.Err() != nil {
		return ctrl.Result{}, nil
	}
	status := sync.Status.DeepCopy()
	setReady(status, sync, false, "DeletionFailed", why.Error())
	var v verdict
	if held, ok := errors.AsType[*heldError](why); ok {
		v.tokens = held.tokens
	}
	v.confirmation(status, sync, run{scope: syncpolicy.Scope(sync)})
	r.mismatch(sync, status)
	setStalled(status, sync, "", "")
	set(status, sync, "Reconciling", metav1.ConditionTrue, "ProgressingWithRetry", why.Error())
	if !equality.Semantic.DeepEqual(&sync.Status, status) {
		r.Recorder.Event(sync, "Warning", "DeletionFailed", why.Error())
	}
	return ctrl.Result{RequeueAfter: interval(sync)}, r.writeStatus(ctx, sync, status)
}

// prune deletes everything that the Sync applied, and returns what is only
// compared and stays. What is unknown may still be there, and keeps the Sync.
func (r *SyncReconciler) prune(ctx context.Context, sync *v1alpha1.Sync, s *session) ([]plan.Change, error) {
	result, err := s.Loop.Release(ctx, reconciler.Options{Policies: syncpolicy.ForDeletion(sync), Apply: apply.Options{BeforeDeletes: r.unchanged(sync)}})
	if err != nil {
		return nil, err
	}
	r.confirmed(sync, sync.Status.LastAttemptedRevision, result.Outcome.Results, false)
	if tokens := result.Plan.Tokens(); len(tokens) > 0 {
		asking := func(r hold.Reason) bool { return r.Token == nil }
		return nil, &heldError{sync, slices.DeleteFunc(result.Plan.Reasons(), asking), tokens}
	}
	if err := result.Outcome.Err(); err != nil {
		return nil, err
	}
	if list := result.Plan.Unknown; len(list) > 0 {
		return nil, errors.New(unknowns(list) + "; it may be there to be deleted, so the Sync waits (deletionPolicy: Orphan lets it go)")
	}
	return slices.DeleteFunc(result.Plan.Changes, func(c plan.Change) bool { return !c.Standing() }), nil
}

// unchanged reads the Sync live, for a run that began minutes ago: what it deletes was
// allowed by a spec and a confirmation that a person may have changed since.
func (r *SyncReconciler) unchanged(then *v1alpha1.Sync) func(context.Context) error {
	name, uid, generation := client.ObjectKeyFromObject(then), then.UID, then.Generation
	confirmation, leaving := then.Annotations[v1alpha1.ConfirmAnnotation], !then.DeletionTimestamp.IsZero()
	return func(ctx context.Context) error {
		var now v1alpha1.Sync
		if err := r.Live.Get(ctx, name, &now); err != nil {
			return state.Fail(state.Retry, "Changed", fmt.Errorf("not deleted: reading Sync %s: %w", name.Name, err))
		}
		if now.UID != uid || now.Generation != generation || !now.DeletionTimestamp.IsZero() != leaving ||
			now.Annotations[v1alpha1.ConfirmAnnotation] != confirmation {
			return state.Failf(state.Retry, "Changed", "not deleted: Sync %s was changed since this run began; the next one goes by what it says now", name.Name)
		}
		return nil
	}
}
