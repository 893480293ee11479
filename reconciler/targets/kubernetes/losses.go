package kubernetes

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/losses"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/ownership"
)

// checkUpdate counts again right before the request what goes with an update, and refuses
// where it is more than was planned with. What only puts back what a hand has changed
// takes nothing that the repository gave. It also refuses an update of what a person has held, or released, since
// the plan. It reads what is live, as no cache can be newer than the request that follows.
func (j *objectApply) checkUpdate(ctx context.Context) error {
	u := losses.Update{Key: j.Change.Key, Before: j.Before.Object, After: j.After.Object}
	live, err := j.api.Get(ctx, j.ref)
	switch {
	case apierrors.IsNotFound(err) && !u.Loses():
		return nil // The update has its UID as a precondition.
	case err != nil:
		return api.ResponseError(err, j.secret)
	case manifest.Hold(live.GetAnnotations()).HoldUntil != j.Before.HoldUntil:
		return state.Fail(state.Retry, "Conflict", targets.ErrChanged)
	case !u.Loses():
		return nil
	}
	u.Live = live
	now := j.losses.Update(ctx, u)
	if !j.Change.Drift {
		if err := targets.MayDelete(j.Change, now); err != nil {
			return err
		}
	}
	return j.awaitEngine(ctx, now)
}

// checkDeletion refuses what is not ours to delete any more, or takes more along than was planned.
// It reads what is live, as no cache can be newer than the request that follows.
func (j *objectApply) checkDeletion(ctx context.Context, live *unstructured.Unstructured) error {
	if !j.stillDeletable(live) {
		return state.Fail(state.Retry, "Conflict", targets.ErrChanged)
	}
	k := j.Change.Key
	if !j.losses.Counts(k, live.Object) {
		return nil
	}
	now := losses.Deletion{Counter: j.losses, DeletedAnyway: losses.Terminating}
	if kinds.IsDevicePlugin(k) || kinds.ServesGPUs(live.Object) {
		now.Plugins = now.LostGPUs(ctx, j.coverage.Load(), losses.ConfigOf(live.Object))
	}
	lost := now.DeletionImpact(ctx, k, live)
	for object, m := range lost.Marked {
		if j.Before.Marked[object] != m { // It was marked since: whether that lasts is for a plan to decide.
			return state.Fail(state.Retry, "Conflict", fmt.Errorf("%w: %s, which would be deleted with it, was marked to stay as it is", targets.ErrChanged, object))
		}
	}
	if err := targets.MayDelete(j.Change, lost); err != nil {
		return err
	}
	return j.awaitEngine(ctx, lost)
}

// awaitEngine refuses a change with which the engine stops as long as it is at work on deletions:
// without it, instances would run on that nobody terminates, and finalizers stay. What nodes need
// until they are drained stays as long as NodeClaims go with their NodePools. Who confirmed a
// loss that could not be counted has not confirmed that.
func (j *objectApply) awaitEngine(ctx context.Context, lost loss.DeletionImpact) error {
	if !lost.AfterNodes || j.cfg.StopsEngine {
		return nil
	}
	if !lost.EndsEngine { // the DRA driver
		return karpenter.AwaitNodes(ctx, j.api)
	}
	deleting, err := j.store.Deleting(ctx)
	if err != nil {
		return err
	}
	return karpenter.AwaitEngine(ctx, j.api, deleting)
}

// stillDeletable reports whether a live object that has moved since its deletion was
// planned is still ours to delete. Controllers move objects all the time; what
// counts is whether somebody took it from us or marked it to be kept.
func (j *objectApply) stillDeletable(live *unstructured.Unstructured) bool {
	label := live.GetLabels()[v1alpha1.SyncLabel]
	return string(live.GetUID()) == j.Before.Live.UID &&
		(label == j.owner.Label || label == "") &&
		live.GetAnnotations()[v1alpha1.PruneAnnotation] != "disabled" &&
		manifest.Hold(live.GetAnnotations()).HoldUntil == j.Before.HoldUntil &&
		ownership.OwnerOf(live, nil) == j.Before.Owner
}
