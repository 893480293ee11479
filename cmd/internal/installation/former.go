package installation

import (
	"context"
	"fmt"
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/state"
)

const (
	// clusterReconciler is the name of the ClusterRole, and of its binding, for what Syncs apply.
	clusterReconciler = "poolwright-cluster-reconciler"
	// FormerClusterReconciler is the name that both had in earlier releases. They grant what they did until
	// somebody deletes them: an upgrade by kubectl deletes nothing.
	FormerClusterReconciler = "poolwright-loop"
)

// WithFormer adds to the objects of an installation those of names that only earlier releases gave. No inventory
// has them.
func WithFormer(items []state.Item) []state.Item {
	for _, item := range items {
		if item.Key.Group == rbacv1.GroupName && item.Key.Name == clusterReconciler {
			item.Key.Name = FormerClusterReconciler
			item.Object = maps.Clone(item.Object)
			item.Object["metadata"] = map[string]any{"name": FormerClusterReconciler}
			items = append(items, item)
		}
	}
	return items
}

// FormerObjects are the objects of earlier releases that there still are, as "ClusterRole NAME".
func FormerObjects(ctx context.Context, c client.Client) (found []string, err error) {
	for _, one := range []struct {
		kind   string
		object client.Object
	}{{"ClusterRoleBinding", &rbacv1.ClusterRoleBinding{}}, {"ClusterRole", &rbacv1.ClusterRole{}}} {
		err := c.Get(ctx, client.ObjectKey{Name: FormerClusterReconciler}, one.object)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", one.kind, FormerClusterReconciler, err)
		}
		if one.object.GetLabels()[PartOfLabel] == Deployment {
			found = append(found, one.kind+" "+FormerClusterReconciler)
		}
	}
	return found, nil
}
