package child

import (
	"context"
	"slices"
	"sync"
)

// fairQueue hands out slots among repositories in turn: the next slot is for the one that
// got its last the longest ago, however many of another wait before it. It is safe for
// concurrent use.
type fairQueue struct {
	mu   sync.Mutex
	free int
	// waiting are in the order in which they came.
	waiting []*waiter
	// lastServed is the number of the slot that each repository got last, served that of
	// the last of all.
	lastServed map[string]uint64
	served     uint64
}

// waiter is one who waits for a slot.
type waiter struct {
	repository string
	// granted is closed once it has a slot.
	granted chan struct{}
}

// acquire waits for a slot, which release gives back.
func (q *fairQueue) acquire(ctx context.Context, repository string) error {
	w := &waiter{repository: repository, granted: make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, w)
	q.dispatch()
	q.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.waiting, w)
	if at < 0 { // It came at the same moment.
		q.free++
		q.dispatch()
		return ctx.Err()
	}
	q.waiting = slices.Delete(q.waiting, at, at+1)
	return ctx.Err()
}

func (q *fairQueue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free++
	q.dispatch()
}

// dispatch gives the free slots to those whose turn it is. The lock is held.
func (q *fairQueue) dispatch() {
	for q.free > 0 && len(q.waiting) > 0 {
		at := 0
		for i, w := range q.waiting {
			if q.lastServed[w.repository] < q.lastServed[q.waiting[at].repository] {
				at = i
			}
		}
		w := q.waiting[at]
		q.waiting = slices.Delete(q.waiting, at, at+1)
		if q.lastServed == nil || len(q.lastServed) > repositoriesKept {
			q.lastServed = map[string]uint64{}
		}
		q.free--
		q.served++
		q.lastServed[w.repository] = q.served
		close(w.granted)
	}
}

// repositoriesKept is of how many repositories it is known when they had their last turn;
// with more it begins anew.
const repositoriesKept = 1000
