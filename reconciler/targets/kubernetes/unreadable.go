package kubernetes

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// This file distinguishes what is not there from what could not be observed.

// givesUp reports whether nothing is wanted any more. What is left out of such
// an observation may be lost for ever.
func (o *observation) givesUp() bool { return o.wanted.Len() == 0 }

// never reports whether the API server refuses, and will go on to refuse, to list a
// kind: with the rights that we have nothing of it can be ours.
func never(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// notServed notes that a kind that should be served is not: its definition is
// being established, or has gone since the kinds were read.
func (o *observation) notServed(ctx context.Context, kind listing, cause error) {
	refused := api.Refused("listing "+kind.GVR().GroupResource().String(), cause, false)
	if kind.optional {
		if o.givesUp() && o.defined(ctx, kind.GroupVersionKind) {
			o.fail(refused)
		}
		return // Some kinds are announced and never served.
	}
	if !kind.Promised {
		if err := o.target.kinds.Refresh(ctx); err != nil {
			o.fail(err)
			return
		}
		if now, ok, err := o.target.kinds.Find(kind.GroupVersionKind); err != nil || ok && !now.Promised {
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

// unknown classifies objects of a kind that is not served. While its definition is
// wanted or exists, that means nothing for them.
func (o *observation) unknown(ctx context.Context, gvk schema.GroupVersionKind, kind kinds.Kind, records []inventory.Record) {
	defined := kind.Promised && !o.givesUp() || o.defined(ctx, gvk)
	for _, r := range records {
		_, wanted := o.wanted.Get(r.Key)
		switch {
		case !defined, wanted && kind.Promised:
			o.absent(r.Key)
		case !wanted && o.givesUp():
			o.fail(state.Failf(state.Retry, "NotServed", "%s is recorded as ours, and the cluster does not serve its kind at this moment", r.Key))
		}
	}
}

func (o *observation) get(ctx context.Context, s seekOne) {
	live, err := o.target.api.Get(ctx, api.Ref{Resource: s.kind.GVR(), Namespace: s.rec.Key.Namespace, Name: s.rec.Key.Name})
	switch {
	case api.NotServed(err):
		o.unknown(ctx, s.kind.GroupVersionKind, s.kind, []inventory.Record{s.rec})
	case apierrors.IsNotFound(err):
		o.absent(s.rec.Key)
	case apierrors.IsForbidden(err):
		o.unseen([]inventory.Record{s.rec}, api.Refused("reading "+s.rec.Key.String(), err, false))
	case err != nil:
		o.fail(api.Refused("reading "+s.rec.Key.String(), err, false))
	default:
		o.visit(s.kind, live)
	}
}

// absent notes that an object is not there.
func (o *observation) absent(k state.Key) {
	rec, known := o.target.store.Get(k)
	if _, wanted := o.wanted.Get(k); !wanted {
		o.target.store.Remove(k)
		return
	}
	if known && rec.Desired != "" {
		o.add(state.Item{Key: k, Version: rec.Version, Applied: rec.Desired})
	}
}

// unseen reports wanted objects that we may not read as differing, so that
// they are tried and the refusal is reported. Others stay recorded for a better
// day; where everything is given up there is none, and it is an error.
func (o *observation) unseen(records []inventory.Record, err error) {
	for _, r := range records {
		if item, wanted := o.wanted.Get(r.Key); wanted {
			rec, _ := o.target.store.Get(r.Key)
			found := state.Item{Key: item.Key, Version: item.Version, Wave: item.Wave, Applied: rec.Desired, Object: item.Object}
			found.Unreadable = err.Error()
			o.add(found)
		} else if o.givesUp() {
			o.fail(fmt.Errorf("%s is recorded as ours and cannot be read: %w", r.Key, err))
		}
	}
}
