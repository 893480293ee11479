package child

import (
	"errors"
	"regexp"
	"time"

	"github.com/poolwright/poolwright/reconciler/state"
)

// errorObject is an error with its class.
type errorObject struct {
	Class  state.FailureClass `json:"class"`
	Reason string             `json:"reason"`
	After  time.Duration      `json:"after,omitempty"`
	Text   string             `json:"text"`
}

func errorObjectOf(err error) *errorObject {
	class, reason, after := state.Classify(err)
	return &errorObject{Class: class, Reason: reason, After: after, Text: err.Error()}
}

// conditionReason is the form of a reason: it becomes that of a condition.
var conditionReason = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

// maxAfter is the longest that a child can have its caller wait.
const maxAfter = time.Hour

// err is the error again, of the same class. A child is not trusted: a reason of another form is left out,
// so the error is one for another attempt, and the wait is limited.
func (f *errorObject) err() error {
	text := errors.New(shortened(f.Text, maxFailureBytes))
	if !conditionReason.MatchString(f.Reason) {
		return text
	}
	switch f.Class {
	case state.Stalled:
		return state.Fail(state.Stalled, f.Reason, text)
	case state.Wait:
		return state.WaitFor(min(max(f.After, 0), maxAfter), f.Reason, text)
	case state.Retry:
	}
	return text
}
