package kubernetes

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/internal/parallel"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/diff"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// liveItem is a live object of which memory has no current state, with the wanted item
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

// compareDesired compares a wanted object with memory.
func (o *observation) compareDesired(item state.Item, live *unstructured.Unstructured) {
	rec, known := o.target.store.Get(item.Key)
	if known && !o.target.diff.Blind(item.Key) && live.GetDeletionTimestamp() == nil && rec.Version == item.Version && rec.Desired == o.target.desired.Hash(item) {
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
