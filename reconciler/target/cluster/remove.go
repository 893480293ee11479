package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/target"
	"github.com/poolwright/poolwright/reconciler/target/internal/api"
)

// remove deletes the observed incarnation. Where its version has moved (a
// status update, a heartbeat), it looks again whether it is still ours.
func (j *job) remove(ctx context.Context) error {
	id := j.change.Before.Live
	if id.UID == "" {
		return fmt.Errorf("%s: it was never observed", j.doing)
	}
	version := id.ResourceVersion
	for attempt := 0; ; attempt++ {
		err := j.api.Delete(ctx, j.ref, types.UID(id.UID), version)
		switch {
		case err == nil:
			if !lingers(j.change.Before) {
				j.store.Forget(j.change.Key)
			}
			return nil
		case apierrors.IsNotFound(err):
			j.store.Forget(j.change.Key)
			return nil
		case !apierrors.IsConflict(err) || attempt == 5:
			return api.Refused(j.doing, err, j.secret)
		}
		live, err := j.api.Get(ctx, j.ref)
		switch {
		case apierrors.IsNotFound(err):
			j.store.Forget(j.change.Key)
			return nil
		case err != nil:
			return api.Refused(j.doing, err, j.secret)
		case !j.still(live):
			return state.Fail(state.Retry, "Changed", fmt.Errorf("%s: %w", j.doing, target.ErrChanged))
		}
		version = live.GetResourceVersion()
	}
}

// still reports whether a live object that has moved since its deletion was
// planned is still ours to delete. Controllers move objects all the time; what
// counts is whether somebody took it from us or asked to keep it.
func (j *job) still(live *unstructured.Unstructured) bool {
	label := live.GetLabels()[v1alpha1.SyncLabel]
	return string(live.GetUID()) == j.change.Before.Live.UID &&
		(label == j.label || label == "") &&
		live.GetAnnotations()[v1alpha1.PruneAnnotation] != "disabled" &&
		OwnerOf(live, nil) == j.change.Before.Owner
}

// lingers reports whether an object stays a while after its deletion was
// accepted; it is recorded until it is seen to be gone.
func lingers(item *state.Item) bool {
	metadata, _ := item.Object["metadata"].(map[string]any)
	finalizers, _ := metadata["finalizers"].([]any)
	return len(finalizers) > 0 || item.Key.Kind == "Pod" || item.Key.Kind == "Namespace"
}
