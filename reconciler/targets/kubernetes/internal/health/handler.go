package health

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/reflector"
)

// Handler gets all objects of a kind that the Sync applied.
func (c *Checker) Handler(kind kinds.Kind) reflector.Handler { return &applied{Checker: c, kind: kind} }

// applied gets the objects of one kind that the Sync applied.
type applied struct {
	*Checker
	kind kinds.Kind
}

func (a *applied) Updated(live *unstructured.Unstructured) { a.Applied(a.kind.Key(live), live) }

func (a *applied) Deleted(live *unstructured.Unstructured) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.spec.Wait {
		a.absent(a.kind.Key(live))
	}
}

// Listed finds what was there and is not in the list any more.
func (a *applied) Listed(all map[state.Key]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.spec.Wait {
		return
	}
	for k := range a.found {
		if k.Group == a.kind.Group && k.Kind == a.kind.Kind && !all[k] {
			a.absent(k)
		}
	}
}

// namedObject gets one object that spec.healthChecks names, until ctx ends: by then another spec
// may require the same one.
type namedObject struct {
	*Checker
	ctx context.Context
	key state.Key
}

func (r *namedObject) Updated(live *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() == nil {
		r.observe(r.key, live)
	}
}

func (r *namedObject) Deleted(*unstructured.Unstructured) { r.Listed(nil) }

func (r *namedObject) Listed(all map[state.Key]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() == nil && !all[r.key] {
		r.absent(r.key)
	}
}
