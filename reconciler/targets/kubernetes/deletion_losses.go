package kubernetes

import (
	"context"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
	"github.com/poolwright/poolwright/reconciler/targets/internal/parallel"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/diff"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/losses"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
)

// countLosses completes the things to delete with what would die with them. Namespaces and node
// classes come last: what is in one, or uses the other, and goes by itself is not lost
// with it, unless its own deletion is held until it is confirmed. Right before a deletion is sent, its
// losses are counted again.
func (o *observation) countLosses(ctx context.Context) {
	removed := map[state.Key]map[string]any{}
	for _, s := range o.orphans {
		removed[s.Key] = s.live.Object
	}
	coverage := losses.NewCoverage(o.desired.Items(), removed)
	o.target.coverage.Store(&coverage)
	deleted := map[state.Key]bool{}
	var last, others []liveItem
	for _, s := range o.orphans {
		deleted[s.Key] = true
		if losses.IsNamespace(s.Key) || s.Key.Kind == karpenter.NodeClass {
			last = append(last, s)
		} else {
			others = append(others, s)
		}
	}
	count := losses.Deletion{Counter: o.target.losses, DeletedAnyway: func(k state.Key, live metav1.Object) bool {
		return deleted[k] && live.GetLabels()[v1alpha1.SyncLabel] == o.target.owner.Label
	}}
	count.Plugins = count.LostGPUs(ctx, &coverage, "")
	for item := range o.desired.All() {
		if losses.IsCluster(item.Key) && count.Created == nil {
			count.Created = &unstructured.Unstructured{Object: item.Object}
		}
	}
	left := maps.Clone(deleted)
	parallel.Each(requests, others, func(s liveItem) {
		if count.StillMounted(ctx, s.live, deleted) {
			return
		}
		if item, ok := o.addDeletion(ctx, s, count); ok && item.Impact != "" {
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(left, item.Key)
		}
	})
	count.DeletedAnyway = func(k state.Key, live metav1.Object) bool {
		return left[k] && live.GetLabels()[v1alpha1.SyncLabel] == o.target.owner.Label
	}
	parallel.Each(requests, last, func(s liveItem) { o.addDeletion(ctx, s, count) })
}

// addDeletion adds an object that is not desired any more to what was observed.
func (o *observation) addDeletion(ctx context.Context, s liveItem, count losses.Deletion) (state.Item, bool) {
	item := diff.Found(s.Item, s.live, manifest.Strip(s.live.Object), s.Applied)
	if kinds.IsSecret(item.Key) {
		if err := o.target.mask.Load(ctx); err != nil {
			o.fail(err)
			return item, false
		}
		item.Object = o.target.mask.Secret(item.Object)
	}
	item.DeletionImpact = count.DeletionImpact(ctx, item.Key, s.live)
	rec, _ := o.target.store.Get(item.Key)
	if rec.Fingerprint.UID == item.Live.UID {
		item.Allowed = rec.Allowed
	}
	if rec.FromLabel && item.Impact == "" {
		item.Impact = "it is known only by its label, because no inventory names it: that was deleted, or the Sync is new"
	}
	o.add(item)
	return item, true
}

// WithDeletionImpact completes observed things with what goes with their deletion, for who deletes
// what is desired otherwise, such as a whole installation. Observe does so for what is not
// desired. An error means that a thing could not be read.
func (w *Target) WithDeletionImpact(ctx context.Context, observed state.Set) (state.Set, error) {
	items := observed.Items()
	for i, item := range items {
		if !w.losses.Counts(item.Key, item.Object) {
			continue
		}
		ref, _, served, err := w.ref(ctx, item.Key, item.Version)
		if err != nil {
			return state.Set{}, err
		}
		if !served {
			continue
		}
		live, err := w.api.Get(ctx, ref)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return state.Set{}, api.Refused("reading "+item.Key.String(), err, false)
		default:
			items[i].DeletionImpact = losses.Deletion{Counter: w.losses, DeletedAnyway: losses.Terminating}.DeletionImpact(ctx, item.Key, live)
		}
	}
	return state.NewSet(items...), nil
}
