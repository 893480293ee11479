// Package worktime measures and bounds how long something works, without the time that
// it waits for what others hold: a place among the children, a token of a shared limiter.
package worktime

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Meter counts the time of one piece of work. It is safe for concurrent use.
type Meter struct {
	clock  clock.WithDelayedExecution
	cancel context.CancelCauseFunc
	limit  time.Duration

	mu sync.Mutex
	// worked is the time up to the last pause, since when it has gone on after that.
	worked time.Duration
	since  time.Time
	timer  clock.Timer
	// waiting is how many wait now; the time stands still while any does.
	waiting int
	// round counts how often it went on: a timer of an earlier one ends nothing.
	round   int
	stopped bool
}

type key struct{}

// Start begins to count. The context ends when ctx does, or once the work has taken the
// limit without what it waited; the cause is context.DeadlineExceeded then.
func Start(ctx context.Context, c clock.WithDelayedExecution, limit time.Duration) (context.Context, *Meter) {
	ctx, cancel := context.WithCancelCause(ctx)
	m := &Meter{clock: c, cancel: cancel, limit: limit}
	m.resume()
	return context.WithValue(ctx, key{}, m), m
}

// Wait pauses the Meter that ctx is of, if it is of one, until resume is called. It may be
// nested, and called by several at once.
func Wait(ctx context.Context) (resume func()) {
	m, ok := ctx.Value(key{}).(*Meter)
	if !ok {
		return func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting == 0 && !m.stopped {
		m.pause()
	}
	m.waiting++
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.waiting--; m.waiting == 0 && !m.stopped {
			m.resume()
		}
	})
}

// Stop ends the context, and returns how long was worked.
func (m *Meter) Stop() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting == 0 && !m.stopped {
		m.pause()
	}
	m.stopped = true
	m.cancel(nil)
	return m.worked
}

func (m *Meter) resume() {
	m.round++
	round := m.round
	m.since = m.clock.Now()
	m.timer = m.clock.AfterFunc(max(m.limit-m.worked, 0), func() { m.expire(round) })
}

func (m *Meter) pause() {
	m.timer.Stop()
	m.worked += m.clock.Since(m.since)
}

func (m *Meter) expire(round int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if round == m.round && m.waiting == 0 && !m.stopped {
		m.cancel(fmt.Errorf("not done after %s of work: %w", m.limit, context.DeadlineExceeded))
	}
}
