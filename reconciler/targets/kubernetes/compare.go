package kubernetes

import (
	"context"
	"encoding/json"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/losses"
)

// lastApplied is where kubectl's client-side apply keeps what was declared.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// compare reports what a correction would change in a live object that memory
// cannot vouch for. Three ways lead there: Secrets are compared here and never
// sent for a look; kinds that are wholly ours against what the API server
// makes of Git alone; all others against what it would make of live and Git
// together. Where nothing would change, memory vouches from now on.
func (w *Target) compare(ctx context.Context, item state.Item, live *unstructured.Unstructured) (state.Item, error) {
	rec, _ := w.store.Get(item.Key)
	found := observed(item, live, nil, rec.Desired)
	other, err := w.otherSync(ctx, item.Key, live)
	if err != nil {
		return found, err
	}
	if other != "" {
		found.Owner = owner.Reference{Kind: owner.Sync, Name: other}
	}
	var c comparedObject
	switch {
	case live.GetDeletionTimestamp() != nil:
		c.object = leaving(item.Object, live)
	case isSecret(item.Key):
		c.object = w.compareSecret(item, live)
	case w.cfg.OnlyManaged:
		c, err = w.compareBase(ctx, item, live)
	case kinds.Whole(item.Key.Group, item.Key.Kind):
		c, err = w.compareWhole(ctx, item, live)
	default:
		c, err = w.compareMerged(ctx, item, live)
	}
	if err != nil {
		return found, err
	}
	object := c.object
	found.Object, found.DryRunError = object, c.dryRunError
	found.Removal = w.counter().Update(ctx, losses.Update{Key: item.Key, Before: object, After: item.Object, Live: live})
	w.recordObserved(item, live, object)
	if state.Equal(object, item.Object) && c.dryRunError == "" && !w.blind(item.Key) && !w.cfg.OnlyManaged {
		w.store.Put(inventory.Record{
			Key: item.Key, Version: item.Version, Desired: state.Hash(item.Object),
			Print: fields.Take(live.Object, w.options(item.Key)),
		})
	}
	return found, nil
}

