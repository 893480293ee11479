package kubernetes

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
)

// release gives up what we own of a live object although it is ignored: its values stay and belong to
// whoever writes them. It returns the live object afterwards, and ErrChanged where somebody has written
// an object with guards meanwhile: the next version has what was not compared.
func (j *objectApply) release(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	const doing = "giving up the ownership of what is ignored"
	pointers := j.desired.Ignored(j.Change.Key)
	for attempt := 0; ; attempt++ {
		claim, released := fields.Release(live.Object, j.After.Object, fields.Applied(live.Object, v1alpha1.FieldManager), pointers)
		if len(released) == 0 {
			return live, nil
		}
		patch, err := claiming(live, nil, claim)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		after, err := j.api.Patch(ctx, j.ref, patch)
		if err == nil {
			return after, nil
		}
		if !apierrors.IsConflict(err) || attempt == 5 || j.hasGuards() {
			return nil, api.Refused(doing, err, j.secret)
		}
		if live, err = j.api.Get(ctx, j.ref); err != nil {
			return nil, api.Refused(doing, err, j.secret)
		}
	}
}

// omit is what an update sends of a body: the live object stays as it is where that is ignored.
func (j *objectApply) omit(body map[string]any, live *unstructured.Unstructured) fields.Omitted {
	pointers := j.desired.Ignored(j.Change.Key)
	if live == nil || len(pointers) == 0 {
		return fields.Omitted{Object: body}
	}
	return fields.Omit(state.KeepDeclared(body, state.IgnoredValues(pointers, body, live.Object)), live.Object, v1alpha1.FieldManager, pointers)
}
