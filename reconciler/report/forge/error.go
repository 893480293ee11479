package forge

import (
	"fmt"
	"strings"
	"time"
)

// Error is a forge that does not respond, or does not do what was requested. It holds
// no credential: addresses are without user and query, and the forge's message is one
// short line with known forms of tokens masked.
type Error struct {
	// Operation is what was tried: "listing pull requests of o/r".
	Operation string
	// Code is the HTTP status, 0 where there was no response.
	Code int
	// Until is when to try again, where the forge named a time or one of its rate limits
	// is used up; zero otherwise. Calls before it fail without a request.
	Until time.Time
	// Message is the forge's or the network's own text.
	Message string
	// Remedy is what a person can do: which permission is missing and how it is given.
	// Empty where waiting is all there is to do.
	Remedy string
	// Cause is the error below, if any; its text is in Message already.
	Cause error
}

// Error is all but the cause, in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Operation + ": ")
	switch {
	case !e.Until.IsZero():
		fmt.Fprintf(&b, "the forge's rate limit is used up until %s", e.Until.UTC().Format(time.RFC3339))
	case e.Code == 0:
		b.WriteString("no response from the forge")
	default:
		fmt.Fprintf(&b, "the forge responded with status %d", e.Code)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Permanent reports an error that no waiting heals, only a person: a wrong
// credential, a missing permission, a repository or pull request that is not
// there, content that is refused.
func (e *Error) Permanent() bool {
	return e.Until.IsZero() && e.Code >= 400 && e.Code < 500 && e.Code != 408 && e.Code != 409 && e.Code != 429
}
