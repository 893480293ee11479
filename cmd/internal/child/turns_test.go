package child

import (
	"context"
	"runtime"
	"slices"
	"testing"
)

// queue has a waiter of each repository come, in this order. What it returns are the
// repositories in the order in which they got the only place.
func queue(t *testing.T, all *turns, repositories ...string) (served chan string) {
	t.Helper()
	served = make(chan string, len(repositories))
	for n, repository := range repositories {
		go func() {
			if err := all.take(t.Context(), repository); err != nil {
				t.Error(err)
			}
			served <- repository
		}()
		all.await(n + 1)
	}
	return served
}

// await returns once that many wait.
func (t *turns) await(n int) {
	for {
		t.mu.Lock()
		waiting := len(t.waiting)
		t.mu.Unlock()
		if waiting >= n {
			return
		}
		runtime.Gosched()
	}
}

func TestRepositoriesTakeTurns(t *testing.T) {
	all := &turns{free: 1}
	if err := all.take(t.Context(), "hostile"); err != nil {
		t.Fatal(err)
	}
	waiting := []string{"hostile", "hostile", "other", "hostile", "ours", "other"}
	served := queue(t, all, waiting...)
	var got []string
	for range waiting {
		all.give()
		got = append(got, <-served)
	}
	if want := []string{"other", "ours", "hostile", "other", "hostile", "hostile"}; !slices.Equal(got, want) {
		t.Errorf("served %v, want %v", got, want)
	}
	if all.give(); all.free != 1 {
		t.Errorf("%d places are free in the end", all.free)
	}
}

func TestWhoWaitsNoMoreTakesNoTurn(t *testing.T) {
	all := &turns{free: 1}
	if err := all.take(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { gone <- all.take(ctx, "b") }()
	all.await(1)
	cancel()
	if err := <-gone; err == nil {
		t.Error("it got a place that nobody gave")
	}
	if all.give(); all.free != 1 || len(all.waiting) != 0 {
		t.Errorf("%d places are free, %d wait", all.free, len(all.waiting))
	}
	// Who comes with a context that is over got a place or not, and none is lost.
	for range 100 {
		if all.take(ctx, "b") == nil {
			all.give()
		}
	}
	if all.free != 1 {
		t.Errorf("%d places are free", all.free)
	}
}
