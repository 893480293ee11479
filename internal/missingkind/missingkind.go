// Package missingkind finds the errors of requests for a kind that an API server does not serve. It refuses nothing. Start
// reading at Is.
package missingkind

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Is reports whether an error is that the API server does not serve a kind: of a RESTMapper, or NotFound of a request that it has sent all the
// same. Of a request for one object NotFound is also that there is no such object.
func Is(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// Ignore returns nil for an error that [Is] finds, and all others as they are.
func Ignore(err error) error {
	if Is(err) {
		return nil
	}
	return err
}
