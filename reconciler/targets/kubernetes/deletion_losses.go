package kubernetes

import (
	"context"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
	"github.com/poolwright/poolwright/reconciler/targets/internal/parallel"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/losses"
)

// This file counts what goes with an object: when deletions are planned, and again
// right before each is sent.

// countLosses completes the things to delete with what would die with them. Namespaces and node
// classes come last: what is in one, or uses the other, and goes by itself is not lost
// with it, unless its own deletion waits for a person.
func (o *observation) countLosses(ctx context.Context) {
	coverage := o.pluginCoverage()
	o.target.mu.Lock()
	o.target.coverage = coverage
	o.target.mu.Unlock()
	dying := map[state.Key]bool{}
	var last, others []liveItem
	for _, s := range o.orphans {
		dying[s.item.Key] = true
		if losses.IsNamespace(s.item.Key) || s.item.Key.Kind == karpenter.NodeClass {
			last = append(last, s)
		} else {
			others = append(others, s)
		}
	}
	count := o.target.counting(func(k state.Key, live metav1.Object) bool {
		return dying[k] && live.GetLabels()[v1alpha1.SyncLabel] == o.target.label
	})
	count.plugins = o.target.lostGPUs(ctx, coverage, "")
	for _, item := range o.wanted.Items() {
		if losses.IsCluster(item.Key) && count.Created == nil {
			count.Created = &unstructured.Unstructured{Object: item.Object}
		}
	}
	left := maps.Clone(dying)
	parallel.Each(requests, others, func(s liveItem) {
		if o.stillMounted(ctx, s.live, dying) {
			return
		}
		if item, ok := o.addDeletion(ctx, s, count); ok && item.Impact != "" {
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(left, item.Key)
		}
	})
	count.DeletedAnyway = func(k state.Key, live metav1.Object) bool {
		return left[k] && live.GetLabels()[v1alpha1.SyncLabel] == o.target.label
	}
	parallel.Each(requests, last, func(s liveItem) { o.addDeletion(ctx, s, count) })
}

// addDeletion adds an object that is not wanted any more to what was observed.
func (o *observation) addDeletion(ctx context.Context, s liveItem, count counting) (state.Item, bool) {
	item := observed(s.item, s.live, strip(s.live.Object), s.item.Applied)
	if isSecret(item.Key) {
		if err := o.target.mask.load(ctx); err != nil {
			o.fail(err)
			return item, false
		}
		item.Object = o.target.mask.secret(item.Object)
	}
	item.Removal = count.removal(ctx, item.Key, s.live)
	rec, _ := o.target.store.Get(item.Key)
	if rec.Print.UID == item.Live.UID {
		item.Allowed = rec.Allowed
	}
	if rec.Rebuilt && item.Impact == "" {
		item.Impact = "it is known only by its label, because no inventory names it: that was deleted, or the Sync is new"
	}
	o.add(item)
	return item, true
}

// Removals completes observed things with what goes with their deletion, for who deletes
// what is wanted otherwise, such as a whole installation. Observe does so for what is not
// wanted. An error means that a thing could not be read.
func (w *Target) Removals(ctx context.Context, observed state.Set) (state.Set, error) {
	items := observed.Items()
	for i, item := range items {
		if !w.counts(item.Key, item.Object) {
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
			items[i].Removal = w.counting(leaves).removal(ctx, item.Key, live)
		}
	}
	return state.NewSet(items...), nil
}

// counting counts what goes with objects, and with the device plugins among them.
type counting struct {
	losses.Deletion
	plugins pluginLosses
}

// counter counts what goes with updates, and with deletions as part of counting.
func (w *Target) counter() losses.Counter {
	return losses.Counter{API: w.api, Kinds: w.kinds, Namespace: w.cfg.Namespace}
}

// counting counts what goes with deletions beside those that are anyway.
func (w *Target) counting(deletedAnyway func(state.Key, metav1.Object) bool) counting {
	return counting{Deletion: losses.Deletion{Counter: w.counter(), DeletedAnyway: deletedAnyway}}
}

// counts reports whether it takes requests to find out what goes with an object.
func (w *Target) counts(k state.Key, object map[string]any) bool {
	return w.counter().Counts(k) || isDevicePlugin(k) || profileOf(object) != ""
}

// removal is what goes with an object; it is zero for ordinary objects.
func (c counting) removal(ctx context.Context, k state.Key, live *unstructured.Unstructured) loss.Removal {
	out := c.Removal(ctx, k, live)
	if out.Impact != "" {
		return out
	}
	after := out.AfterNodes
	out = c.plugins.removal(k, live.Object)
	out.AfterNodes = after
	return out
}
