package notification

import (
	"sync"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1"
)

// queue are the events that wait, oldest first. What is newer is worth more: where it is full, the oldest gives way.
type queue struct {
	// arrived has an element where events may wait.
	arrived chan struct{}

	mu     sync.Mutex
	events []eventv1.Event
	ended  bool
}

func newQueue() *queue { return &queue{arrived: make(chan struct{}, 1)} }

// put adds an event, and returns how many are dropped for that. After the end that is the event itself.
func (q *queue) put(event eventv1.Event) (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return 1
	}
	if len(q.events) == queueLength {
		q.events, dropped = q.events[1:], 1
	}
	q.events = append(q.events, event)
	select {
	case q.arrived <- struct{}{}:
	default:
	}
	return dropped
}

// take returns the oldest event; false where none waits.
func (q *queue) take() (eventv1.Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == 0 {
		return eventv1.Event{}, false
	}
	event := q.events[0]
	q.events = q.events[1:]
	return event, true
}

// end has the queue take no more, and returns how many events were left in it.
func (q *queue) end() (left int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	left, q.events, q.ended = len(q.events), nil, true
	return left
}
