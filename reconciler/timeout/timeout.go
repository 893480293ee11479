// Package timeout measures and bounds how long something works, without the time that
// it waits for what others hold: a place among the children, a token of a shared limiter.
package timeout

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Timeout counts the time of one piece of work. It is safe for concurrent use.
type Timeout struct {
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
func Start(ctx context.Context, c clock.WithDelayedExecution, limit time.Duration) (context.Context, *Timeout) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &Timeout{clock: c, cancel: cancel, limit: limit}
	t.resume()
	return context.WithValue(ctx, key{}, t), t
}

// Pause stops the clock of the Timeout that ctx is of, if it is of one, until resume is called.
// It may be nested, and called by several at once.
func Pause(ctx context.Context) (resume func()) {
	t, ok := ctx.Value(key{}).(*Timeout)
	if !ok {
		return func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == 0 && !t.stopped {
		t.stopClock()
	}
	t.waiting++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.waiting--; t.waiting == 0 && !t.stopped {
			t.resume()
		}
	})
}

// Stop ends the context, and returns how long was worked.
func (t *Timeout) Stop() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == 0 && !t.stopped {
		t.stopClock()
	}
	t.stopped = true
	t.cancel(nil)
	return t.worked
}

func (t *Timeout) resume() {
	t.round++
	round := t.round
	t.since = t.clock.Now()
	t.timer = t.clock.AfterFunc(max(t.limit-t.worked, 0), func() { t.expire(round) })
}

// stopClock counts before it stops the timer: whoever steps a fake clock once no timer runs must not be charged for that.
func (t *Timeout) stopClock() {
	t.worked += t.clock.Since(t.since)
	t.timer.Stop()
}

func (t *Timeout) expire(round int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if round == t.round && t.waiting == 0 && !t.stopped {
		t.cancel(fmt.Errorf("not done after %s of work: %w", t.limit, context.DeadlineExceeded))
	}
}
