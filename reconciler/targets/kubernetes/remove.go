package kubernetes

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/losses"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/ownership"
)

// remove deletes the observed incarnation. Where more than itself may go with it, it
// counts right before each request how much that is; and where its version has moved (a
// status update, a heartbeat), whether it is still ours.
func (j *job) remove(ctx context.Context) error {
	id := j.change.Before.Live
	if id.UID == "" {
		return fmt.Errorf("%s: it was never observed", j.doing)
	}
	version := id.ResourceVersion
	look := j.losses.Counts(j.change.Key, j.change.Before.Object)
	for attempt := 0; ; attempt++ {
		if look {
			live, err := j.api.Get(ctx, j.ref)
			if apierrors.IsNotFound(err) {
				j.store.Remove(j.change.Key)
				return nil
			}
			if err != nil {
				return api.Refused(j.doing, err, j.secret)
			}
			if err := j.checkDeletion(ctx, live); err != nil {
				return err
			}
			version = live.GetResourceVersion()
		}
		err := j.api.Delete(ctx, j.ref, types.UID(id.UID), version)
		switch {
		case err == nil:
			if !lingers(j.change.Before) {
				j.store.Remove(j.change.Key)
			}
			return nil
		case apierrors.IsNotFound(err):
			j.store.Remove(j.change.Key)
			return nil
		case !apierrors.IsConflict(err) || attempt == 5:
			return api.Refused(j.doing, err, j.secret)
		}
		look = true
	}
}

// checkDeletion refuses what is not ours to delete any more, or takes more along than was planned.
// It reads what is live, as no cache can be newer than the request that follows.
func (j *job) checkDeletion(ctx context.Context, live *unstructured.Unstructured) error {
	if !j.still(live) {
		return state.Fail(state.Retry, "Changed", fmt.Errorf("%s: %w", j.doing, targets.ErrChanged))
	}
	k := j.change.Key
	if !j.losses.Counts(k, live.Object) {
		return nil
	}
	now := losses.Deletion{Counter: j.losses, DeletedAnyway: losses.Terminating}
	if kinds.IsDevicePlugin(k) || kinds.Profile(live.Object) != "" {
		now.Plugins = now.LostGPUs(ctx, j.coverage.Load(), kinds.Profile(live.Object))
	}
	lost := now.Removal(ctx, k, live)
	if err := targets.MayDelete(j.doing, j.change, lost); err != nil {
		return err
	}
	return j.awaitEngine(ctx, lost)
}

// awaitEngine refuses a change with which the engine stops as long as it is at work on deletions:
// without it, instances would run on that nobody terminates, and finalizers stay. Who confirmed a
// loss that could not be counted has not confirmed that.
func (j *job) awaitEngine(ctx context.Context, lost loss.Removal) error {
	if !lost.AfterNodes || j.cfg.StopsEngine {
		return nil
	}
	deleting, err := j.store.Deleting(ctx)
	if err != nil {
		return err
	}
	return karpenter.AwaitEngine(ctx, j.api, j.doing, deleting)
}

// still reports whether a live object that has moved since its deletion was
// planned is still ours to delete. Controllers move objects all the time; what
// counts is whether somebody took it from us or marked it to be kept.
func (j *job) still(live *unstructured.Unstructured) bool {
	label := live.GetLabels()[v1alpha1.SyncLabel]
	return string(live.GetUID()) == j.change.Before.Live.UID &&
		(label == j.owner.Label || label == "") &&
		live.GetAnnotations()[v1alpha1.PruneAnnotation] != "disabled" &&
		ownership.Of(live, nil) == j.change.Before.Owner
}

// lingers reports whether an object stays a while after its deletion was
// accepted; it is recorded until it is observed to be gone.
func lingers(item *state.Item) bool {
	metadata, _ := item.Object["metadata"].(map[string]any)
	finalizers, _ := metadata["finalizers"].([]any)
	return len(finalizers) > 0 || item.Key.Kind == "Pod" || item.Key.Kind == "Namespace"
}
