package kubernetes

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/parallel"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// Observe implements target.Target. It costs one paged List per kind, and
// nothing more for objects that are as we left them; compare handles the others, and warnMissingNamespaces those
// that are missing. With nothing desired everything of ours is given up, and its inventory perhaps
// with it: then it is an error that something of ours cannot be observed.
func (w *Target) Observe(ctx context.Context, desired state.Set) (state.Set, error) {
	complete, err := w.store.Load(ctx)
	if err != nil {
		return state.Set{}, err
	}
	w.store.RevokeApprovals(func(k state.Key) bool { _, again := desired.Get(k); return again })
	if err := w.mask.LoadFor(ctx, nil, w.store.Records()); err != nil {
		return state.Set{}, err
	}
	w.health.Require(desired.Items())
	o := newObservation(w, desired)
	o.rebuilds = !complete
	listed, err := o.listings(ctx, o.rebuilds)
	if err != nil {
		return state.Set{}, err
	}
	parallel.Each(requests, listed, func(k listing) { o.list(ctx, k) })
	o.getByName(ctx, o.missing())
	o.compareUncertain(ctx)
	o.warnMissingNamespaces(ctx)
	o.warnUnusedRules()
	o.countLosses(ctx)
	w.drift.Refresh()
	return o.result(ctx)
}

// ObserveOnly reports on the desired things alone and reads each by itself:
// what is not in desired is left out, not taken for undesired. What the drift
// watch brought within the last second is not read again.
func (w *Target) ObserveOnly(ctx context.Context, desired state.Set) (state.Set, error) {
	o := newObservation(w, desired)
	var all []state.Item
	for item := range desired.All() {
		if live := w.drift.Recent(item.Key); live != nil && live.GroupVersionKind() == kinds.GVK(item.Key, item.Version) {
			if kind, ok, err := w.kinds.Lookup(ctx, kinds.GVK(item.Key, item.Version)); ok && err == nil {
				o.compareLive(kind, live)
				continue
			}
		}
		all = append(all, item)
	}
	o.getByName(ctx, all)
	o.compareUncertain(ctx)
	return o.result(ctx)
}

// observation is one Observe at work.
type observation struct {
	target  *Target
	desired state.Set
	// rebuilds is true where the inventory is not complete: what is ours may be known
	// only by its label.
	rebuilds bool

	mu sync.Mutex
	// resolved holds every key whose presence or absence is known.
	resolved map[state.Key]bool
	// forbidden holds the kinds that we may not list.
	forbidden map[schema.GroupKind]error
	// unserved holds the kinds that are known and not served at this moment.
	unserved  map[schema.GroupVersionKind]bool
	uncertain []liveItem
	orphans   []liveItem
	items     []state.Item
	errs      []error
}

func newObservation(w *Target, desired state.Set) *observation {
	return &observation{
		target: w, desired: desired, resolved: map[state.Key]bool{},
		forbidden: map[schema.GroupKind]error{}, unserved: map[schema.GroupVersionKind]bool{},
	}
}

func (o *observation) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errs = append(o.errs, err)
}

func (o *observation) result(ctx context.Context) (state.Set, error) {
	if err := ctx.Err(); err != nil {
		return state.Set{}, fmt.Errorf("observing the cluster: %w", err)
	}
	if len(o.errs) > 0 {
		// One is enough; they tend to be the same.
		return state.Set{}, fmt.Errorf("observing the cluster: %w", o.errs[0])
	}
	// What was found goes before what was not read.
	return state.NewSet(append(o.unread(), o.items...)...), nil
}

// unread are the desired objects that are not read from the cluster.
func (o *observation) unread() []state.Item {
	var out []state.Item
	for item := range o.desired.All() {
		if !o.target.diff.Managed(item.Key) {
			out = append(out, state.Item{Key: item.Key, Version: item.Version, Wave: item.Wave, Observation: state.Observation{Hidden: true}})
		}
	}
	return out
}

func (o *observation) add(items ...state.Item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.items = append(o.items, items...)
}
