package cluster

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/state"
)

// This file keeps the values of Secrets from whoever proposes a revision. Filled in, or
// held against live ones, they would answer: "does it match this pattern", "is it this".

// StartReview starts another comparison of a World for a review: what it is asked for next is
// the revision that live Secrets count as holding. Any other World takes no notice.
func (w *World) StartReview() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.presumed = nil
}

// presume keeps the Secrets, masked, of what is wanted first.
func (w *World) presume(items []state.Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.cfg.Review || w.presumed != nil {
		return
	}
	w.presumed = map[state.Key]map[string]any{}
	for _, item := range items {
		if isSecret(item.Key) {
			w.presumed[item.Key] = item.Object
		}
	}
}

// blind reports whether the values of an object are not to be looked at.
func (w *World) blind(k state.Key) bool { return w.cfg.Review && isSecret(k) }

// veiled is a live Secret with masked values: in a review with those that it counts as
// holding, of which the live ones tell nothing.
func (w *World) veiled(k state.Key, live *unstructured.Unstructured) map[string]any {
	bare := strip(live.Object)
	if !w.cfg.Review {
		return w.mask.secret(bare)
	}
	w.mu.Lock()
	base := w.presumed[k]
	w.mu.Unlock()
	unlike := "masked:" + w.mask.hash([]any{"as live"})
	veil := func(in, from map[string]any, field string) {
		values, ok := in[field].(map[string]any)
		if !ok {
			return
		}
		known, _ := from[field].(map[string]any)
		values = maps.Clone(values)
		for name := range values {
			values[name] = unlike
			if v, declared := known[name]; declared {
				values[name] = v
			}
		}
		in[field] = values
	}
	veil(bare, base, "data")
	metadata, _ := bare["metadata"].(map[string]any)
	from, _ := base["metadata"].(map[string]any)
	veil(metadata, from, "annotations")
	return bare
}
