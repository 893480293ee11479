package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/internal/parallel"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/diff"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// Observe implements target.Target. It costs one paged List per kind, and
// nothing more for objects that are as we left them; compare handles the others, and homeless those
// that are missing. With nothing wanted everything of ours is given up, and its inventory perhaps
// with it: then it is an error that something of ours cannot be observed.
func (w *Target) Observe(ctx context.Context, wanted state.Set) (state.Set, error) {
	complete, err := w.store.Load(ctx)
	if err != nil {
		return state.Set{}, err
	}
	w.store.Withdraw(func(k state.Key) bool { _, again := wanted.Get(k); return again })
	if err := w.mask.LoadFor(ctx, nil, w.store.Records()); err != nil {
		return state.Set{}, err
	}
	o := newObservation(w, wanted)
	o.rebuilds = !complete
	listed, err := o.listings(ctx, o.rebuilds)
	if err != nil {
		return state.Set{}, err
	}
	parallel.Each(requests, listed, func(k listing) { o.list(ctx, k) })
	o.seek(ctx, o.missing())
	o.compareUncertain(ctx)
	o.homeless(ctx)
	o.countLosses(ctx)
	w.drift.Refresh()
	return o.result(ctx)
}

// ObserveOnly reports on the wanted things alone and reads each by itself:
// what is not in wanted is left out, not taken for unwanted. What the drift
// watch brought within the last second is not read again.
func (w *Target) ObserveOnly(ctx context.Context, wanted state.Set) (state.Set, error) {
	o := newObservation(w, wanted)
	var all []inventory.Record
	for _, item := range wanted.Items() {
		if live := w.drift.Recent(item.Key); live != nil && live.GroupVersionKind() == kinds.GVK(item.Key, item.Version) {
			if kind, ok, err := w.kinds.Lookup(ctx, kinds.GVK(item.Key, item.Version)); ok && err == nil {
				o.visit(kind, live)
				continue
			}
		}
		all = append(all, inventory.Record{Key: item.Key, Version: item.Version})
	}
	o.seek(ctx, all)
	o.compareUncertain(ctx)
	return o.result(ctx)
}

// observation is one Observe at work.
type observation struct {
	target *Target
	wanted state.Set
	// rebuilds is true where the inventory is not complete: what is ours may be known
	// only by its label.
	rebuilds bool

	mu sync.Mutex
	// met holds every key whose presence or absence is known.
	met map[state.Key]bool
	// forbidden holds the kinds that we may not list.
	forbidden map[schema.GroupKind]error
	// unserved holds the kinds that are known and not served at this moment.
	unserved  map[schema.GroupVersionKind]bool
	uncertain []liveItem
	orphans   []liveItem
	items     []state.Item
	errs      []error
}

// liveItem is a live object of which memory has no current state, with the wanted item
// where there is one.
type liveItem struct {
	item state.Item
	live *unstructured.Unstructured
}

func newObservation(w *Target, wanted state.Set) *observation {
	return &observation{
		target: w, wanted: wanted, met: map[state.Key]bool{},
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

// unread are the wanted objects that are not read from the cluster.
func (o *observation) unread() []state.Item {
	var out []state.Item
	for _, item := range o.wanted.Items() {
		if !o.target.diff.Managed(item.Key) {
			out = append(out, state.Item{Key: item.Key, Version: item.Version, Wave: item.Wave, Findings: state.Findings{Unasked: true}})
		}
	}
	return out
}

// listing is a kind to list. Optional ones are only searched for orphans.
type listing struct {
	kinds.Kind
	optional bool
}

// listings collects what must be listed: the kinds of what is wanted and of what
// is recorded, and all there are when the inventory is not complete.
func (o *observation) listings(ctx context.Context, all bool) ([]listing, error) {
	seen := map[schema.GroupVersionKind]bool{}
	covered := map[schema.GroupKind]bool{}
	var out []listing
	for _, item := range o.wanted.Items() {
		gvk := kinds.GVK(item.Key, item.Version)
		if seen[gvk] || !o.target.diff.Managed(item.Key) {
			continue
		}
		seen[gvk], covered[gvk.GroupKind()] = true, true
		kind, ok, err := o.target.kinds.Lookup(ctx, gvk)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, listing{Kind: kind})
		}
	}
	for _, r := range o.target.store.Records() {
		gvk := kinds.GVK(r.Key, r.Version)
		if covered[gvk.GroupKind()] || seen[gvk] {
			continue
		}
		seen[gvk] = true
		kind, ok, err := o.target.kinds.Lookup(ctx, gvk)
		if err != nil {
			return nil, err
		}
		if ok {
			covered[gvk.GroupKind()] = true
			out = append(out, listing{Kind: kind})
		}
	}
	if !all || o.target.cfg.OnlyManaged {
		return out, nil
	}
	others, err := o.otherKinds(ctx, covered)
	return append(out, others...), err
}

// otherKinds are all that the API server serves but for those.
func (o *observation) otherKinds(ctx context.Context, covered map[schema.GroupKind]bool) ([]listing, error) {
	// A process that has wanted nothing yet has no kinds, and one that has run for long
	// may not have the newest.
	if err := o.target.kinds.Refresh(ctx); err != nil {
		return nil, err
	}
	var out []listing
	for _, kind := range o.target.kinds.All() {
		if !covered[kind.GroupKind()] && kind.Kind != "Event" {
			out = append(out, listing{Kind: kind, optional: true})
		}
	}
	return out, nil
}

