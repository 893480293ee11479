package apply

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// plannedWaves is a plan with three waves of creations and two of deletions.
func plannedWaves() plan.Plan {
	var p plan.Plan
	for n := range 12 {
		p.Changes = append(p.Changes, change(plan.Create, "w", fmt.Sprintf("new-%d", n), n/4))
	}
	for n := range 6 {
		p.Changes = append(p.Changes, change(plan.Delete, "w", fmt.Sprintf("old-%d", n), n/3))
	}
	return p
}

// After a kill at any write, all that was written is in the intent that was
// recorded before: that is what finds it again.
func TestTheIntentCoversEverythingWrittenWhereverTheRunIsKilled(t *testing.T) {
	writes := int64(len(plannedWaves().Changes))
	for k := int64(0); k <= writes; k++ {
		t.Run(fmt.Sprintf("killed at write %d", k), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := newFakeTarget("w", &journal{})
			// One lock around both: no write may slip in between the one that
			// kills and the kill.
			var mu sync.Mutex
			observed := int64(0)
			w.correct = func(context.Context, plan.Change) error {
				mu.Lock()
				defer mu.Unlock()
				if observed++; observed == k {
					cancel()
				}
				return nil
			}
			if k == 0 {
				cancel()
			}
			got := Run(ctx, plannedWaves(), one(w), Options{Concurrency: 3})
			for _, key := range w.writes {
				if !w.intent[key] {
					t.Errorf("%s was written without intent", key)
				}
			}
			// Writes that were under way at the kill may finish; none starts.
			if n := int64(len(w.writes)); n < k || n > k+2 {
				t.Errorf("%d writes, want %d to %d", n, k, k+2)
			}
			if len(got.Applied()) != len(w.writes) {
				t.Errorf("%d applied, %d written", len(got.Applied()), len(w.writes))
			}
			if n := len(got.Applied()) + len(got.With(NotAttempted)); n != len(got.Results) {
				t.Errorf("%d results are applied or skipped, want %d", n, len(got.Results))
			}
			if begun := len(w.intent) > 0; begun != (w.ended == 1) {
				t.Errorf("begun %v, ended %d times", begun, w.ended)
			}
			if k < writes-2 && !errors.Is(got.Err(), context.Canceled) {
				t.Errorf("Err() = %v, want it to say that the run was stopped", got.Err())
			}
		})
	}
}

func TestTheIntentCoversEverythingWrittenWhereverATargetPanics(t *testing.T) {
	for k := 1; k <= len(plannedWaves().Changes); k++ {
		w := newFakeTarget("w", &journal{})
		var observed atomic.Int64
		w.correct = func(context.Context, plan.Change) error {
			if observed.Add(1) == int64(k) {
				var none []int
				none[k] = 1
			}
			return nil
		}
		got := Run(t.Context(), plannedWaves(), one(w), Options{Concurrency: 1})
		for _, key := range w.writes {
			if !w.intent[key] {
				t.Errorf("panic at %d: %s was written without intent", k, key)
			}
		}
		if len(got.Failed()) != 1 || w.ended != 1 {
			t.Errorf("panic at %d: %d failed, ended %d times", k, len(got.Failed()), w.ended)
		}
		// A creation that panicked keeps all deletions back.
		if want := map[bool]int{true: 6, false: 0}[k <= 12]; len(got.With(NotAttempted)) != want {
			t.Errorf("panic at %d: %d skipped, want %d", k, len(got.With(NotAttempted)), want)
		}
	}
}

func TestTheOutcomeIsRecordedOnAFreshContextAfterTheRunWasStopped(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	w := newFakeTarget("w", &journal{})
	w.correct = func(context.Context, plan.Change) error {
		cancel(errors.New("leadership lost"))
		return nil
	}
	called := false
	w.end = func(ctx context.Context) error {
		called = true
		deadline, bounded := ctx.Deadline()
		if !bounded || time.Until(deadline) > endTimeout {
			t.Errorf("End may take until %v", deadline)
		}
		return ctx.Err()
	}
	got := Run(ctx, plannedWaves(), one(w), Options{Concurrency: 1})
	if !called {
		t.Fatal("End was not called")
	}
	if len(got.recordErrs) != 0 {
		t.Errorf("End's context had ended: %v", got.recordErrs)
	}
	if len(got.Applied()) != 1 || len(got.With(NotAttempted)) != 17 {
		t.Errorf("applied %d, skipped %d", len(got.Applied()), len(got.With(NotAttempted)))
	}
}

func TestNoWaveStartsAfterTheRunIsStoppedDuringAWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newFakeTarget("w", &journal{})
	w.ready = func(ctx context.Context, keys []state.Key) (map[state.Key]string, error) {
		cancel()
		return map[state.Key]string{keys[0]: "not yet"}, ctx.Err()
	}
	got := Run(ctx, plannedWaves(), one(w), Options{})
	if len(got.Failed()) != 0 || len(got.Applied()) != 4 || len(got.NotReady) != 0 || w.ended != 1 {
		t.Errorf("failed %d, applied %d, not ready %v, ended %d", len(got.Failed()), len(got.Applied()), got.NotReady, w.ended)
	}
}

func TestNothingIsWrittenWhenTheRunIsStoppedWhileTheIntentIsRecorded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newFakeTarget("w", &journal{})
	w.begin = func([]plan.Change) error { cancel(); return nil }
	got := Run(ctx, plannedWaves(), one(w), Options{})
	if len(w.writes) != 0 || len(got.With(NotAttempted)) != len(got.Results) || w.ended != 1 {
		t.Errorf("%d writes, %d skipped, ended %d", len(w.writes), len(got.With(NotAttempted)), w.ended)
	}
}
