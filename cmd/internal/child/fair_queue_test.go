package child

import (
	"context"
	"runtime"
	"slices"
	"testing"
)

// queue has a waiter of each repository come, in this order. What it returns are the
// repositories in the order in which they got the only slot.
func queue(t *testing.T, all *fairQueue, repositories ...string) (served chan string) {
	t.Helper()
	served = make(chan string, len(repositories))
	for n, repository := range repositories {
		go func() {
			if err := all.acquire(t.Context(), repository); err != nil {
				t.Error(err)
			}
			served <- repository
		}()
		all.await(n + 1)
	}
	return served
}

// await returns once that many wait.
func (t *fairQueue) await(n int) {
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
	all := &fairQueue{free: 1}
	if err := all.acquire(t.Context(), "hostile"); err != nil {
		t.Fatal(err)
	}
	waiting := []string{"hostile", "hostile", "other", "hostile", "ours", "other"}
	served := queue(t, all, waiting...)
	var got []string
	for range waiting {
		all.release()
		got = append(got, <-served)
	}
	if want := []string{"other", "ours", "hostile", "other", "hostile", "hostile"}; !slices.Equal(got, want) {
		t.Errorf("served %v, want %v", got, want)
	}
	if all.release(); all.free != 1 {
		t.Errorf("%d slots are free in the end", all.free)
	}
}

func TestWhoWaitsNoMoreTakesNoTurn(t *testing.T) {
	all := &fairQueue{free: 1}
	if err := all.acquire(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { gone <- all.acquire(ctx, "b") }()
	all.await(1)
	cancel()
	if err := <-gone; err == nil {
		t.Error("it got a slot that nobody released")
	}
	if all.release(); all.free != 1 || len(all.waiting) != 0 {
		t.Errorf("%d slots are free, %d wait", all.free, len(all.waiting))
	}
	// Who comes with a context that is over got a slot or not, and none is lost.
	for range 100 {
		if all.acquire(ctx, "b") == nil {
			all.release()
		}
	}
	if all.free != 1 {
		t.Errorf("%d slots are free", all.free)
	}
}
