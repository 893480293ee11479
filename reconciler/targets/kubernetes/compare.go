package kubernetes

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/internal/parallel"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/diff"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/ownership"
)

// liveItem is a live object of which memory has no current state, with the desired item
// where there is one.
type liveItem struct {
	state.Item
	live *unstructured.Unstructured
}

// compareLive takes note of one live object.
func (o *observation) compareLive(kind kinds.Kind, live *unstructured.Unstructured) {
	k := kind.Key(live)
	item, desired := o.desired.Get(k)
	if desired && item.Version != kind.Version {
		return // It is listed in its own version too.
	}
	o.mu.Lock()
	twice := o.resolved[k]
	o.resolved[k] = true
	o.mu.Unlock()
	switch {
	case twice, !o.target.diff.Managed(k):
	case !desired:
		o.orphan(k, kind, live)
	default:
		o.target.health.Applied(k, live)
		o.compareDesired(item, live)
	}
}

// compareDesired compares a desired object with memory.
func (o *observation) compareDesired(item state.Item, live *unstructured.Unstructured) {
	if rec, current := o.record(item, live); current {
		// The hashes of a fingerprint take most of a comparison, and of what nobody wrote none is
		// needed.
		same := rec.Fingerprint.Untouched(fields.Identify(live.Object))
		if !same {
			print := fields.FingerprintOf(live.Object, o.target.diff.Options(item.Key))
			if same = rec.Fingerprint.Same(print); same {
				rec.Fingerprint = print
				o.target.store.Put(rec)
			}
		}
		if same {
			found := diff.Found(item, live, item.Object, rec.Desired)
			found.Ignored = state.IgnoredValues(item.Ignore, item.Object, live.Object)
			found.Object = state.KeepDeclared(item.Object, found.Ignored)
			o.add(found)
			return
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uncertain = append(o.uncertain, liveItem{item, live})
}

// record is memory's of a desired object; false where the object was not applied as it is desired, or is
// being deleted.
func (o *observation) record(item state.Item, live metav1.Object) (inventory.Record, bool) {
	rec, known := o.target.store.Get(item.Key)
	return rec, known && !o.target.diff.Blind(item.Key) && live.GetDeletionTimestamp() == nil && rec.Version == item.Version && rec.Desired == o.target.desired.Hash(item)
}

// compareUncertain compares the uncertain ones with the API server's help.
func (o *observation) compareUncertain(ctx context.Context) {
	parallel.Each(requests, o.uncertain, func(d liveItem) {
		found, err := o.target.diff.Diff(ctx, d.Item, d.live)
		if err != nil {
			o.fail(err)
			return
		}
		o.add(found)
	})
}

// minMetadata is from how many objects of a kind on metadata is listed: of fewer the whole objects cost
// less than to read some of them again.
const minMetadata = 50

// listMetadata visits the objects of a kind that carry our label by their metadata alone, which the API
// server sends as protobuf at a fraction of the cost. It resolves those that nobody has written, and
// leaves the others, which are few, to be read by name. It returns false where these are many, or where
// the list failed: then all are listed with their content.
func (o *observation) listMetadata(ctx context.Context, kind kinds.Kind) bool {
	current, all := o.target.store.Current(kind.Group, kind.Kind, kind.Version)
	if all < minMetadata || all-current > maxGets {
		return false
	}
	rest := 0
	err := o.target.api.Names(ctx, api.Ref{Resource: kind.GVR()}, o.target.selector(), "", func(m *metav1.PartialObjectMetadata) {
		if rest <= maxGets && !o.addUntouched(kind, m) {
			rest++
		}
	})
	return err == nil && rest <= maxGets
}

// addUntouched adds a desired object that nobody has written since memory's record of it, and of which
// nothing but metadata is needed. It returns false for any other object.
func (o *observation) addUntouched(kind kinds.Kind, m *metav1.PartialObjectMetadata) bool {
	k := kind.Key(m)
	item, desired := o.desired.Get(k)
	if !desired || item.Version != kind.Version || len(item.Ignore) > 0 || !o.target.diff.Managed(k) || !o.target.health.Current(k, m.ResourceVersion) {
		return false
	}
	rec, current := o.record(item, m)
	if !current || !rec.Fingerprint.Untouched(fields.Fingerprint{UID: string(m.UID), ResourceVersion: m.ResourceVersion}) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.resolved[k] {
		return true
	}
	o.resolved[k] = true
	o.items = append(o.items, state.Item{
		Key: k, Version: item.Version, Object: item.Object, Wave: item.Wave, Applied: rec.Desired,
		Live:  state.Preconditions{UID: string(m.UID), ResourceVersion: m.ResourceVersion},
		Owner: ownership.OwnerByMetadata(kind.GroupVersionKind, m, item.Object),
	})
	return true
}
