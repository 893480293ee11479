package demo

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestOnlyTheFirstEventOfANameCounts(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	line := newTimeline()
	line.mark(podPending, "pod/a", "first", at)
	line.mark(podPending, "pod/b", "second", at.Add(time.Second))
	got, err := line.wait(t.Context(), podPending)
	if err != nil || got.Object != "pod/a" || !got.At.Equal(at) {
		t.Errorf("the event is %+v, %v", got, err)
	}
	if !line.has(podPending) || line.has(podBound) {
		t.Error("what was recorded is not what it has")
	}
}

func TestAnEventIsAwaitedUntilItHappensOrTheRunEnds(t *testing.T) {
	line := newTimeline()
	done := make(chan Event)
	for range 2 {
		go func() {
			got, err := line.wait(context.Background(), commentCreated)
			if err != nil {
				t.Errorf("awaiting it: %v", err)
			}
			done <- got
		}()
	}
	// Another event wakes those who wait, and is not theirs.
	line.mark(podPending, "pod/a", "", time.Time{})
	line.comment(commentCreated, "pull request 1", "2 nodes are replaced", "# Plan", time.Time{})
	for range 2 {
		if got := <-done; got.Comment != "# Plan" || got.Detail != "2 nodes are replaced" {
			t.Errorf("the event is %+v", got)
		}
	}
	ended := errors.New("the sandbox has ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	if _, err := line.wait(ctx, podBound); !errors.Is(err, ended) {
		t.Errorf("the error is %v", err)
	}
	if _, err := line.wait(ctx, podPending); err != nil {
		t.Errorf("what has happened already is not returned once the run has ended: %v", err)
	}
}

func TestATimeIsBetweenTwoEventsThatBothHappened(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	line := newTimeline()
	line.mark(podPending, "", "", at)
	line.mark(podRunning, "", "", at.Add(1500*time.Millisecond))
	for name, tt := range map[string]struct {
		from, to string
		seconds  float64
		both     bool
	}{
		"both happened":              {podPending, podRunning, 1.5, true},
		"the first never happened":   {nodeClaimCreated, podRunning, 0, false},
		"the second has not yet":     {podPending, podDeleted, 0, false},
		"they happened in the other": {podRunning, podPending, -1.5, true},
	} {
		t.Run(name, func(t *testing.T) {
			seconds, both := line.between(tt.from, tt.to)
			if both != tt.both || both && seconds != tt.seconds {
				t.Errorf("%v seconds, both %v", seconds, both)
			}
		})
	}
}