// list visits the objects of a kind that carry our label.
func (o *observation) list(ctx context.Context, k listing) {
	_, err := o.target.api.List(ctx, api.Ref{Resource: k.GVR()}, o.target.selector(), func(live *unstructured.Unstructured) {
		o.visit(k.Kind, &unstructured.Unstructured{Object: live.Object})
	})
	switch {
	case err == nil:
	case apierrors.IsNotFound(err):
		o.notServed(ctx, k, err)
	case k.optional && o.givesUp() && !never(err):
		o.fail(api.Refused("listing what is ours among the "+k.GVR().GroupResource().String(), err, false))
	case apierrors.IsForbidden(err) || k.optional && ctx.Err() == nil:
		// What may not be observed is neither absent nor unwanted. The wanted
		// ones are tried, so that the refusal is reported for each.
		o.mu.Lock()
		o.forbidden[k.GroupKind()] = api.Refused("listing "+k.Resource, err, false)
		o.mu.Unlock()
	default:
		o.fail(api.Refused("listing "+k.GVR().GroupResource().String(), err, false))
	}
}

// visit takes note of one live object.
func (o *observation) visit(kind kinds.Kind, live *unstructured.Unstructured) {
	k := kind.Key(live)
	item, wanted := o.wanted.Get(k)
	if wanted && item.Version != kind.Version {
		return // It is listed in its own version too.
	}
	o.mu.Lock()
	twice := o.met[k]
	o.met[k] = true
	o.mu.Unlock()
	switch {
	case twice, !o.target.diff.Managed(k):
	case !wanted:
		o.orphan(k, kind, live)
	default:
		o.meet(item, live)
	}
}

// meet compares a wanted object with memory.
func (o *observation) meet(item state.Item, live *unstructured.Unstructured) {
	rec, known := o.target.store.Get(item.Key)
	if known && !o.target.diff.Blind(item.Key) && live.GetDeletionTimestamp() == nil && rec.Version == item.Version && rec.Desired == state.Hash(item.Object) {
		print := fields.FingerprintOf(live.Object, o.target.diff.Options(item.Key))
		if rec.Fingerprint.Same(print) {
			rec.Fingerprint = print
			o.target.store.Put(rec)
			o.add(diff.Found(item, live, item.Object, rec.Desired))
			return
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uncertain = append(o.uncertain, liveItem{item: item, live: live})
}

func (o *observation) add(items ...state.Item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.items = append(o.items, items...)
}

// missing lists what carries no label of ours and may exist all the same.
func (o *observation) missing() []inventory.Record {
	var out []inventory.Record
	for _, item := range o.wanted.Items() {
		if !o.met[item.Key] && o.target.diff.Managed(item.Key) {
			out = append(out, inventory.Record{Key: item.Key, Version: item.Version})
		}
	}
	for _, r := range o.target.store.Records() {
		if _, wanted := o.wanted.Get(r.Key); !wanted && !o.met[r.Key] && o.target.diff.Managed(r.Key) {
			out = append(out, r)
		}
	}
	return out
}

// few is up to how many objects of one kind and namespace are read one by one rather
// than found in a list of names.
const few = 8

// seek reads objects by name.
func (o *observation) seek(ctx context.Context, records []inventory.Record) {
	type place struct {
		gvk       schema.GroupVersionKind
		namespace string
	}
	groups := map[place][]inventory.Record{}
	for _, r := range records {
		p := place{kinds.GVK(r.Key, r.Version), r.Key.Namespace}
		groups[p] = append(groups[p], r)
	}
	var single []seekOne
	var places []place
	for p := range groups {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int { return strings.Compare(a.gvk.String()+a.namespace, b.gvk.String()+b.namespace) })
	for _, p := range places {
		kind, ok, err := o.target.kinds.Lookup(ctx, p.gvk)
		if err != nil {
			o.fail(err)
			return
		}
		if err := o.forbidden[p.gvk.GroupKind()]; err != nil {
			o.unseen(groups[p], err)
			continue
		}
		if !ok || o.unserved[kind.GroupVersionKind] {
			o.unknown(ctx, p.gvk, kind, groups[p])
			continue
		}
		exists := o.names(ctx, kind, p.namespace, len(groups[p]))
		for _, r := range groups[p] {
			if exists == nil || exists[r.Key.Name] {
				single = append(single, seekOne{kind, r})
			} else {
				o.absent(r.Key)
			}
		}
	}
	parallel.Each(requests, single, func(s seekOne) { o.get(ctx, s) })
}

type seekOne struct {
	kind kinds.Kind
	rec  inventory.Record
}

// names lists what exists where many are sought; nil means "read each".
func (o *observation) names(ctx context.Context, kind kinds.Kind, namespace string, sought int) map[string]bool {
	if sought <= few {
		return nil
	}
	names := map[string]bool{}
	err := o.target.api.Names(ctx, api.Ref{Resource: kind.GVR(), Namespace: namespace}, "", "", func(m *metav1.PartialObjectMetadata) {
		names[m.Name] = true
	})
	if err != nil {
		return nil
	}
	return names
}

// compareUncertain compares the uncertain ones with the API server's help.
func (o *observation) compareUncertain(ctx context.Context) {
	parallel.Each(requests, o.uncertain, func(d liveItem) {
		found, err := o.target.diff.Diff(ctx, d.item, d.live)
		if err != nil {
			o.fail(err)
			return
		}
		o.add(found)
	})
}
