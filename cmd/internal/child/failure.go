package child

import (
	"errors"
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

// err is the error again, of the same class.
func (f *errorObject) err() error {
	text := errors.New(shortened(f.Text, maxFailureBytes))
	switch f.Class {
	case state.Stalled:
		return state.Fail(state.Stalled, f.Reason, text)
	case state.Wait:
		return state.WaitFor(f.After, f.Reason, text)
	case state.Retry:
	}
	return text
}
