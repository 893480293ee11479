package kubernetes

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
)

// lostInstallation is what goes with a part of Poolwright's own installation. A Sync
// may take along what it applied.
func (w *World) lostInstallation(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.Removal, error) {
	out := loss.Removal{Grave: "it is part of Poolwright's own installation"}
	policy, _, _ := unstructured.NestedString(live.Object, "spec", "deletionPolicy")
	if k.Group != v1alpha1.GroupVersion.Group || k.Kind != "Sync" || policy != string(v1alpha1.DeletionPrune) {
		return out, nil
	}
	applied := 0
	prefix := inventory.Short(k.Name, 200) + "-inventory"
	for _, place := range []inventory.Place{
		{Target: Name, Prefix: prefix, Value: LabelValue(k.Name)},
		{Target: "aws", Prefix: prefix + "-aws", Value: inventory.Short(k.Name, 63)},
	} {
		place.Namespace, place.ReadOnly = w.cfg.Namespace, true
		store := inventory.NewStore(w.api, place)
		if _, err := store.Load(ctx); err != nil {
			return loss.Removal{}, err
		}
		applied += len(store.Records())
	}
	out.Grave += fmt.Sprintf(", and its deletionPolicy Prune deletes what it applied: %s", count(applied, "object"))
	out.Losses = loss.Counts{"Object": 1 + applied}
	return out, nil
}
