package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
)

// removeEmptied makes way for an apply that declares maps or lists without content where we
// have applied some before, such as `controllerRole: {}` after `{name: a}`: see
// fields.Emptied. One patch removes the contents and our claim to them, of an object with guards
// in the given version alone. It returns the live object afterwards, or nil where nothing is
// declared without content.
func (j *objectApply) removeEmptied(ctx context.Context, body map[string]any, version string) (*unstructured.Unstructured, error) {
	if !hasEmpty(body) {
		return nil, nil
	}
	const doing = "emptying what is declared without content"
	for attempt := 0; ; attempt++ {
		live, err := j.api.Get(ctx, j.ref)
		if err != nil {
			return nil, api.Refused(doing, err, j.secret)
		}
		if string(live.GetUID()) != j.Before.Live.UID || j.hasGuards() && live.GetResourceVersion() != version {
			return nil, state.Fail(state.Retry, "Conflict", fmt.Errorf("%s: %w", doing, targets.ErrChanged))
		}
		pointers, claim := fields.Emptied(live.Object, body, v1alpha1.FieldManager)
		if claim == nil {
			return live, nil
		}
		patch, err := claiming(live, pointers, claim)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		live, err = j.api.Patch(ctx, j.ref, patch)
		if err == nil {
			return live, nil
		}
		if !apierrors.IsConflict(err) || attempt == 5 {
			return nil, api.Refused(doing, err, j.secret)
		}
	}
}

// claiming is a JSON patch of that version of the object alone, which removes the fields at the pointers
// and makes our claim to the object what is given.
func claiming(live *unstructured.Unstructured, pointers []string, claim fields.Tree) ([]byte, error) {
	ops := []map[string]any{{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()}}
	for _, p := range pointers {
		ops = append(ops, map[string]any{"op": "remove", "path": p})
	}
	for i, e := range live.GetManagedFields() {
		if e.Manager == v1alpha1.FieldManager && e.Operation == "Apply" && e.Subresource == "" { // One, of the version that was applied last.
			ops = append(ops, map[string]any{"op": "replace", "path": "/metadata/managedFields/" + strconv.Itoa(i) + "/fieldsV1", "value": claim})
		}
	}
	return json.Marshal(ops)
}

// hasEmpty reports whether anything is declared without content.
func hasEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			if hasEmpty(inner) {
				return true
			}
		}
		return len(v) == 0
	case []any:
		return len(v) == 0 || slices.ContainsFunc(v, hasEmpty)
	}
	return false
}
