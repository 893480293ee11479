package pullrequest

import (
	"errors"
	"net/http"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

// The bounds of waiting after failures: exponential from the first to the last.
const (
	firstPause = 5 * time.Second
	lastPause  = 5 * time.Minute
	// longestLimit is how long a forge's word that its rate limit is used up is
	// believed.
	longestLimit = time.Hour
)

// pace counts failures in a row, and says until when to rest after them.
type pace struct {
	failures int
	rest     time.Time
}

// failed notes one more failure. A known moment to come back overrules the back-off.
func (p *pace) failed(now, until time.Time) {
	pause := min(firstPause<<min(p.failures, 10), lastPause)
	p.failures++
	p.rest = now.Add(pause)
	if until.After(now) {
		p.rest = until
		if late := now.Add(longestLimit); until.After(late) {
			p.rest = late
		}
	}
}

// trouble is why pull requests cannot be told anything, as the status says it.
type trouble struct {
	reason, message string
	// until is when to come back, zero where nobody knows.
	until time.Time
	// passing is set for what waiting may heal. Its message may differ at each
	// try, and is no news.
	passing bool
}

// Reasons of trouble with a forge; others are those of a classified error.
const (
	rateLimited      = "RateLimited"
	unauthorized     = "Unauthorized"
	forbidden        = "Forbidden"
	notFound         = "NotFound"
	refused          = "Refused"
	forgeUnavailable = "ForgeUnavailable"
	setupFailed      = "SetupFailed"
)

// judge is the one place where failures of a forge become reasons.
func judge(err error) trouble {
	t := trouble{message: cleaned(err)}
	var said *forge.Error
	switch {
	case !errors.As(err, &said):
		t.reason, t.passing = forgeUnavailable, true
	case !said.Until.IsZero():
		t.reason, t.until, t.passing = rateLimited, said.Until, true
	case said.Code == http.StatusUnauthorized:
		t.reason = unauthorized
	case said.Code == http.StatusForbidden:
		t.reason = forbidden
	case said.Code == http.StatusNotFound || said.Code == http.StatusGone:
		t.reason = notFound
	case said.Permanent():
		t.reason = refused
	default:
		t.reason, t.passing = forgeUnavailable, true
	}
	return t
}

// judgeSetup names what keeps a session from being built.
func judgeSetup(err error) trouble {
	if said := (*forge.Error)(nil); errors.As(err, &said) {
		return judge(err)
	}
	class, reason, _ := state.Classify(err)
	if class == state.Retry && reason == "Failed" {
		reason = setupFailed
	}
	return trouble{reason: reason, message: cleaned(err), passing: class != state.Fix}
}
