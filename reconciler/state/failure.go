package state

import (
	"errors"
	"fmt"
	"time"

	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// Problem is what is wrong in a file of the repository: not an error of ours, but a
// finding with a place and a remedy.
type Problem struct {
	Origin Origin
	// Code and Facts are Message as data.
	Code  finding.Code  `json:",omitempty"`
	Facts finding.Facts `json:",omitempty"`
	// Message is what is wrong and what to do about it.
	Message string
	// Object is the object that it is about, with whose key Message begins; else zero.
	Object Key `json:",omitzero"`
	// Field is the path of the field of Object that it is about, as in spec.list[0].field,
	// where it is about one alone; else empty.
	Field string `json:",omitempty"`
	// Detail is what Message has after the object and the field.
	Detail string `json:",omitempty"`
	// Manual is true where it is about one of Karpenter's old APIs, and no conversion does
	// what a person has to.
	Manual bool `json:",omitempty"`
	// Omitted is how many problems this one stands for, which are not listed. Default 0,
	// for one that stands for itself.
	Omitted int `json:",omitempty"`
	// UnknownField is the path of the field that the schema of the object's kind does not
	// have, where that is what is wrong, as in spec.list[0].field; else empty.
	UnknownField string `json:",omitempty"`
	// DuplicateKey is the key that a mapping has twice, where that is what is wrong; else
	// empty.
	DuplicateKey string `json:",omitempty"`
	// Rule is true where a CEL rule of the schema refuses the object. RuleFields are then the names of the fields whose
	// values the rule reads, separated by spaces, "self" for the field that the rule is at; empty where it only reads
	// which fields there are.
	Rule       bool   `json:",omitempty"`
	RuleFields string `json:",omitempty"`
}

// NewProblem is a finding about what is written at a place.
func NewProblem(at Origin, f finding.Finding) Problem {
	return Problem{Origin: at, Code: f.Code, Facts: f.Facts, Message: f.Text}
}

// Count is how many problems this one stands for.
func (p Problem) Count() int { return max(p.Omitted, 1) }

// Identity is what the problem has in common with the same one in another revision: all
// but the line, since lines move.
func (p Problem) Identity() Problem {
	p.Origin.Line = 0
	return p
}

// String writes file:line: message.
func (p Problem) String() string {
	if p.Origin == (Origin{}) {
		return p.Message
	}
	return p.Origin.String() + ": " + p.Message
}

// Failure classes decide what the controller does next. They are found with
// errors.As through Classify, so that wrapping keeps them.
type classifiedError struct {
	class  FailureClass
	reason string
	at     time.Duration
	err    error
}

// FailureClass is what a failure requires of the controller.
type FailureClass int

// The three classes of failure. An error without a class is Retry.
const (
	// Retry: something outside may recover at any time; back off.
	Retry FailureClass = iota
	// Wait: nothing will change before a known time or event.
	Wait
	// Stalled: only a new commit or a changed Sync can help; stop.
	Stalled
)

// String names the class as logs and metrics do.
func (c FailureClass) String() string { return [...]string{"retry", "wait", "stalled"}[c] }

func (f *classifiedError) Error() string { return f.err.Error() }
func (f *classifiedError) Unwrap() error { return f.err }

// Fail gives err a class and a reason, the CamelCase name that becomes the condition's
// reason (for example "AuthenticationFailed"). It returns nil for a nil err.
func Fail(class FailureClass, reason string, err error) error {
	if err == nil {
		return nil
	}
	return &classifiedError{class: class, reason: reason, err: err}
}

// WaitFor is Fail with class Wait and the time after which to try again.
func WaitFor(after time.Duration, reason string, err error) error {
	if err == nil {
		return nil
	}
	return &classifiedError{class: Wait, reason: reason, at: after, err: err}
}

// Classify returns the class, reason and wait of the outermost classified
// error in err's tree. An unclassified error is Retry with reason "Failed".
func Classify(err error) (FailureClass, string, time.Duration) {
	if f, ok := errors.AsType[*classifiedError](err); ok {
		return f.class, f.reason, f.at
	}
	return Retry, "Failed", 0
}

// Failf is Fail with a formatted message.
func Failf(class FailureClass, reason, format string, args ...any) error {
	return Fail(class, reason, fmt.Errorf(format, args...))
}
