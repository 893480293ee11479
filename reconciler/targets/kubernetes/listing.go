package kubernetes

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// listing is a kind to list. Optional ones are only searched for orphans.
type listing struct {
	kinds.Kind
	optional bool
}

// listings collects what must be listed: the kinds of what is desired and of what
// is recorded, and all there are when the inventory is not complete.
func (o *observation) listings(ctx context.Context, all bool) ([]listing, error) {
	listed := map[schema.GroupVersionKind]bool{}
	covered := map[schema.GroupKind]bool{}
	var out []listing
	for item := range o.desired.All() {
		gvk := kinds.GVK(item.Key, item.Version)
		if listed[gvk] || !o.target.diff.Managed(item.Key) {
			continue
		}
		listed[gvk], covered[gvk.GroupKind()] = true, true
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
		if covered[gvk.GroupKind()] || listed[gvk] {
			continue
		}
		listed[gvk] = true
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
	// A process that has had no desired objects yet has no kinds, and one that has run for long
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
	if !k.optional && !o.rebuilds && o.listMetadata(ctx, k.Kind) {
		return
	}
	_, err := o.target.api.List(ctx, api.Ref{Resource: k.GVR()}, o.target.selector(), func(live *unstructured.Unstructured) {
		o.compareLive(k.Kind, &unstructured.Unstructured{Object: live.Object})
	})
	switch {
	case err == nil:
	case apierrors.IsNotFound(err):
		o.notServed(ctx, k, err)
	case k.optional && o.noneDesired() && !never(err):
		o.fail(api.Refused("listing what is ours among the "+k.GVR().GroupResource().String(), err, false))
	case apierrors.IsForbidden(err) || k.optional && ctx.Err() == nil:
		// What may not be observed is neither absent nor undesired. The desired
		// ones are tried, so that the refusal is reported for each.
		o.mu.Lock()
		o.forbidden[k.GroupKind()] = api.Refused("listing "+k.Resource, err, false)
		o.mu.Unlock()
	default:
		o.fail(api.Refused("listing "+k.GVR().GroupResource().String(), err, false))
	}
}

// notServed notes that a kind that should be served is not: its definition is
// being established, or has gone since the kinds were read.
func (o *observation) notServed(ctx context.Context, kind listing, cause error) {
	refused := api.Refused("listing "+kind.GVR().GroupResource().String(), cause, false)
	if kind.optional {
		if o.noneDesired() && o.defined(ctx, kind.GroupVersionKind) {
			o.fail(refused)
		}
		return // Some kinds are announced and never served.
	}
	if !kind.DeclaredOnly {
		if err := o.target.kinds.Refresh(ctx); err != nil {
			o.fail(err)
			return
		}
		if now, ok, err := o.target.kinds.Find(kind.GroupVersionKind); err != nil || ok && !now.DeclaredOnly {
			// The cluster contradicts itself, as it does for a moment when
			// definitions come and go.
			o.fail(refused)
			return
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unserved[kind.GroupVersionKind] = true
}

// never reports whether the API server refuses, and will go on to refuse, to list a
// kind: with the permissions that we have nothing of it can be ours.
func never(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}
