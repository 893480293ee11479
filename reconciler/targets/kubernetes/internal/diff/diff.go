// Package diff finds what an apply would change in a live object, by server-side dry runs.
//
// It refuses to compare the values of Secrets by a request, and to send the API server
// what a pull request proposes. Start reading at Differ.Diff.
package diff

import (
	"context"
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/state/pointer"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/losses"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
)

// Diff reports what a correction would change in a live object that the
// inventory does not show to be as it was left. There are three ways: Secrets are compared here and never
// sent; kinds that are wholly ours against what the API server
// makes of Git alone; all others against what it would make of live and Git
// together. Where nothing would change, the inventory records it.
func (d *Differ) Diff(ctx context.Context, item state.Item, live *unstructured.Unstructured) (state.Item, error) {
	rec, _ := d.cfg.Store.Get(item.Key)
	desired := item
	item = d.keep(desired, live)
	found := Found(item, live, nil, rec.Desired)
	other, err := d.cfg.Owner.Other(ctx, item.Key, live)
	if err != nil {
		return found, err
	}
	if other != "" {
		found.Owner = owner.Reference{Kind: owner.Sync, Name: other}
	}
	switch {
	case live.GetDeletionTimestamp() != nil:
		found.Object = terminating(item.Object, live)
	case kinds.IsSecret(item.Key):
		d.compareSecret(&found, item, live)
	case d.cfg.OnlyManaged:
		err = d.compareBase(ctx, &found, desired, live)
	case kinds.OwnsWholeSpec(item.Key.Group, item.Key.Kind):
		err = d.compareWholeSpec(ctx, &found, desired, live)
	default:
		err = d.compareMerged(ctx, &found, desired, live)
	}
	if err != nil {
		return found, err
	}
	found.Ignored = state.IgnoredValues(item.Ignore, desired.Object, live.Object)
	found.DeletionImpact = d.cfg.Losses.Update(ctx, losses.Update{Key: item.Key, Before: found.Object, After: item.Object, Live: live})
	found.Managers = d.keepOwners(item, live, found.Object)
	same := state.Equal(found.Object, item.Object)
	found.Object = d.compared(found, desired, same)
	if same && found.DryRunError == "" && found.Ownership == nil && !d.Blind(item.Key) && !d.cfg.OnlyManaged {
		d.cfg.Store.Put(inventory.Record{
			Key: item.Key, Version: item.Version, Desired: desired.Hash(),
			Fingerprint: fields.FingerprintOf(live.Object, d.Options(item.Key)),
		})
	}
	return found, nil
}

// compareMerged gets from the API server what applying would give. Like the other ways, it
// fills in the found Item's Object, DryRunError and Ownership.
func (d *Differ) compareMerged(ctx context.Context, found *state.Item, desired state.Item, live *unstructured.Unstructured) error {
	item, ours := d.keep(desired, live), fields.Applied(live.Object, v1alpha1.FieldManager)
	bare := manifest.Strip(live.Object)
	if _, claim := fields.Emptied(live.Object, item.Object, v1alpha1.FieldManager); claim != nil {
		// Applied at once this would be refused, or null: the contents
		// go first.
		found.Object = clientDryRun(item, bare, ours)
		return nil
	}
	merged, err := d.dryRun(ctx, d.updated(desired, item, live, ours), item.Key.Name)
	if err != nil {
		if stop(err) {
			return api.Refused("comparing "+item.Key.String(), err, false)
		}
		found.Object, found.DryRunError = clientDryRun(item, bare, ours), d.dryRunError(err)
		return nil
	}
	after := manifest.Strip(merged.Object)
	if declared := declaredByKubectl(live); declared != nil {
		after = fields.Without(after, item.Object, declared)
	}
	found.Object = fields.Project(bare, after, item.Object, ours)
	if !state.Equal(found.Object, item.Object) {
		return nil
	}
	found.Object = item.Object
	pointers := d.cfg.Ignored(item.Key)
	_, released := fields.Release(live.Object, item.Object, ours, pointers)
	// What an update makes ours of what is ignored, it gives up again.
	mine, _ := fields.Release(merged.Object, item.Object, fields.Applied(merged.Object, v1alpha1.FieldManager), pointers)
	if !state.Equal(mine, ours) || len(released) > 0 {
		d.claim(found, item, live, ours)
		if found.Ownership == nil {
			found.Ownership = &owner.Fields{}
		}
	}
	return nil
}

// compareWholeSpec gets from the API server the canonical form of Git alone, by a dry run
// under a name that does not exist, and holds the whole live spec against it: what
// somebody added by hand is drift too.
func (d *Differ) compareWholeSpec(ctx context.Context, found *state.Item, desired state.Item, live *unstructured.Unstructured) error {
	item := d.keep(desired, live)
	canonical, err := d.Canonical(ctx, item, live)
	if err != nil {
		if stop(err) {
			return api.Refused("comparing "+item.Key.String(), err, false)
		}
		return d.compareMerged(ctx, found, desired, live)
	}
	ours := fields.Applied(live.Object, v1alpha1.FieldManager)
	bare := manifest.Strip(live.Object)
	after := fields.Overlay(bare, item.Object, ours)
	after["spec"] = canonical.Object["spec"]
	owned := fields.Tree{"f:spec": fields.All()}
	maps.Copy(owned, ours)
	owned["f:spec"] = fields.All()
	found.Object = fields.Project(bare, after, item.Object, owned)
	d.claim(found, item, live, ours)
	return nil
}

