package kubernetes

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/diff"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
)

// prepare moves ownership before the apply, and returns the live object, nil where nothing of it is
// needed: kubectl's client-side claims become ours, so that what Git does not declare goes; and what is
// ignored is given up, since an apply without it would remove it.
func (j *objectApply) prepare(ctx context.Context, m diff.Owners) (*unstructured.Unstructured, error) {
	ignores := len(j.desired.Ignored(j.Change.Key)) > 0
	if !m.ClientSide && !ignores {
		return nil, nil
	}
	live, err := j.api.Get(ctx, j.ref)
	if err != nil {
		return nil, api.ResponseError(err, j.secret)
	}
	if string(live.GetUID()) != j.Before.Live.UID || j.hasGuards() && live.GetResourceVersion() != j.Before.Live.ResourceVersion {
		return nil, state.Fail(state.Retry, "Conflict", targets.ErrChanged)
	}
	if m.ClientSide && j.Before.Owner == (owner.Reference{}) {
		patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(manifest.ClientSideManager), v1alpha1.FieldManager)
		if err != nil {
			return nil, err
		}
		if patch != nil {
			if live, err = j.api.Patch(ctx, j.ref, patch); err != nil {
				return nil, api.Refused("taking over from kubectl", err, j.secret)
			}
		}
	}
	return j.release(ctx, live)
}
