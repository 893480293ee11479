package timeout_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/poolwright/poolwright/reconciler/timeout"
)

func TestWhatIsWaitedIsNotWork(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	ctx, m := timeout.Start(t.Context(), c, time.Minute)
	c.Step(20 * time.Second)
	first, second := timeout.Pause(ctx), timeout.Pause(ctx)
	c.Step(time.Hour)
	first()
	first() // Twice is once.
	c.Step(time.Hour)
	second()
	c.Step(20 * time.Second)
	if ctx.Err() != nil {
		t.Fatalf("it ended by waiting: %v", context.Cause(ctx))
	}
	resume := timeout.Pause(ctx)
	c.Step(time.Minute)
	if got := m.Stop(); got != 40*time.Second || ctx.Err() == nil {
		t.Errorf("worked %s, %v", got, ctx.Err())
	}
	resume()
	c.Step(time.Minute)
	if got := m.Stop(); got != 40*time.Second || c.HasWaiters() {
		t.Errorf("after its end: worked %s, a timer runs: %v", got, c.HasWaiters())
	}
}

func TestWorkEndsAtItsLimit(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	ctx, m := timeout.Start(t.Context(), c, time.Minute)
	c.Step(40 * time.Second)
	resume := timeout.Pause(ctx)
	c.Step(time.Hour)
	resume()
	c.Step(19 * time.Second)
	if ctx.Err() != nil {
		t.Fatalf("it ended after 59 s of work: %v", context.Cause(ctx))
	}
	c.Step(time.Second)
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		t.Errorf("it goes on after 60 s of work: %v", context.Cause(ctx))
	}
	if got := m.Stop(); got != time.Minute {
		t.Errorf("worked %s", got)
	}
}

func TestWhatIsNotMeasuredMayWait(*testing.T) { timeout.Pause(context.Background())() }
