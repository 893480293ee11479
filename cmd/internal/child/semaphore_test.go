package child

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"
	"time"

	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/state"
)

// occupied has proposals wait in line, the first of which has a child that does not end.
// What it returns ends them.
func occupied(t *testing.T, slots *Semaphore, proposals int) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}, proposals), make(chan struct{})
	for range proposals {
		go func() {
			r := &Runner{Semaphore: slots, Proposed: true}
			_, _ = r.run(ctx, job{verb: "sleep after a frame", doing: "rendering", exchange: func(_ *writer, out *reader) (frame, error) {
				ready <- struct{}{}
				_, _, err := out.next()
				return frame{}, err
			}})
			done <- struct{}{}
		}()
	}
	<-ready
	return func() {
		cancel()
		for range proposals {
			<-done
		}
	}
}

func TestProposalsNeverTakeTheLastSlot(t *testing.T) {
	slots := NewSemaphore()
	release := occupied(t, slots, 8)
	defer release()
	files := fstest.MapFS{"a.yaml": &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")}}
	// This one works on a followed branch, while eight proposals want all there is.
	for range 3 {
		got, err := (&Runner{Semaphore: slots}).Load(t.Context(), files, ".", substitute.Values{})
		if err != nil || got.Set.Len() != 1 {
			t.Fatalf("%d objects, %v", got.Set.Len(), err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := (&Runner{Semaphore: slots, Proposed: true}).Load(ctx, files, ".", substitute.Values{})
	if class, _, _ := state.Classify(err); !errors.Is(err, context.DeadlineExceeded) || class != state.Retry {
		t.Errorf("a proposal that gets no slot beside the others: %s, %v", class, err)
	}
}

func TestASlotIsFreeAgainWhateverEndedItsChild(t *testing.T) {
	slots := NewSemaphore()
	for _, behavior := range []string{"panic", "kill itself", "return too much", "allocate at once", "frobnicate"} {
		for _, proposal := range []bool{true, false} {
			if _, err := (&Runner{Semaphore: slots, Proposed: proposal}).runBehavior(t.Context(), behavior); err == nil {
				t.Errorf("%s went well", behavior)
			}
		}
	}
	if all, proposals := len(slots.all), proposalsAtOnce-slots.proposals.free; all+proposals > 0 {
		t.Errorf("%d slots are taken, %d by proposals", all, proposals)
	}
}

// TestAResponseThatDecodesToTooMuchIsRefused is about what a child that was taken over may
// send: what it decodes to is bounded before it is decoded.
func TestAResponseThatDecodesToTooMuchIsRefused(t *testing.T) {
	r := &Runner{Semaphore: NewSemaphore(), Limits: Limits{Decoded: 1 << 20}}
	_, err := r.runBehavior(t.Context(), "return many small maps")
	if class, reason, _ := state.Classify(err); class != state.Stalled || reason != "LimitExceeded" {
		t.Errorf("%s %s: %v", class, reason, err)
	}
	r.Limits.Decoded = 0
	if raw, err := r.runBehavior(t.Context(), "return many small maps"); err != nil || len(raw) > 1<<20 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}
