package diff

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
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
)

// dryRunReview is what one comparison for a review keeps. What a revision proposes is not sent
// to the API server: a dry run calls admission webhooks with all our rights, and what comes
// back (a quota that is used up, a port that is taken, a policy about another object, or no
// refusal) would disclose to whoever proposes it what the Sync does not manage. An object that
// the step changes is compared with what it starts from, which the apply sends as well.
type dryRunReview struct {
	// base is what it starts from, as it was wanted.
	base map[state.Key]state.Item
	// dryRuns counts those of this one, results are what came of the last ones.
	dryRuns int
	results map[state.Key]dryRunResult
}

// Managed reports whether an object may be observed: any, or those that the Sync has
// applied, since that another one exists would be disclosed to whoever proposes a revision. A
// record without a hash is an intent, maybe of an object that another made.
func (d *Differ) Managed(k state.Key) bool {
	if !d.cfg.OnlyManaged {
		return true
	}
	rec, known := d.cfg.Store.Get(k)
	return known && rec.Desired != ""
}

// compareBase compares a live object with what a review starts from. What only the
// proposal has, although the inventory has it, is compared by clientDryRun.
func (d *Differ) compareBase(ctx context.Context, found *state.Item, item state.Item, live *unstructured.Unstructured) error {
	d.mu.Lock()
	start, there := d.review.base[item.Key]
	d.mu.Unlock()
	if !there || start.Version != item.Version {
		found.Object = clientDryRun(item, manifest.Strip(live.Object), fields.Applied(live.Object, v1alpha1.FieldManager))
		return nil
	}
	rec, _ := d.cfg.Store.Get(item.Key)
	if rec.Version == start.Version && rec.Desired == state.Hash(start.Object) && rec.Fingerprint.Same(fields.FingerprintOf(live.Object, d.Options(item.Key))) {
		found.Object = start.Object
		return nil
	}
	key := dryRunKey{live.GetUID(), live.GetResourceVersion(), state.Hash(start.Object)}
	d.mu.Lock()
	known, answered := d.review.results[item.Key]
	d.mu.Unlock()
	if answered && known.key == key && d.cfg.Clock.Since(known.at) < dryRunResultTTL {
		found.Object, found.Findings = known.object, known.findings
		return nil
	}
	compare := d.compareMerged
	if kinds.Whole(item.Key.Group, item.Key.Kind) {
		compare = d.compareWhole
	}
	if err := compare(ctx, found, start, live); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.review.results == nil || len(d.review.results) >= maxDryRunResults {
		d.review.results = map[state.Key]dryRunResult{}
	}
	d.review.results[item.Key] = dryRunResult{key: key, at: d.cfg.Clock.Now(), object: found.Object, findings: found.Findings}
	return nil
}

// The bounds of what reviews request of the API server. A result is requested again
// when the live object or what a review starts from is another one, and once in a
// while, since admission webhooks change, too.
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
	key      dryRunKey
	at       time.Time
	object   map[string]any
	findings state.Findings
}

// countDryRun counts a dry run of a review, and refuses those above the limit.
func (d *Differ) countDryRun() error {
	if !d.cfg.OnlyManaged {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.review.dryRuns++; d.review.dryRuns > maxDryRuns {
		return state.Failf(state.Wait, "TooMuchDrift",
			"more than %d objects of this Sync differ from what it applied: no pull request is planned before it has put them back; its status names them", maxDryRuns)
	}
	return nil
}

// StartReview starts another comparison for a review: the next SetBase has the revision that
// live Secrets count as holding. It changes nothing outside reviews.
func (d *Differ) StartReview() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.review.base, d.review.dryRuns = nil, 0
}

// SetBase keeps what is wanted first, with masked Secrets; of who may read the cluster
// the Secrets alone.
func (d *Differ) SetBase(items []state.Item) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.cfg.Review || d.review.base != nil {
		return
	}
	d.review.base = map[state.Key]state.Item{}
	for _, item := range items {
		if d.cfg.OnlyManaged || kinds.IsSecret(item.Key) {
			d.review.base[item.Key] = item
		}
	}
}

// Blind reports whether the values of an object are not to be read.
func (d *Differ) Blind(k state.Key) bool { return d.cfg.Review && kinds.IsSecret(k) }

// maskedSecret is a live Secret with masked values: in a review with those that it counts as
// holding, of which the live ones disclose nothing.
func (d *Differ) maskedSecret(k state.Key, live *unstructured.Unstructured) map[string]any {
	bare := manifest.Strip(live.Object)
	if !d.cfg.Review {
		return d.cfg.Mask.Secret(bare)
	}
	d.mu.Lock()
	base := d.review.base[k].Object
	d.mu.Unlock()
	unlike := "masked:" + d.cfg.Mask.Hash([]any{"as live"})
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
