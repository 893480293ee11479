package sqs

import (
	"fmt"
	"slices"
	"time"
)

// queue is one SQS queue.
type queue struct {
	name              string
	created, modified time.Time
	attributes        map[string]string // that can be set; every one has its value or default
	policy            *queuePolicy      // the attribute Policy, nil without
	tags              map[string]string
	messages          []*message
	received          int           // for receipt handles
	arrived           chan struct{} // closed and replaced whenever a message may have become visible
}

type message struct {
	id, body string
	sent     time.Time
	hidden   time.Time // invisible until then
	receipt  string    // of the last receive
	received time.Time // for the first time
	receives int
}

// changed wakes every waiting receiver.
func (q *queue) changed() {
	close(q.arrived)
	q.arrived = make(chan struct{})
}

// put adds a message. The caller holds the lock.
func (q *queue) put(id, body string, now time.Time) {
	q.expire(now)
	q.messages = append(q.messages, &message{id: id, body: body, sent: now, hidden: now.Add(q.seconds("DelaySeconds"))})
	q.changed()
}

// expire drops what is too old, so that a queue without a reader stays small.
func (q *queue) expire(now time.Time) {
	q.messages = slices.DeleteFunc(q.messages, func(m *message) bool { return now.Sub(m.sent) > q.seconds("MessageRetentionPeriod") })
}

// take hands out up to n visible messages and hides them for so long.
func (q *queue) take(n int, hide time.Duration, now time.Time) []*message {
	q.expire(now)
	var out []*message
	for _, m := range q.messages {
		if len(out) < n && !now.Before(m.hidden) {
			q.received++
			m.receipt = fmt.Sprintf("%s-%d", m.id, q.received)
			m.hidden = now.Add(hide)
			if m.receives == 0 {
				m.received = now
			}
			m.receives++
			out = append(out, m)
		}
	}
	return out
}
