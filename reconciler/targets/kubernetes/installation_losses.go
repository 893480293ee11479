package kubernetes

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
)

// lostInstallation is what goes with a part of Poolwright's own installation.
func (w *World) lostInstallation(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.Removal, error) {
	if k.Group == v1alpha1.GroupVersion.Group && k.Kind == "Sync" {
		return w.lostSync(ctx, k, live)
	}
	return loss.Removal{Impact: "it is part of Poolwright's own installation"}, nil
}

// lostSync is what goes with a Sync: what it follows, and by its deletionPolicy what it
// applied.
func (w *World) lostSync(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.Removal, error) {
	n, err := w.appliedBy(ctx, k.Name)
	if err != nil {
		return loss.Removal{}, err
	}
	follows, _, _ := unstructured.NestedString(live.Object, "spec", "source", "git", "url")
	if path, _, _ := unstructured.NestedString(live.Object, "spec", "path"); path != "" && path != "." {
		follows = path + " of " + follows
	}
	policy, _, _ := unstructured.NestedString(live.Object, "spec", "deletionPolicy")
	policy = cmp.Or(policy, string(v1alpha1.DeletionOrphan))
	out := loss.Removal{Impact: fmt.Sprintf("the cluster stops following %s, and deletionPolicy %s ", follows, policy)}
	if policy == string(v1alpha1.DeletionPrune) {
		out.Impact += fmt.Sprintf("deletes what it applied (%s)", count(n, "object"))
		out.Losses = loss.Counts{"Object": 1 + n}
	} else {
		out.Impact += fmt.Sprintf("leaves what it applied (%s) as it is", count(n, "object"))
	}
	return out, nil
}

// appliedBy counts what a Sync has applied, in the cluster and in AWS.
func (w *World) appliedBy(ctx context.Context, sync string) (int, error) {
	n := 0
	prefix := inventory.Short(sync, 200) + "-inventory"
	for _, place := range []inventory.Place{
		{Target: Name, Prefix: prefix, Value: LabelValue(sync)},
		{Target: "aws", Prefix: prefix + "-aws", Value: inventory.Short(sync, 63)},
	} {
		place.Namespace, place.ReadOnly = w.cfg.Namespace, true
		store := inventory.NewStore(w.api, place)
		if _, err := store.Load(ctx); err != nil {
			return 0, err
		}
		n += len(store.Records())
	}
	return n, nil
}
