package wiretap

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// Action is what happens to a request.
type Action string

// The actions.
const (
	// Kill runs Fault.Call, which ends the client; the client gets no response, and sends
	// nothing more. Before the server's work, the server gets no request.
	Kill Action = "kill"
	// Drop breaks the connection off: before the server's work, the server gets no request;
	// after it, the client no response.
	Drop Action = "drop"
	// Respond returns Fault.Status: before the server's work, the server gets no request; after
	// it, the client gets nothing else.
	Respond Action = "respond"
	// Delay waits for Fault.Wait.
	Delay Action = "delay"
	// Truncate breaks the connection off in the middle of the response.
	Truncate Action = "truncate"
	// Duplicate sends the request to the server twice; the client gets the second response.
	Duplicate Action = "duplicate"
	// Call runs Fault.Call and goes on.
	Call Action = "call"
)

// NoNamespace is Point.Namespace of requests for what is in no namespace, or in all.
const NoNamespace = "-"

// Point names requests. An empty field matches any.
type Point struct {
	Wire      trace.Wire `json:"wire"`
	Verb      string     `json:"verb"`
	Kind      string     `json:"kind"`
	Namespace string     `json:"namespace,omitempty"`
	// DryRun is whether requests of the verb are dry runs, all of them or none.
	DryRun bool `json:"dryRun,omitempty"`
}

// String is wire, verb and kind, with a dry run and the namespace in brackets.
func (p Point) String() string {
	text := fmt.Sprintf("%s %s %s", p.Wire, trace.VerbText(p.Verb, p.DryRun), p.Kind)
	if p.Namespace != "" {
		text += " (" + p.Namespace + ")"
	}
	return text
}

func (p Point) matches(q *trace.Request) bool {
	return (p.Wire == "" || p.Wire == q.Wire) && (p.Verb == "" || p.Verb == q.Verb && p.DryRun == q.DryRun) && (p.Kind == "" || p.Kind == q.Kind) &&
		(p.Namespace == "" || p.Namespace == q.Namespace || p.Namespace == NoNamespace && q.Namespace == "")
}

// Fault is what is to happen at one request.
type Fault struct {
	// At and Nth choose the request: the first of that point where Nth is 0 or 1.
	At  Point
	Nth int
	// For has the fault happen to each request of the point from the first one on, for that
	// long. It is not for Kill.
	For time.Duration
	// After is the side of the server's work on which it happens.
	After bool
	Do    Action
	// Status and Header belong to Respond, Wait to Delay, Call to Kill and Call; Call is given
	// the request.
	Status int
	Header http.Header
	Wait   time.Duration
	Call   func(trace.Request)
}

// String is the action and its side.
func (f Fault) String() string {
	if f.After {
		return string(f.Do) + " after"
	}
	return string(f.Do) + " before"
}

// Armed is a fault that waits for its request.
type Armed struct {
	tap     *Tap
	fault   Fault
	matched int
	met     *trace.Request
	since   time.Time // when it was met first
	done    chan struct{}
	once    sync.Once // for done
}

// Arm lets a fault wait from now on. Requests before that do not count.
func (t *Tap) Arm(f Fault) *Armed {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := &Armed{tap: t, fault: f, done: make(chan struct{})}
	t.armed = append(t.armed, a)
	return a
}

// Done is closed once the fault has happened.
func (a *Armed) Done() <-chan struct{} { return a.done }

// Disarm takes the fault back unless its request has come, and reports whether it has.
func (a *Armed) Disarm() (met bool) {
	a.tap.mu.Lock()
	defer a.tap.mu.Unlock()
	a.tap.armed = slices.DeleteFunc(a.tap.armed, func(o *Armed) bool { return o == a })
	return a.met != nil
}
