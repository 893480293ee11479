// Package randomwalk has a controller follow a long random sequence of operations in a
// sandbox: commits, edits by hand, faults at requests, and more. After every few of them it
// ends the faults, waits until all is as declared, has the oracle check the trace and
// measures the controller's process.
//
// The sequence depends on nothing but a seed. Start reading at Run.
package randomwalk

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

// Action is what an operation does.
type Action string

// The actions.
const (
	// Commit declares other values of some objects, or removes them.
	Commit Action = "commit"
	// Revert declares what the commit before the last one did.
	Revert Action = "revert"
	// Edit changes the value of a live object by hand, and Delete deletes one by hand.
	Edit   Action = "edit"
	Delete Action = "delete"
	// Suspend and Resume set spec.suspend.
	Suspend Action = "suspend"
	Resume  Action = "resume"
	// Reconcile requests a run.
	Reconcile Action = "reconcile"
	// Inject has requests meet a fault.
	Inject Action = "inject"
	// Kill ends the controller as a crash does, and Restart starts one.
	Kill    Action = "kill"
	Restart Action = "restart"
	// Check ends faults, waits until all is as declared and checks the trace.
	Check Action = "check"
)

// Operation is one step of a walk. It has an effect, or none, in each state, so that what is
// left of a sequence is a sequence.
type Operation struct {
	Do Action `json:"do"`
	// Values belong to Commit: Kind/name to value, empty where the object is removed.
	Values map[string]string `json:"values,omitempty"`
	// Object belongs to Edit and Delete: Kind/name.
	Object string `json:"object,omitempty"`
	// Fault belongs to Inject; Times is how many requests meet it, or which one kills.
	Fault *Fault `json:"fault,omitempty"`
	Times int    `json:"times,omitempty"`
	// Pause is how long nothing is done afterwards.
	Pause time.Duration `json:"pause,omitempty"`
}

// Fault is what happens to a request, as in [wiretap.Fault].
type Fault struct {
	At     wiretap.Point  `json:"at"`
	After  bool           `json:"after,omitempty"`
	Do     wiretap.Action `json:"do"`
	Status int            `json:"status,omitempty"`
	Wait   time.Duration  `json:"wait,omitempty"`
}

// String is the operation in one line.
func (o Operation) String() string {
	fields := []string{string(o.Do)}
	if o.Object != "" {
		fields = append(fields, o.Object)
	}
	for _, key := range slices.Sorted(maps.Keys(o.Values)) {
		fields = append(fields, fmt.Sprintf("%s=%q", key, o.Values[key]))
	}
	if f := o.Fault; f != nil {
		parts := []string{string(f.At.Wire), f.At.Verb, f.At.Kind, string(f.Do)}
		if f.After {
			parts = append(parts, "after")
		}
		if f.Status != 0 {
			parts = append(parts, fmt.Sprint(f.Status))
		}
		fields = append(fields, slices.DeleteFunc(append(parts, fmt.Sprintf("x%d", o.Times)), func(p string) bool { return p == "" })...)
	}
	return strings.Join(fields, " ")
}
