// Package failure names why pull requests cannot be commented on.
package failure

import (
	"errors"
	"net/http"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Failure is why pull requests cannot be commented on.
type Failure struct {
	// Reason and Message are those of status.pullRequests; both are empty where nothing failed.
	Reason, Message string
	// Until is when to call the forge again, zero where it is not known.
	Until time.Time
	// Transient is set where the next call may succeed though nobody changed anything. The
	// Message may differ at each call.
	Transient bool
}

// Reasons of failures of a forge; others are those of a classified error.
const (
	// RateLimited is the reason where the forge allows no more calls for a while.
	RateLimited = "RateLimited"

	unauthorized     = "Unauthorized"
	forbidden        = "Forbidden"
	notFound         = "NotFound"
	refused          = "Refused"
	forgeUnavailable = "ForgeUnavailable"
	setupFailed      = "SetupFailed"
)

// Classify returns the failure that an error of a forge is.
func Classify(err error) Failure {
	t := Failure{Message: Text(err)}
	var failed *forge.Error
	switch {
	case !errors.As(err, &failed):
		t.Reason, t.Transient = forgeUnavailable, true
	case !failed.Until.IsZero():
		t.Reason, t.Until, t.Transient = RateLimited, failed.Until, true
	case failed.Code == http.StatusUnauthorized:
		t.Reason = unauthorized
	case failed.Code == http.StatusForbidden:
		t.Reason = forbidden
	case failed.Code == http.StatusNotFound || failed.Code == http.StatusGone:
		t.Reason = notFound
	case failed.Permanent():
		t.Reason = refused
	default:
		t.Reason, t.Transient = forgeUnavailable, true
	}
	return t
}

// ClassifySetup returns the failure that an error is with which a ForgeAccess could not be built.
func ClassifySetup(err error) Failure {
	if failed := (*forge.Error)(nil); errors.As(err, &failed) {
		return Classify(err)
	}
	class, reason, _ := state.Classify(err)
	if class == state.Retry && reason == "Failed" {
		reason = setupFailed
	}
	return Failure{Reason: reason, Message: Text(err), Transient: class != state.Stalled}
}

// Text is the message of an error as it may be shown: what comes from Git, AWS or a
// manifest may hold a password or a token.
func Text(err error) string { return sanitize.Text(err.Error()) }
