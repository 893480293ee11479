package readiness

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// share is the part of a pool's nodes, one in so many, that may be replaced within
// a readyTimeout: a registry or a network that fails takes down all nodes that start,
// and most would have healed. It is the part at which Karpenter's own repair stops.
const share = 5

// replacementBudget bounds how many nodes of a pool are replaced at a time. A process that
// starts anew has no record of them, and watches every node for a while first.
type replacementBudget struct {
	mu    sync.Mutex
	taken map[string]map[types.UID]time.Time
}

func newReplacementBudget() *replacementBudget {
	return &replacementBudget{taken: map[string]map[types.UID]time.Time{}}
}

// wait is how long a claim must wait until the pool's budget allows one more replacement; 0 when
// it does, or has allowed this one already.
func (t *replacementBudget) wait(pool string, claim types.UID, limit int, every time.Duration, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := now
	for uid, at := range t.taken[pool] {
		if now.Sub(at) >= every {
			delete(t.taken[pool], uid)
			continue
		}
		if at.Before(first) {
			first = at
		}
	}
	if len(t.taken[pool]) == 0 {
		delete(t.taken, pool)
	}
	if _, own := t.taken[pool][claim]; own || len(t.taken[pool]) < limit {
		return 0
	}
	return first.Add(every).Sub(now)
}

// take counts a claim's replacement, also where its deletion fails.
func (t *replacementBudget) take(pool string, claim types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken[pool] == nil {
		t.taken[pool] = map[types.UID]time.Time{}
	}
	if _, own := t.taken[pool][claim]; !own {
		t.taken[pool][claim] = now
	}
}
