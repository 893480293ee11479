package dependency

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// queue is what reconciliations are requested by.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Handler requests the reconciliation of the Syncs for whose dependencies a change of another Sync
// makes a difference.
func (c Checker) Handler() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { c.enqueue(ctx, nil, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { c.enqueue(ctx, e.ObjectOld, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { c.enqueue(ctx, e.Object, nil, q) },
	}
}

func (c Checker) enqueue(ctx context.Context, before, after client.Object, q queue) {
	was, _ := before.(*v1alpha1.Sync)
	is, _ := after.(*v1alpha1.Sync)
	changed := is
	if changed == nil {
		changed = was
	}
	if changed == nil {
		return
	}
	all, err := c.read(ctx, changed.Namespace)
	if err != nil {
		return // A cache that has begun fails no list.
	}
	for _, name := range all.concerned(ctx, changed.Name, was, is) {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: changed.Namespace, Name: name}})
	}
}

// concerned names the other Syncs for whose dependencies it makes a difference that the named one
// changed, sorted. A Sync that was or is nil does not exist.
func (s syncs) concerned(ctx context.Context, name string, was, is *v1alpha1.Sync) []string {
	with := func(version *v1alpha1.Sync) syncs {
		out := maps.Clone(s)
		if out[name] = version; version == nil {
			delete(out, name)
		}
		return out
	}
	before, after := with(was), with(is)
	// Where several Syncs change together, no change alone need make or end a cycle.
	edges := was != nil && is != nil && !slices.Equal(was.Spec.DependsOn, is.Spec.DependsOn)
	var out []string
	for other, sync := range s {
		if other == name || len(sync.Spec.DependsOn) == 0 {
			continue
		}
		if edges || before.check(ctx, sync).fingerprint() != after.check(ctx, sync).fingerprint() {
			out = append(out, other)
		}
	}
	slices.Sort(out)
	return out
}
