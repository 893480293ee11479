package kubernetes

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// This file keeps from whoever proposes a revision what a cluster would tell them.
//
// The values of Secrets, filled in or held against live ones, would answer: "does it match
// this pattern", "is it this".
//
// Of who is OnlyManaged, an object that is not in the inventory is not looked for: that it
// exists would be an answer, too. Nor is what is proposed sent to the API server: a dry run
// calls admission webhooks with all our rights, and what comes back (a quota that is used
// up, a port that is taken, a policy about another object, or no refusal) reports of what the
// Sync does not manage. An object that the step changes is compared with what it starts
// from, which the apply sends as well.

// review is what one comparison for a review keeps.
type review struct {
	// base is what it starts from, as it was wanted.
	base map[state.Key]state.Item
	// dryRuns counts those of this one, results are what came of the last ones.
	dryRuns int
	results map[state.Key]dryRunResult
}

// managed reports whether an object may be observed: any, or those that the Sync has
// applied. A record without a hash is an intent, maybe of an object that another made.
func (w *Target) managed(k state.Key) bool {
	if !w.cfg.OnlyManaged {
		return true
	}
	rec, known := w.store.Get(k)
	return known && rec.Desired != ""
}

// compareBase compares a live object with what a review starts from. What only the
// proposal has, although the inventory knows it, is compared by clientDryRun.
func (w *Target) compareBase(ctx context.Context, item state.Item, live *unstructured.Unstructured) (comparedObject, error) {
	w.mu.Lock()
	start, there := w.review.base[item.Key]
	w.mu.Unlock()
	if !there || start.Version != item.Version {
		return comparedObject{object: clientDryRun(item, strip(live.Object), fields.Applied(live.Object, v1alpha1.FieldManager))}, nil
	}
	rec, _ := w.store.Get(item.Key)
	if rec.Version == start.Version && rec.Desired == state.Hash(start.Object) && rec.Print.Same(fields.Take(live.Object, w.options(item.Key))) {
		return comparedObject{object: start.Object}, nil
	}
	key := dryRunKey{live.GetUID(), live.GetResourceVersion(), state.Hash(start.Object)}
	w.mu.Lock()
	known, answered := w.review.results[item.Key]
	w.mu.Unlock()
	if answered && known.key == key && w.cfg.Clock.Since(known.at) < dryRunResultTTL {
		return known.comparedObject, nil
	}
	compare := w.compareMerged
	if kinds.Whole(item.Key.Group, item.Key.Kind) {
		compare = w.compareWhole
	}
	c, err := compare(ctx, start, live)
	if err != nil {
		return comparedObject{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.review.results == nil || len(w.review.results) >= maxDryRunResults {
		w.review.results = map[state.Key]dryRunResult{}
	}
	w.review.results[item.Key] = dryRunResult{key: key, at: w.cfg.Clock.Now(), comparedObject: c}
	return c, nil
}

// The bounds of what reviews ask the API server. A result is asked for again when the
// live object or what a review starts from is another one, and once in a while, since
// admission webhooks change, too.
const (
	dryRunResultTTL  = 5 * time.Minute
	maxDryRunResults = 1000
	// maxDryRuns are those of one review.
	maxDryRuns = 300
)

// dryRunKey is what was compared: an incarnation and version, and the hash of what was
// declared.
type dryRunKey struct {
	uid     types.UID
	version string
	start   string
}

// dryRunResult is what a comparison with the API server's help has given.
type dryRunResult struct {
	comparedObject
	key dryRunKey
	at  time.Time
}

// countDryRun counts a dry run of a review, and refuses those above the limit.
func (w *Target) countDryRun() error {
	if !w.cfg.OnlyManaged {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.review.dryRuns++; w.review.dryRuns > maxDryRuns {
		return state.Failf(state.Wait, "TooMuchDrift",
			"more than %d objects of this Sync differ from what it applied: no pull request is planned before it has put them back; its status names them", maxDryRuns)
	}
	return nil
}

// StartReview starts another comparison of a Target for a review: what it is asked for next is
// the revision that live Secrets count as holding. Any other Target takes no notice.
func (w *Target) StartReview() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.review.base, w.review.dryRuns = nil, 0
}

// setBase keeps what is wanted first, with masked Secrets; of who may read the cluster
// the Secrets alone.
func (w *Target) setBase(items []state.Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.cfg.Review || w.review.base != nil {
		return
	}
	w.review.base = map[state.Key]state.Item{}
	for _, item := range items {
		if w.cfg.OnlyManaged || isSecret(item.Key) {
			w.review.base[item.Key] = item
		}
	}
}

// blind reports whether the values of an object are not to be read.
func (w *Target) blind(k state.Key) bool { return w.cfg.Review && isSecret(k) }

// maskedSecret is a live Secret with masked values: in a review with those that it counts as
// holding, of which the live ones tell nothing.
func (w *Target) maskedSecret(k state.Key, live *unstructured.Unstructured) map[string]any {
	bare := strip(live.Object)
	if !w.cfg.Review {
		return w.mask.secret(bare)
	}
	w.mu.Lock()
	base := w.review.base[k].Object
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
