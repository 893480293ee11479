package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

func status(code int32, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{Causes: causes}}}
}

func TestRefusalsAreClassifiedAndNameTheRemedy(t *testing.T) {
	conflict := func(manager, field string) metav1.StatusCause {
		return metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "` + manager + `" using apps/v1`, Field: field}
	}
	tests := []struct {
		name   string
		err    error
		secret bool
		class  state.FailureClass
		reason string
		text   string
		is     error
	}{
		{"a conflict names managers and fields", status(409, metav1.StatusReasonConflict, "conflicts", conflict("b", ".z"), conflict("a", ".y"), conflict("b", ".x")), false,
			state.Retry, "FieldManagerConflict", `doing it: owned by another manager: "a" owns .y, "b" owns .x, .z`, targets.ErrConflict},
		{"a moved version is a change", status(409, metav1.StatusReasonConflict, "the object has been modified"), false,
			state.Retry, "Conflict", "doing it: changed since it was observed", targets.ErrChanged},
		{"an immutable field has the remedy", status(422, metav1.StatusReasonInvalid, "spec.selector: field is immutable"), false,
			state.Stalled, "Immutable", "doing it: spec.selector: field is immutable (delete the object yourself to let it be made anew)", nil},
		{"user data is not repeated", status(422, metav1.StatusReasonInvalid, `spec.userData: Invalid value: "#!/bin/sh token=x: y": too long: no`), false,
			state.Stalled, "Invalid", `doing it: spec.userData: Invalid value: ***: too long: no`, nil},
		{"nothing of a Secret is repeated", status(422, metav1.StatusReasonInvalid, `data[x]: Invalid value: "hunter2"`, metav1.StatusCause{Field: "data[x]", Message: "hunter2"}), true,
			state.Stalled, "Invalid", "doing it: Invalid (422), data[x]", nil},
		{"a field that the schema does not have is a problem in what is declared", status(500, metav1.StatusReasonUnknown, "failed to create typed patch object (default/a; example.com/v1, Kind=Widget): .spec.siez: field not declared in schema"), false,
			state.Stalled, "Invalid", "doing it: it does not fit its schema: spec.siez: field not declared in schema", targets.ErrSchema},
		{"a refusal of permissions is retried", status(403, metav1.StatusReasonForbidden, "no"), false, state.Retry, "Forbidden", "doing it: no", nil},
		{"throttling is retried", status(429, metav1.StatusReasonTooManyRequests, "later"), false, state.Retry, "TooManyRequests", "doing it: later", nil},
		{"what is too large is for the user", status(413, metav1.StatusReasonRequestEntityTooLarge, "big"), false,
			state.Stalled, "TooLarge", "doing it: the object is larger than the API server takes: big", nil},
		{"a network error keeps its text", errors.New("connection refused"), false, state.Retry, "Failed", "doing it: connection refused", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Refused("doing it", tt.err, tt.secret)
			class, reason, _ := state.Classify(got)
			if class != tt.class || reason != tt.reason || got.Error() != tt.text || tt.is != nil && !errors.Is(got, tt.is) {
				t.Errorf("%s, %s: %v", class, reason, got)
			}
		})
	}
	if Refused("doing it", nil, false) != nil {
		t.Error("no error became one")
	}
	gone := Refused("reading", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p"), false)
	if !apierrors.IsNotFound(fmt.Errorf("more: %w", gone)) || !strings.Contains(gone.Error(), `pods "p" not found`) {
		t.Errorf("%v", gone)
	}
}
