package kubernetes

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
)

// remove deletes the observed incarnation. Where more than itself may go with it, it
// counts right before each request how much that is; and where its version has moved (a
// status update, a heartbeat), whether it is still ours.
func (j *objectApply) remove(ctx context.Context) error {
	id := j.Before.Live
	if id.UID == "" {
		return errors.New("it was never observed")
	}
	version := id.ResourceVersion
	recheck := j.losses.Counts(j.Change.Key, j.Before.Object)
	for attempt := 0; ; attempt++ {
		if recheck {
			live, err := j.api.Get(ctx, j.ref)
			if apierrors.IsNotFound(err) {
				j.store.Remove(j.Change.Key)
				return nil
			}
			if err != nil {
				return api.ResponseError(err, j.secret)
			}
			if err := j.checkDeletion(ctx, live); err != nil {
				return err
			}
			version = live.GetResourceVersion()
		}
		err := j.api.Delete(ctx, j.ref, types.UID(id.UID), version)
		switch {
		case err == nil:
			if !deletedAsynchronously(j.Before) {
				j.store.Remove(j.Change.Key)
			}
			return nil
		case apierrors.IsNotFound(err):
			j.store.Remove(j.Change.Key)
			return nil
		case !apierrors.IsConflict(err) || attempt == 5:
			return api.ResponseError(err, j.secret)
		}
		recheck = true
	}
}

// deletedAsynchronously reports whether an object stays a while after its deletion was
// accepted; it is recorded until it is observed to be gone.
func deletedAsynchronously(item *state.Item) bool {
	metadata, _ := item.Object["metadata"].(map[string]any)
	finalizers, _ := metadata["finalizers"].([]any)
	return len(finalizers) > 0 || item.Key.Kind == "Pod" || item.Key.Kind == "Namespace"
}