// recordObserved keeps what Correct must know of the object.
func (w *Target) recordObserved(item state.Item, live *unstructured.Unstructured, object map[string]any) {
	var rivals []string
	for _, path := range fields.Differing(object, item.Object) {
		rivals = append(rivals, fields.Owners(live.Object, v1alpha1.FieldManager, path...)...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.memos[item.Key]
	m.observedUID, m.clientSide, m.rivals = string(live.GetUID()), false, rivals
	for _, e := range fields.Entries(live.Object) {
		m.clientSide = m.clientSide || e.Manager == clientSideManager && e.Operation == "Update"
	}
	w.memos[item.Key] = m
}

// comparedObject is a live object as it is compared with the wanted one, see
// state.Findings.DryRunError.
type comparedObject struct {
	object      map[string]any
	dryRunError string
}

// compareMerged asks the API server what applying would give.
func (w *Target) compareMerged(ctx context.Context, item state.Item, live *unstructured.Unstructured) (comparedObject, error) {
	ours := fields.Applied(live.Object, v1alpha1.FieldManager)
	bare := strip(live.Object)
	if _, claim := fields.Emptied(live.Object, item.Object, v1alpha1.FieldManager); claim != nil {
		// Applied at once this would be refused, or null: see job.empty.
		return comparedObject{object: fields.Project(bare, fields.Overlay(bare, item.Object, ours), item.Object, ours)}, nil
	}
	merged, err := w.dryRun(ctx, item, item.Key.Name)
	if err != nil {
		if stop(err) {
			return comparedObject{}, api.Refused("comparing "+item.Key.String(), err, false)
		}
		return w.refused(item, bare, ours, err), nil
	}
	after := strip(merged.Object)
	if declared := declaredByKubectl(live); declared != nil {
		after = fields.Without(after, item.Object, declared)
	}
	object := fields.Project(bare, after, item.Object, ours)
	if !state.Equal(object, item.Object) {
		return comparedObject{object: object}, nil
	}
	if mine := fields.Applied(merged.Object, v1alpha1.FieldManager); state.Equal(mine, ours) {
		return comparedObject{object: item.Object}, nil
	}
	return comparedObject{object: claim(item.Object, fields.Unclaimed(item.Object, ours))}, nil
}

// compareWhole asks the API server for the canonical form of Git alone, by a
// dry run under a name that does not exist, and holds the whole live spec
// against it: what somebody added by hand is drift too.
func (w *Target) compareWhole(ctx context.Context, item state.Item, live *unstructured.Unstructured) (comparedObject, error) {
	canonical, err := w.dryRun(ctx, item, dryRunName(item.Key, live))
	if err != nil {
		if stop(err) {
			return comparedObject{}, api.Refused("comparing "+item.Key.String(), err, false)
		}
		return w.compareMerged(ctx, item, live)
	}
	ours := fields.Applied(live.Object, v1alpha1.FieldManager)
	scaled := w.stateOf(item.Key).scaled
	bare := strip(live.Object)
	after := fields.Overlay(bare, item.Object, ours)
	after["spec"] = unscaled(canonical.Object["spec"], scaled)
	bare["spec"] = unscaled(bare["spec"], scaled)
	owned := fields.Tree{"f:spec": fields.All()}
	maps.Copy(owned, ours)
	owned["f:spec"] = fields.All()
	object := fields.Project(bare, after, item.Object, owned)
	if !state.Equal(object, item.Object) {
		return comparedObject{object: object}, nil
	}
	if unclaimed := fields.Unclaimed(item.Object, ours); len(unclaimed) > 0 {
		return comparedObject{object: claim(item.Object, unclaimed)}, nil
	}
	return comparedObject{object: item.Object}, nil
}

// dryRunName is a name that no object has, the same for each look at one object.
func dryRunName(k state.Key, live *unstructured.Unstructured) string {
	return "poolwright-dry-run-" + state.Hash([]any{k, live.GetUID()})[:12]
}

// unscaled is a spec without what an autoscaler writes.
func unscaled(spec any, scaled bool) any {
	m, ok := spec.(map[string]any)
	if !ok || !scaled {
		return spec
	}
	m = maps.Clone(m)
	delete(m, "replicas")
	return m
}

// compareSecret compares digests, without a request.
func (w *Target) compareSecret(item state.Item, live *unstructured.Unstructured) map[string]any {
	ours := fields.Applied(live.Object, v1alpha1.FieldManager)
	bare := w.maskedSecret(item.Key, live)
	object := fields.Project(bare, fields.Overlay(bare, item.Object, ours), item.Object, ours)
	if !state.Equal(object, item.Object) {
		return object
	}
	if unclaimed := fields.Unclaimed(item.Object, ours); len(unclaimed) > 0 {
		return claim(item.Object, unclaimed)
	}
	return item.Object
}

// dryRun applies an item without storing it, under the given name.
func (w *Target) dryRun(ctx context.Context, item state.Item, name string) (*unstructured.Unstructured, error) {
	if err := w.countDryRun(); err != nil {
		return nil, err
	}
	ref, _, _, err := w.ref(ctx, item.Key, item.Version)
	if err != nil {
		return nil, err
	}
	ref.Name = name
	body := item.Object
	if name != item.Key.Name {
		body = withMetadata(body, "name", name)
	}
	return w.api.Apply(ctx, ref, body, api.ApplyOptions{Force: true, DryRun: true})
}

// refused is, for an object whose dry run the API server refused, what
// differs without it, and the refusal.
func (w *Target) refused(item state.Item, bare map[string]any, ours fields.Tree, err error) comparedObject {
	why := strings.TrimPrefix(api.Refused("", err, false).Error(), ": ")
	if w.cfg.OnlyManaged {
		why = "the Sync's status has the reason"
	}
	return comparedObject{clientDryRun(item, bare, ours), why}
}

// clientDryRun is a live object as far as it can be compared without the API server, which
// knows defaults and other ways of writing.
func clientDryRun(item state.Item, bare map[string]any, ours fields.Tree) map[string]any {
	return fields.Project(bare, fields.Overlay(bare, item.Object, ours), item.Object, ours)
}

// claim shows that an apply changes no value, only whose the fields are.
func claim(object map[string]any, unclaimed []string) map[string]any {
	text := "Poolwright still owns fields that are no longer declared"
	if len(unclaimed) > 0 {
		text = "not yet owned by Poolwright: " + strings.Join(unclaimed, ", ")
	}
	return withMetadata(object, "managedFields", text)
}

// leaving shows a wanted object that is being deleted.
func leaving(object map[string]any, live *unstructured.Unstructured) map[string]any {
	return withMetadata(object, "deletionTimestamp", live.GetDeletionTimestamp().UTC().Format("2006-01-02T15:04:05Z"))
}

// withMetadata copies an object with one entry of its metadata replaced.
func withMetadata(object map[string]any, field string, value any) map[string]any {
	out := maps.Clone(object)
	metadata, _ := out["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata[field] = value
	out["metadata"] = metadata
	return out
}

// strip copies a live object without what the API server and controllers
// write.
func strip(object map[string]any) map[string]any {
	out := maps.Clone(object)
	delete(out, "status")
	metadata, _ := out["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "selfLink"} {
		delete(metadata, field)
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		annotations = maps.Clone(annotations)
		delete(annotations, lastApplied)
		metadata["annotations"] = annotations
		if len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	out["metadata"] = metadata
	return out
}

// declaredByKubectl is the tree of what kubectl's client-side apply declared,
// or nil: when its ownership moves to us, what Git does not declare goes.
func declaredByKubectl(live *unstructured.Unstructured) fields.Tree {
	text := live.GetAnnotations()[lastApplied]
	var declared map[string]any
	if text == "" || json.Unmarshal([]byte(text), &declared) != nil {
		return nil
	}
	delete(declared, "apiVersion")
	delete(declared, "kind")
	if metadata, ok := declared["metadata"].(map[string]any); ok {
		declared["metadata"] = map[string]any{"labels": metadata["labels"], "annotations": metadata["annotations"]}
	}
	return fields.Of(declared)
}