// claim finds, of an Item whose Object is as desired, the fields that an update makes Poolwright's own,
// and those of which it gives the ownership up because they are ignored.
func (d *Differ) claim(found *state.Item, item state.Item, live *unstructured.Unstructured, ours fields.Tree) {
	if !state.Equal(found.Object, item.Object) {
		return
	}
	found.Object = item.Object
	pointers := d.cfg.Ignored(item.Key)
	unclaimed := fields.Unclaimed(item.Object, ours, pointers)
	_, released := fields.Release(live.Object, item.Object, ours, pointers)
	if len(unclaimed) > 0 || len(released) > 0 {
		found.Ownership = &owner.Fields{Unclaimed: unclaimed, Ignored: released}
	}
}

// updated is a desired item as an update sends it: without what is ignored. As long as that is ours, an
// update gives it up before, which a dry run cannot: it is then sent with its live values, as in item.
func (d *Differ) updated(desired, item state.Item, live *unstructured.Unstructured, ours fields.Tree) state.Item {
	pointers := d.cfg.Ignored(desired.Key)
	if _, owned := fields.Release(live.Object, item.Object, ours, pointers); len(pointers) == 0 || len(owned) > 0 {
		return item
	}
	desired.Object = state.KeepDeclared(desired.Object, state.IgnoredValues(pointers, desired.Object, live.Object))
	desired.Object = fields.Omit(desired.Object, live.Object, v1alpha1.FieldManager, pointers).Object
	return desired
}

// compared is the form of a found object in which it is compared with what is desired: it has the live
// values of ignored fields that are declared, and none of those that are not. same is whether nothing
// but these differs.
func (d *Differ) compared(found, desired state.Item, same bool) map[string]any {
	if same {
		return state.KeepDeclared(desired.Object, found.Ignored)
	}
	object := found.Object
	for _, text := range d.cfg.Ignored(desired.Key) {
		p, err := pointer.Parse(text)
		if err != nil {
			continue
		}
		_, declared := p.Get(desired.Object)
		if at, ok := p.In(desired.Object, object); ok && !declared {
			object, _ = at.Remove(object).(map[string]any)
		}
	}
	return object
}

// Canonical is what the API server makes of an item alone, by a dry run under a name that does
// not exist. The error is the API server's.
func (d *Differ) Canonical(ctx context.Context, item state.Item, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return d.dryRun(ctx, item, dryRunName(item.Key, live))
}

// dryRunName is a name that no object has, the same for each comparison of one object.
func dryRunName(k state.Key, live *unstructured.Unstructured) string {
	return "poolwright-dry-run-" + state.Hash([]any{k, live.GetUID()})[:12]
}

// compareSecret compares digests, without a request.
func (d *Differ) compareSecret(found *state.Item, item state.Item, live *unstructured.Unstructured) {
	ours := fields.Applied(live.Object, v1alpha1.FieldManager)
	found.Object = clientDryRun(item, d.maskedSecret(item.Key, live), ours)
	d.claim(found, item, live, ours)
}

// dryRun applies an item without storing it, under the given name.
func (d *Differ) dryRun(ctx context.Context, item state.Item, name string) (*unstructured.Unstructured, error) {
	if err := d.countDryRun(); err != nil {
		return nil, err
	}
	kind, _, err := d.cfg.Kinds.Lookup(ctx, kinds.GVK(item.Key, item.Version))
	if err != nil {
		return nil, err
	}
	ref := api.Ref{Resource: kind.GVR(), Namespace: item.Key.Namespace, Name: name}
	body := item.Object
	if name != item.Key.Name {
		body = manifest.WithMetadata(body, "name", name)
	}
	return d.cfg.API.Apply(ctx, ref, body, api.ApplyOptions{Force: true, DryRun: true})
}

// dryRunError is why the API server refused a dry run.
func (d *Differ) dryRunError(err error) string {
	if d.cfg.OnlyManaged {
		return "the Sync's status has the reason"
	}
	return api.ResponseError(err, false).Error()
}

// clientDryRun is a live object as far as it can be compared without the API server, which
// has defaults and other ways of writing.
func clientDryRun(item state.Item, bare map[string]any, ours fields.Tree) map[string]any {
	return fields.Project(bare, fields.Overlay(bare, item.Object, ours), item.Object, ours)
}

// terminating shows a desired object that is being deleted.
func terminating(object map[string]any, live *unstructured.Unstructured) map[string]any {
	return manifest.WithMetadata(object, "deletionTimestamp", live.GetDeletionTimestamp().UTC().Format("2006-01-02T15:04:05Z"))
}

// declaredByKubectl is the tree of what kubectl's client-side apply declared,
// or nil: when its ownership moves to us, what Git does not declare goes.
func declaredByKubectl(live *unstructured.Unstructured) fields.Tree {
	text := live.GetAnnotations()[manifest.LastApplied]
	var declared map[string]any
	if text == "" || json.Unmarshal([]byte(text), &declared) != nil {
		return nil
	}
	delete(declared, "apiVersion")
	delete(declared, "kind")
	if metadata, ok := declared["metadata"].(map[string]any); ok {
		declared["metadata"] = map[string]any{"labels": metadata["labels"], "annotations": metadata["annotations"]}
	}
	return fields.Leaves(declared)
}
