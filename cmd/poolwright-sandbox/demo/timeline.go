package demo

import (
	"context"
	"sync"
	"time"
)

// The events of the runs, in their order. Scripts depend on these names.
const (
	sandboxReady       = "sandbox.ready"
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
	commentCreated     = "comment.created"
	pullPushed         = "pullrequest.pushed"
	commentEdited      = "comment.edited"
	commitPushed       = "commit.pushed"
	commitApplied      = "commit.applied"
	commentConcluded   = "comment.concluded"
	podDeleted         = "pod.deleted"
	instanceTerminated = "instance.terminated"
	nodesZero          = "nodes.zero"
	summaryEvent       = "summary"
)

// What only some set-ups' runs have.
const (
	apiFollowed        = "api.followed"
	gpuShared          = "gpu.shared"
	nodeKept           = "node.kept"
	nodeClaimDeleted   = "nodeclaim.deleted"
	nodeDrained        = "node.drained"
	spotInterrupted    = "spot.interrupted"
	nodeGroupReady     = "nodegroup.ready"
	nodeGroupUntouched = "nodegroup.untouched"
)

// Event is one line of a run.
type Event struct {
	// Event is one of the names in docs/events.md, Object what it happened to.
	Event  string    `json:"event"`
	At     time.Time `json:"at"`
	Object string    `json:"object"`
	// Detail is a sentence, or a summary.
	Detail any `json:"detail"`
	// Comment is the Markdown that Poolwright wrote; empty where it wrote none.
	Comment string `json:"comment,omitempty"`
}

// timeline collects events as watches report them and hands them out in the order
// of the run. Only the first event of a name counts.
type timeline struct {
	mu       sync.Mutex
	recorded map[string]Event
	changed  chan struct{}
}

func newTimeline() *timeline {
	return &timeline{recorded: map[string]Event{}, changed: make(chan struct{})}
}

// mark records that something happened at a time.
func (t *timeline) mark(name, object, detail string, at time.Time) {
	t.record(Event{Event: name, At: at, Object: object, Detail: detail})
}

// comment records that Poolwright wrote a comment, with its most important line.
func (t *timeline) comment(name, object, line, body string, at time.Time) {
	t.record(Event{Event: name, At: at, Object: object, Detail: line, Comment: body})
}

func (t *timeline) record(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, twice := t.recorded[e.Event]; twice {
		return
	}
	t.recorded[e.Event] = e
	close(t.changed)
	t.changed = make(chan struct{})
}

// wait returns the event of that name as soon as it has happened.
func (t *timeline) wait(ctx context.Context, name string) (Event, error) {
	for {
		t.mu.Lock()
		e, ok := t.recorded[name]
		changed := t.changed
		t.mu.Unlock()
		if ok {
			return e, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}

// has reports whether an event was recorded.
func (t *timeline) has(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.recorded[name]
	return known
}

// between is the time from one event to another, in seconds; false where not both
// have been recorded.
func (t *timeline) between(from, to string) (float64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	begin, began := t.recorded[from]
	end, ended := t.recorded[to]
	return end.At.Sub(begin.At).Seconds(), began && ended
}
