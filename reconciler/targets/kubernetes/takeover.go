package kubernetes

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/diff"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
)

// prepare moves ownership before the apply: kubectl's client-side claims
// become ours, so that what Git does not declare goes; and replicas that an
// autoscaler is about to own are handed over, since giving them up would set
// them to one.
func (j *correction) prepare(ctx context.Context, m diff.Owners, scaled bool) error {
	if !m.ClientSide && !scaled {
		return nil
	}
	live, err := j.api.Get(ctx, j.ref)
	if err != nil {
		return api.ResponseError(err, j.secret)
	}
	if string(live.GetUID()) != j.Before.Live.UID {
		return state.Fail(state.Retry, "Changed", targets.ErrChanged)
	}
	if scaled {
		if err := j.handOver(ctx, live); err != nil {
			return err
		}
	}
	if !m.ClientSide || j.Before.Owner != (owner.Reference{}) {
		return nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(manifest.ClientSideManager), v1alpha1.FieldManager)
	if err != nil || patch == nil {
		return err
	}
	_, err = j.api.Patch(ctx, j.ref, patch)
	return api.Refused("taking over from kubectl", err, j.secret)
}

// scaleManager holds spec.replicas until the autoscaler writes it.
const scaleManager = "poolwright-autoscaled"

func (j *correction) handOver(ctx context.Context, live *unstructured.Unstructured) error {
	replicas, found, err := unstructured.NestedInt64(live.Object, "spec", "replicas")
	ours := fields.Claims(fields.Applied(live.Object, v1alpha1.FieldManager), "spec", "replicas")
	others := fields.Owners(live.Object, v1alpha1.FieldManager, "spec", "replicas")
	others = slices.DeleteFunc(others, func(m string) bool { return m == manifest.ClientSideManager })
	if !found || err != nil || len(others) > 0 || !ours && !j.diff.Owners(j.Change.Key).ClientSide {
		return nil
	}
	_, err = j.api.Apply(ctx, j.ref, map[string]any{
		"apiVersion": live.GetAPIVersion(), "kind": live.GetKind(),
		"metadata": map[string]any{"name": live.GetName(), "namespace": live.GetNamespace(), "uid": string(live.GetUID())},
		"spec":     map[string]any{"replicas": replicas},
	}, api.ApplyOptions{Manager: scaleManager, Force: true})
	return api.Refused("handing replicas to the autoscaler", err, false)
}
