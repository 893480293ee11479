package demo

import (
	"context"
	"sync"
	"time"
)

// The events of the stories, in their order. Scripts depend on these names.
const (
	worldReady         = "sandbox.ready"
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
	pullTold           = "comment.created"
	pullPushed         = "pullrequest.pushed"
	pullRetold         = "comment.edited"
	commitPushed       = "commit.pushed"
	commitApplied      = "commit.applied"
	pullDone           = "comment.concluded"
	podDeleted         = "pod.deleted"
	instanceTerminated = "instance.terminated"
	worldZero          = "nodes.zero"
	storySummary       = "summary"
)

// What only some set-ups' stories have.
const (
	apiFollowed        = "api.followed"
	gpuShared          = "gpu.shared"
	nodeKept           = "node.kept"
	nodeClaimDeleted   = "nodeclaim.deleted"
	nodeDrained        = "node.drained"
	spotInterrupted    = "spot.interrupted"
	nodeGroupUntouched = "nodegroup.untouched"
)

// Event is one line of a story.
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

// timeline collects events as watches see them and hands them out in the order
// of the story. Only the first event of a name counts.
type timeline struct {
	mu      sync.Mutex
	seen    map[string]Event
	changed chan struct{}
}

func newTimeline() *timeline {
	return &timeline{seen: map[string]Event{}, changed: make(chan struct{})}
}

// mark records that something happened at a time.
func (t *timeline) mark(name, object, detail string, at time.Time) {
	t.note(Event{Event: name, At: at, Object: object, Detail: detail})
}

// comment records that Poolwright wrote a comment, with its most important line.
func (t *timeline) comment(name, object, line, body string, at time.Time) {
	t.note(Event{Event: name, At: at, Object: object, Detail: line, Comment: body})
}

func (t *timeline) note(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, twice := t.seen[e.Event]; twice {
		return
	}
	t.seen[e.Event] = e
	close(t.changed)
	t.changed = make(chan struct{})
}

// await returns the event of that name as soon as it has happened.
func (t *timeline) await(ctx context.Context, name string) (Event, error) {
	for {
		t.mu.Lock()
		e, ok := t.seen[name]
		wake := t.changed
		t.mu.Unlock()
		if ok {
			return e, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}

// has tells whether an event has been seen.
func (t *timeline) has(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, seen := t.seen[name]
	return seen
}

// between is the time from one event to another, in seconds; false where not both
// have been seen.
func (t *timeline) between(from, to string) (float64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	begin, began := t.seen[from]
	end, ended := t.seen[to]
	return end.At.Sub(begin.At).Seconds(), began && ended
}
