package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// The events of the story, in its order. Scripts depend on these names.
const (
	worldReady         = "world.ready"
	gitPushed          = "git.pushed"
	syncReady          = "sync.ready"
	podPending         = "pod.pending"
	nodeClaimCreated   = "nodeclaim.created"
	fleetRequested     = "fleet.requested"
	nodeRegistered     = "node.registered"
	gpuAllocatable     = "gpu.allocatable"
	nodeInitialized    = "node.initialized"
	podBound           = "pod.bound"
	podRunning         = "pod.running"
	driftInjected      = "drift.injected"
	driftCorrected     = "drift.corrected"
	awsDriftInjected   = "aws.drift.injected"
	awsDriftCorrected  = "aws.drift.corrected"
	pullOpened         = "pullrequest.opened"
	pullTold           = "pullrequest.told"
	pullPushed         = "pullrequest.pushed"
	pullRetold         = "pullrequest.retold"
	commitPushed       = "commit.pushed"
	commitApplied      = "commit.applied"
	pullDone           = "pullrequest.done"
	podDeleted         = "pod.deleted"
	instanceTerminated = "instance.terminated"
	worldZero          = "world.zero"
	storySummary       = "summary"
)

// event is one line of the story.
type event struct {
	Event  string    `json:"event"`
	At     time.Time `json:"at"`
	Object string    `json:"object"`
	// Detail is a sentence, or a summary.
	Detail any `json:"detail"`
	// Comment is the Markdown that Poolwright wrote; empty where it wrote none.
	Comment string `json:"comment,omitempty"`
}

// summary is the detail of the last event.
type summary struct {
	PendingToFleetSeconds      float64 `json:"pendingToFleetSeconds"`
	PendingToRunningSeconds    float64 `json:"pendingToRunningSeconds"`
	DriftSeconds               float64 `json:"driftSeconds"`
	CommitSeconds              float64 `json:"commitSeconds"`
	DeletedToTerminatedSeconds float64 `json:"deletedToTerminatedSeconds"`
	GPUNodes                   int     `json:"gpuNodes"`
	CostUSD                    float64 `json:"costUSD"`
}

// timeline collects events as watches see them and hands them out in the order
// of the story. Only the first event of a name counts.
type timeline struct {
	mu   sync.Mutex
	seen map[string]event
	wake chan struct{}
}

func newTimeline() *timeline {
	return &timeline{seen: map[string]event{}, wake: make(chan struct{})}
}

// mark records that something happened at a time.
func (t *timeline) mark(name, object, detail string, at time.Time) {
	t.note(event{Event: name, At: at, Object: object, Detail: detail})
}

// comment records that Poolwright wrote a comment, with its most important line.
func (t *timeline) comment(name, object, line, body string, at time.Time) {
	t.note(event{Event: name, At: at, Object: object, Detail: line, Comment: body})
}

func (t *timeline) note(e event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, twice := t.seen[e.Event]; twice {
		return
	}
	t.seen[e.Event] = e
	close(t.wake)
	t.wake = make(chan struct{})
}

// await returns the event of that name as soon as it has happened.
func (t *timeline) await(ctx context.Context, name string) (event, error) {
	for {
		t.mu.Lock()
		e, ok := t.seen[name]
		wake := t.wake
		t.mu.Unlock()
		if ok {
			return e, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return event{}, context.Cause(ctx)
		}
	}
}

// between is the time from one event to another, in seconds.
func (t *timeline) between(from, to string) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen[to].At.Sub(t.seen[from].At).Seconds()
}

// teller prints events.
type teller interface {
	tell(event)
}

// jsonTeller prints one event a line.
type jsonTeller struct{ out io.Writer }

func (j jsonTeller) tell(e event) {
	e.At = e.At.UTC().Truncate(time.Millisecond)
	encoder := json.NewEncoder(j.out)
	encoder.SetEscapeHTML(false)
	// Strings, times and numbers always encode, and nobody is left to tell
	// where the output is closed.
	_ = encoder.Encode(e)
}

// textTeller prints a timeline for a person.
type textTeller struct {
	out   io.Writer
	start time.Time
	last  time.Time
}

func (p *textTeller) tell(e event) {
	if s, ok := e.Detail.(summary); ok {
		p.sums(s)
		return
	}
	// The story's order is not always the clock's: a pod may be bound before
	// Karpenter calls its node initialized. Only steps forward have a length.
	since := "       "
	if !p.last.IsZero() && e.At.After(p.last) {
		since = fmt.Sprintf("%+6.2fs", e.At.Sub(p.last).Seconds())
	}
	if e.At.After(p.last) {
		p.last = e.At
	}
	fmt.Fprintf(p.out, "%7.2fs %s  %-20s %-45s %s\n", e.At.Sub(p.start).Seconds(), since, e.Event, e.Object, e.Detail)
	// Whoever has read it once wants to know what has changed in it.
	if e.Event == pullTold {
		fmt.Fprintln(p.out, indented(e.Comment))
	}
}

// indented is a comment below its event.
func indented(comment string) string {
	return "\n    | " + strings.ReplaceAll(strings.TrimSpace(comment), "\n", "\n    | ") + "\n"
}

func (p *textTeller) sums(s summary) {
	fmt.Fprintf(p.out, `
  pod pending  -> EC2 asked for a node      %6.2f s
  pod pending  -> pod running on its GPU    %6.2f s
  hand edit    -> put back                  %6.2f s
  commit       -> applied                   %6.2f s
  pod deleted  -> instance terminated       %6.2f s
  GPU nodes left                            %6d
  spent                                    $%.4f
`, s.PendingToFleetSeconds, s.PendingToRunningSeconds, s.DriftSeconds, s.CommitSeconds, s.DeletedToTerminatedSeconds, s.GPUNodes, s.CostUSD)
}
