package api

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// Refused is ResponseError with what was being done in front.
func Refused(doing string, err error, secret bool) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, ResponseError(err, secret))
}

// ResponseError turns a response of the API server into an error that names its class, and
// for a conflict its owner. Structures that the API server dumps are cut out; with
// secret set nothing of the object's content is repeated. It returns nil for nil, and
// what is no response as it is.
func ResponseError(err error, secret bool) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	response := status.Status()
	why := message(response, secret)
	switch {
	case apierrors.IsConflict(err):
		if owners := conflicts(response); len(owners) > 0 {
			return state.Fail(state.Retry, "FieldManagerConflict", fmt.Errorf("%w: %s", targets.ErrConflict, strings.Join(owners, ", ")))
		}
		return state.Fail(state.Retry, "Conflict", targets.ErrChanged)
	case strings.Contains(response.Message, untyped):
		return state.Fail(state.Stalled, "Invalid", &describedError{why, targets.ErrSchema})
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		reason := "Invalid"
		// A field that cannot be changed has the cause FieldValueInvalid, as any other value has.
		if strings.Contains(response.Message, "immutable") {
			reason, why = "Immutable", why+" (delete the object yourself to let it be made anew)"
		}
		return state.Failf(state.Stalled, reason, "%s", why)
	// etcd's limit has no reason of its own: the API server passes its message on with code 500.
	case apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(why, "request is too large"):
		return state.Failf(state.Stalled, "TooLarge", "the object is larger than the API server takes: %s", why)
	case apierrors.IsForbidden(err):
		return state.Failf(state.Retry, "Forbidden", "%s", why)
	case apierrors.IsTooManyRequests(err):
		// Each request waited as long as the server required, ten times.
		return state.Fail(state.Retry, "TooManyRequests", &describedError{why, err})
	case apierrors.IsNotFound(err):
		return state.Fail(state.Retry, "NotFound", &describedError{why, err})
	}
	return &describedError{why, err}
}

// untyped begins the message of the API server about an applied object that does not fit its schema: the status has code
// 500, no reason and no causes.
const untyped = "failed to create typed patch object"

// describedError is an error with a text of ours, of which errors.As finds the cause.
type describedError struct {
	text  string
	cause error
}

func (a *describedError) Error() string { return a.text }
func (a *describedError) Unwrap() error { return a.cause }

// quoted matches the value that the API server repeats in front of what is
// wrong with it.
var quoted = regexp.MustCompile(`(?s)(Invalid value|Unsupported value|Duplicate value): ("(?:[^"\\]|\\.)*"|.*?): `)

// message is the text of the response. The API server repeats invalid values: those
// of Secrets and user data of nodes are cut out, of all others what is not
// short and plain.
func message(s metav1.Status, secret bool) string {
	if secret {
		text := strings.TrimSpace(fmt.Sprintf("%s (%d)", s.Reason, s.Code))
		if s.Details == nil {
			return text
		}
		for _, c := range s.Details.Causes {
			if c.Field != "" {
				text += ", " + c.Field
			}
		}
		return text
	}
	if text, ok := strings.CutPrefix(s.Message, untyped); ok {
		_, text, _ = strings.Cut(text, "): ")
		return "it does not fit its schema: " + undump(strings.TrimPrefix(text, "."))
	}
	if !strings.Contains(s.Message, "userData") {
		return quietly(s)
	}
	return undump(quoted.ReplaceAllString(s.Message, "$1: ***: "))
}

// conflicts names managers and fields of a server-side apply's conflict, each
// as `"manager" owns .spec.field`; nothing for other conflicts.
func conflicts(s metav1.Status) []string {
	if s.Details == nil {
		return nil
	}
	fields := map[string][]string{}
	for _, c := range s.Details.Causes {
		if c.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		manager, _, _ := strings.Cut(strings.TrimPrefix(c.Message, "conflict with "), " using ")
		manager, _, _ = strings.Cut(manager, " with subresource ")
		fields[manager] = append(fields[manager], c.Field)
	}
	var out []string
	for manager, owned := range fields {
		slices.Sort(owned)
		out = append(out, manager+" owns "+strings.Join(slices.Compact(owned), ", "))
	}
	slices.Sort(out)
	return out
}

// NotServed reports whether an error is that the API server does not serve the kind, not that
// the object is not found. Both have the reason NotFound, and neither has details by which they differ for certain.
func NotServed(err error) bool {
	return apierrors.IsNotFound(err) && strings.Contains(err.Error(), "could not find the requested resource")
}
