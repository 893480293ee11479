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

// dryRunPreview is what one comparison for a preview keeps. What a revision proposes is not sent
// to the API server: a dry run calls admission webhooks with all our permissions, and what comes
// back (a quota that is used up, a port that is taken, a policy about another object, or no
// refusal) would disclose to whoever proposes it what the Sync does not manage. An object that
// the change sets is compared with what it starts from, which the apply sends as well.
type dryRunPreview struct {
	// base is what it starts from, as it was desired.
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

// compareBase compares a live object with what a preview starts from. What only the
// proposal has, although the inventory has it, is compared by clientDryRun.
func (d *Differ) compareBase(ctx context.Context, found *state.Item, item state.Item, live *unstructured.Unstructured) error {
	d.mu.Lock()
	start, there := d.preview.base[item.Key]
	d.mu.Unlock()
	item = d.keep(item, live)
	if !there || start.Version != item.Version {
		found.Object = clientDryRun(item, manifest.Strip(live.Object), fields.Applied(live.Object, v1alpha1.FieldManager))
		return nil
	}
	rec, _ := d.cfg.Store.Get(item.Key)
	if rec.Version == start.Version && rec.Desired == start.Hash() && rec.Fingerprint.Same(fields.FingerprintOf(live.Object, d.Options(item.Key))) {
		found.Object = d.keep(start, live).Object
		return nil
	}
	key := dryRunKey{live.GetUID(), live.GetResourceVersion(), state.Hash(start.Object)}
	d.mu.Lock()
	known, cached := d.preview.results[item.Key]
	d.mu.Unlock()
	if cached && known.key == key && d.cfg.Clock.Since(known.at) < dryRunResultTTL {
		found.Object, found.Observation = known.object, known.findings
		return nil
	}
	compare := d.compareMerged
	if kinds.OwnsWholeSpec(item.Key.Group, item.Key.Kind) {
		compare = d.compareWholeSpec
	}
	if err := compare(ctx, found, start, live); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.preview.results == nil || len(d.preview.results) >= maxDryRunResults {
		d.preview.results = map[state.Key]dryRunResult{}
	}
	d.preview.results[item.Key] = dryRunResult{key: key, at: d.cfg.Clock.Now(), object: found.Object, findings: found.Observation}
	return nil
}

// The bounds of what previews request of the API server. A result is requested again
// when the live object or what a preview starts from is another one, and once in a
// while, since admission webhooks change, too.
const (
	dryRunResultTTL  = 5 * time.Minute
	maxDryRunResults = 1000
	// maxDryRuns are those of one preview.
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
	findings state.Observation
}

// countDryRun counts a dry run of a preview, and refuses those above the limit.
func (d *Differ) countDryRun() error {
	if !d.cfg.OnlyManaged {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.preview.dryRuns++; d.preview.dryRuns > maxDryRuns {
		return state.Failf(state.Wait, "TooMuchDrift",
			"more than %d objects of this Sync differ from what it applied: no pull request is planned before it has put them back; its status names them", maxDryRuns)
	}
	return nil
}

// StartPreview starts another comparison for a preview: the next SetBase has the revision that
// live Secrets count as holding. It changes nothing outside previews.
func (d *Differ) StartPreview() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.preview.base, d.preview.dryRuns = nil, 0
}

// SetBase keeps what is desired first, with masked Secrets; of who may read the cluster
// the Secrets alone.
func (d *Differ) SetBase(items []state.Item) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.cfg.Preview || d.preview.base != nil {
		return
	}
	d.preview.base = map[state.Key]state.Item{}
	for _, item := range items {
		if d.cfg.OnlyManaged || kinds.IsSecret(item.Key) {
			d.preview.base[item.Key] = item
		}
	}
}

// Blind reports whether the values of an object are not to be read.
func (d *Differ) Blind(k state.Key) bool { return d.cfg.Preview && kinds.IsSecret(k) }

// maskedSecret is a live Secret with masked values: in a preview with those that it counts as
// holding, of which the live ones disclose nothing.
func (d *Differ) maskedSecret(k state.Key, live *unstructured.Unstructured) map[string]any {
	bare := manifest.Strip(live.Object)
	if !d.cfg.Preview {
		return d.cfg.Mask.Secret(bare)
	}
	d.mu.Lock()
	base := d.preview.base[k].Object
	d.mu.Unlock()
	unlike := "masked:" + d.cfg.Mask.Hash([]any{"as live"})
	maskField := func(in, from map[string]any, field string) {
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
	maskField(bare, base, "data")
	metadata, _ := bare["metadata"].(map[string]any)
	from, _ := base["metadata"].(map[string]any)
	maskField(metadata, from, "annotations")
	return bare
}
