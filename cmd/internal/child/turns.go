package child

import (
	"context"
	"slices"
	"sync"
)

// turns hand out places among repositories by turns: the next place is for the one that
// got its last the longest ago, however many of another wait before it. They are safe for
// concurrent use.
type turns struct {
	mu   sync.Mutex
	free int
	// waiting are in the order in which they came.
	waiting []*waiter
	// last is the number of the place that each repository got last, given that of the
	// last of all.
	last  map[string]uint64
	given uint64
}

// waiter is one who waits for a place.
type waiter struct {
	repository string
	// got is closed once it has a place.
	got chan struct{}
}

// take waits for a place, which give gives back.
func (t *turns) take(ctx context.Context, repository string) error {
	w := &waiter{repository: repository, got: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.next()
	t.mu.Unlock()
	select {
	case <-w.got:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.waiting, w)
	if at < 0 { // It came at the same moment.
		t.free++
		t.next()
		return ctx.Err()
	}
	t.waiting = slices.Delete(t.waiting, at, at+1)
	return ctx.Err()
}

func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	t.next()
}

// next gives places to those whose turn it is. The lock is held.
func (t *turns) next() {
	for t.free > 0 && len(t.waiting) > 0 {
		at := 0
		for i, w := range t.waiting {
			if t.last[w.repository] < t.last[t.waiting[at].repository] {
				at = i
			}
		}
		w := t.waiting[at]
		t.waiting = slices.Delete(t.waiting, at, at+1)
		if t.last == nil || len(t.last) > repositoriesKept {
			t.last = map[string]uint64{}
		}
		t.free--
		t.given++
		t.last[w.repository] = t.given
		close(w.got)
	}
}

// repositoriesKept is of how many repositories it is known when they had their last turn;
// with more it begins anew.
const repositoriesKept = 1000
