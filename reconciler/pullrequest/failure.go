package pullrequest

import (
	"errors"
	"net/http"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

// forgeFailure is why pull requests cannot be commented on, as the status shows it.
type forgeFailure struct {
	reason, message string
	// until is when to come back, zero where nobody knows.
	until time.Time
	// passing is set for what waiting may heal. Its message may differ at each
	// try, and is no news.
	passing bool
}

// Reasons of failures of a forge; others are those of a classified error.
const (
	rateLimited      = "RateLimited"
	unauthorized     = "Unauthorized"
	forbidden        = "Forbidden"
	notFound         = "NotFound"
	refused          = "Refused"
	forgeUnavailable = "ForgeUnavailable"
	setupFailed      = "SetupFailed"
)

// classify is the one place where failures of a forge become reasons.
func classify(err error) forgeFailure {
	t := forgeFailure{message: cleaned(err)}
	var failed *forge.Error
	switch {
	case !errors.As(err, &failed):
		t.reason, t.passing = forgeUnavailable, true
	case !failed.Until.IsZero():
		t.reason, t.until, t.passing = rateLimited, failed.Until, true
	case failed.Code == http.StatusUnauthorized:
		t.reason = unauthorized
	case failed.Code == http.StatusForbidden:
		t.reason = forbidden
	case failed.Code == http.StatusNotFound || failed.Code == http.StatusGone:
		t.reason = notFound
	case failed.Permanent():
		t.reason = refused
	default:
		t.reason, t.passing = forgeUnavailable, true
	}
	return t
}

// classifySetup names what keeps a session from being built.
func classifySetup(err error) forgeFailure {
	if failed := (*forge.Error)(nil); errors.As(err, &failed) {
		return classify(err)
	}
	class, reason, _ := state.Classify(err)
	if class == state.Retry && reason == "Failed" {
		reason = setupFailed
	}
	return forgeFailure{reason: reason, message: cleaned(err), passing: class != state.Fix}
}
