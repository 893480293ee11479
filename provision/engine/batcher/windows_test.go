package batcher

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	idle    = 100 * time.Millisecond
	maximum = 10 * time.Second
)

// newBatcher returns a batcher whose pods have owners that are as complete as that.
func newBatcher(clk *clocktesting.FakeClock, is *completeness) *Batcher {
	b := New(clk, NewWindows(idle, idle, maximum), &Owners{})
	b.completeness = func(context.Context, map[owner]int) completeness { return *is }
	return b
}

func TestAWindowClosesWhenNothingNewWasAddedForItsIdleTime(t *testing.T) {
	type step struct {
		after time.Duration
		add   types.UID
	}
	steady := func(n int, every time.Duration) []step {
		var steps []step
		for i := range n {
			steps = append(steps, step{every, types.UID(rune('a' + i))})
		}
		return steps
	}
	for _, test := range []struct {
		name   string
		owners completeness
		steps  []step
		// left is after how long the window closes after the last step.
		left time.Duration
	}{
		{"one pod", unknown, []step{{0, "a"}}, idle},
		{"a second pod extends it", unknown, []step{{0, "a"}, {60 * time.Millisecond, "b"}}, idle},
		{"the same pod does not", unknown, []step{{0, "a"}, {60 * time.Millisecond, "a"}}, 40 * time.Millisecond},
		{"a pod that an earlier batch had does not", unknown, []step{{0, "a"}, {60 * time.Millisecond, "earlier"}}, 40 * time.Millisecond},
		{"such a pod alone has a window of its own", unknown, []step{{time.Second, "earlier"}}, idle},
		{"forty pods within half a second are one batch", unknown, steady(40, 12*time.Millisecond), idle},
		{"pods that keep coming do not hold it open beyond its maximum", unknown, steady(200, 50*time.Millisecond), maximum - 199*50*time.Millisecond},
		{"one pod whose owner has all its pods", complete, []step{{0, "a"}}, completeIdle},
		{"a second one of such owners extends it", complete, []step{{0, "a"}, {20 * time.Millisecond, "b"}}, completeIdle},
		{"one pod whose owner has not all its pods, until they are counted again", incomplete, []step{{0, "a"}}, countLifetime},
		{"such pods, just before Karpenter's own window closes", incomplete, []step{{0, "a"}, {970 * time.Millisecond, "a"}}, 30 * time.Millisecond},
		{"pods of such owners do not hold it open beyond its maximum", incomplete, steady(12, 830*time.Millisecond), countLifetime},
	} {
		t.Run(test.name, func(t *testing.T) {
			clk := clocktesting.NewFakeClock(time.Now())
			b := newBatcher(clk, &test.owners)
			b.Trigger("earlier")
			b.done(sets.New[types.UID]("earlier"))
			for i, s := range test.steps {
				clk.Step(s.after)
				b.Trigger(s.add)
				if batch, _ := b.closed(t.Context()); i < len(test.steps)-1 && batch != nil {
					t.Fatalf("closed at step %d", i)
				}
			}
			batch, left := b.closed(t.Context())
			if diff := cmp.Diff(test.left, left); diff != "" || batch != nil {
				t.Fatalf("batch %v (-want +got):\n%s", batch, diff)
			}
			if test.owners == incomplete {
				left = min(stockIdle, maximum-clk.Since(b.first))
			}
			clk.Step(left)
			if batch, _ := b.closed(t.Context()); batch.Len() == 0 {
				t.Error("not closed then")
			}
		})
	}
}

func TestWindowsOfAnIdleTime(t *testing.T) {
	for _, test := range []struct {
		name string
		idle time.Duration
		want Windows
	}{
		{"the default", idle, Windows{Complete: completeIdle, Idle: idle, Incomplete: stockIdle, Maximum: maximum}},
		{"a longer one is kept whatever the owners", 5 * time.Second, Windows{Complete: 5 * time.Second, Idle: 5 * time.Second, Incomplete: 5 * time.Second, Maximum: maximum}},
		{"a shorter one", 10 * time.Millisecond, Windows{Complete: 10 * time.Millisecond, Idle: 10 * time.Millisecond, Incomplete: stockIdle, Maximum: maximum}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, NewWindows(test.idle, idle, maximum)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is added while the owners are read was not among them.
func TestAPodThatComesWhileOwnersAreReadIsWaitedFor(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	is := complete
	b := newBatcher(clk, &is)
	b.completeness = func(context.Context, map[owner]int) completeness {
		b.Trigger("b")
		return complete
	}
	b.Trigger("a")
	clk.Step(completeIdle)
	if batch, left := b.closed(t.Context()); batch != nil || left != idle {
		t.Errorf("got %v, closes after %s", batch, left)
	}
	if batch, left := b.closed(t.Context()); batch != nil || left != completeIdle {
		t.Errorf("and then %v, closes after %s", batch, left)
	}
}

func TestWhatIsRemovedWhileOwnersAreReadLeavesNoWindow(t *testing.T) {
	b := newBatcher(clocktesting.NewFakeClock(time.Now()), new(completeness))
	b.completeness = func(context.Context, map[owner]int) completeness {
		b.Remove("a")
		return unknown
	}
	b.Trigger("a")
	if batch, left := b.closed(t.Context()); batch != nil || left != 0 {
		t.Errorf("got %v, closes after %s", batch, left)
	}
}

func TestTheNextWindowBeginsWhenABatchWasScheduled(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	b := newBatcher(clk, new(completeness))
	b.Trigger("a")
	clk.Step(maximum)
	b.Trigger("b")
	b.done(sets.New[types.UID]("a"))
	if batch, left := b.closed(t.Context()); batch != nil || left != idle {
		t.Errorf("got %v, closes after %s", batch, left)
	}
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	b := newBatcher(clocktesting.NewFakeClock(time.Now()), new(completeness))
	if batch := b.wait(ctx); batch != nil {
		t.Errorf("without a pod it got %v", batch)
	}
	b.Trigger("a")
	if batch := b.wait(ctx); batch != nil {
		t.Errorf("in a window that is open it got %v", batch)
	}
}

// timerClock is a clock that steps by hand and sends the time of each timer that was started.
type timerClock struct {
	*clocktesting.FakeClock
	started chan time.Duration
}

func (c timerClock) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	c.started <- d
	return timer
}

// The last pod of an owner closes a window that would otherwise stay open for a second.
func TestAWindowClosesAsSoonAsTheOwnersAreComplete(t *testing.T) {
	clk := timerClock{clocktesting.NewFakeClock(time.Now()), make(chan time.Duration)}
	var all atomic.Bool
	b := New(clk, NewWindows(idle, idle, maximum), &Owners{})
	b.completeness = func(context.Context, map[owner]int) completeness {
		if all.Load() {
			return complete
		}
		return incomplete
	}
	b.Trigger("a")
	<-b.arrived // So that only the last pod wakes it.
	got := make(chan sets.Set[types.UID], 1)
	go func() { got <- b.wait(t.Context()) }()
	if d := <-clk.started; d != countLifetime {
		t.Fatalf("without the last pod the timer is of %s, want %s", d, countLifetime)
	}
	all.Store(true)
	b.Trigger("b")
	if d := <-clk.started; d != completeIdle {
		t.Fatalf("with the last pod the timer is of %s, want %s", d, completeIdle)
	}
	clk.Step(completeIdle)
	if batch := <-got; batch.Len() != 2 {
		t.Errorf("got %v", batch)
	}
}
