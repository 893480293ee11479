package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/parallel"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// missing lists what carries no label of ours and may exist all the same: what is desired, and of
// what is recorded the keys and versions.
func (o *observation) missing() []state.Item {
	var out []state.Item
	for item := range o.desired.All() {
		if !o.resolved[item.Key] && o.target.diff.Managed(item.Key) {
			out = append(out, item)
		}
	}
	for _, r := range o.target.store.Records() {
		if _, desired := o.desired.Get(r.Key); !desired && !o.resolved[r.Key] && o.target.diff.Managed(r.Key) {
			out = append(out, state.Item{Key: r.Key, Version: r.Version})
		}
	}
	return out
}

// maxGets is up to how many objects of one kind and namespace are read one by one rather
// than found in a list of names.
const maxGets = 8

type getRequest struct {
	kind kinds.Kind
	item state.Item
}

// getByName reads objects by name. What is not there is absent; what could not be observed is unknown.
func (o *observation) getByName(ctx context.Context, items []state.Item) {
	type place struct {
		gvk       schema.GroupVersionKind
		namespace string
	}
	groups := map[place][]state.Item{}
	for _, r := range items {
		p := place{kinds.GVK(r.Key, r.Version), r.Key.Namespace}
		groups[p] = append(groups[p], r)
	}
	var single []getRequest
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
			o.reportForbidden(groups[p], err)
			continue
		}
		if !ok || o.unserved[kind.GroupVersionKind] {
			o.unknown(ctx, p.gvk, kind, groups[p])
			continue
		}
		exists := o.names(ctx, kind, p.namespace, len(groups[p]))
		for _, r := range groups[p] {
			if exists == nil || exists[r.Key.Name] {
				single = append(single, getRequest{kind, r})
			} else {
				o.absent(r.Key)
			}
		}
	}
	parallel.Each(requests, single, func(s getRequest) { o.get(ctx, s) })
}

// names lists what exists where many are sought; nil means "read each".
func (o *observation) names(ctx context.Context, kind kinds.Kind, namespace string, sought int) map[string]bool {
	if sought <= maxGets {
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

func (o *observation) get(ctx context.Context, s getRequest) {
	live, err := o.target.api.Get(ctx, api.Ref{Resource: s.kind.GVR(), Namespace: s.item.Key.Namespace, Name: s.item.Key.Name})
	switch {
	case api.NotServed(err):
		o.unknown(ctx, s.kind.GroupVersionKind, s.kind, []state.Item{s.item})
	case apierrors.IsNotFound(err):
		o.absent(s.item.Key)
	case apierrors.IsForbidden(err):
		o.reportForbidden([]state.Item{s.item}, api.Refused("reading "+s.item.Key.String(), err, false))
	case err != nil:
		o.fail(api.Refused("reading "+s.item.Key.String(), err, false))
	default:
		o.compareLive(s.kind, live)
	}
}

// unknown classifies objects of a kind that is not served. While its definition is
// desired or exists, that means nothing for them.
func (o *observation) unknown(ctx context.Context, gvk schema.GroupVersionKind, kind kinds.Kind, items []state.Item) {
	defined := kind.DeclaredOnly && !o.noneDesired() || o.defined(ctx, gvk)
	for _, r := range items {
		_, desired := o.desired.Get(r.Key)
		switch {
		case !defined, desired && kind.DeclaredOnly:
			o.absent(r.Key)
		case !desired && o.noneDesired():
			o.fail(state.Failf(state.Retry, "NotServed", "%s is recorded as ours, and the cluster does not serve its kind at this moment", r.Key))
		}
	}
}

// absent notes that an object is not there.
func (o *observation) absent(k state.Key) {
	rec, known := o.target.store.Get(k)
	if _, desired := o.desired.Get(k); !desired {
		o.target.store.Remove(k)
		return
	}
	if known && rec.Desired != "" {
		o.add(state.Item{Key: k, Version: rec.Version, Applied: rec.Desired})
	}
}

// reportForbidden reports desired objects that we may not read as differing, so that
// they are tried and the refusal is reported. Others stay recorded for a better
// day; where everything is given up there is none, and it is an error.
func (o *observation) reportForbidden(items []state.Item, err error) {
	for _, r := range items {
		if item, desired := o.desired.Get(r.Key); desired {
			rec, _ := o.target.store.Get(r.Key)
			found := state.Item{Key: item.Key, Version: item.Version, Wave: item.Wave, Applied: rec.Desired, Object: item.Object}
			found.Unreadable = err.Error()
			o.add(found)
		} else if o.noneDesired() {
			o.fail(fmt.Errorf("%s is recorded as ours and cannot be read: %w", r.Key, err))
		}
	}
}

// noneDesired reports whether nothing is desired any more. What is left out of such
// an observation may be lost for ever.
func (o *observation) noneDesired() bool { return o.desired.Len() == 0 }
