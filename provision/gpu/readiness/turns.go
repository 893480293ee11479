package readiness

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// share is the part of a pool's nodes, one in so many, that may be replaced within
// a readyTimeout: a registry or a network in trouble fails all nodes that start,
// and most would have healed. It is the part at which Karpenter's own repair stops.
const share = 5

// turns bounds how many nodes of a pool are replaced at a time. A process that
// starts anew has forgotten them, and watches every node for a while first.
type turns struct {
	mu    sync.Mutex
	taken map[string]map[types.UID]time.Time
}

func newTurns() *turns { return &turns{taken: map[string]map[types.UID]time.Time{}} }

// wait is how long a claim must wait until one of the pool's turns is free; 0 when
// one is, or is its own already.
func (t *turns) wait(pool string, claim types.UID, room int, every time.Duration, now time.Time) time.Duration {
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
	if _, own := t.taken[pool][claim]; own || len(t.taken[pool]) < room {
		return 0
	}
	return first.Add(every).Sub(now)
}

// take gives a claim its turn, which lasts although its deletion should fail.
func (t *turns) take(pool string, claim types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken[pool] == nil {
		t.taken[pool] = map[types.UID]time.Time{}
	}
	if _, own := t.taken[pool][claim]; !own {
		t.taken[pool][claim] = now
	}
}

// turn is how long a node must wait for others of its pool to be replaced first.
func (k *Keeper) turn(ctx context.Context, s sight, claim *karpv1.NodeClaim) (time.Duration, error) {
	nodes := &corev1.NodeList{}
	if err := k.cfg.Cache.List(ctx, nodes, client.MatchingLabels{karpv1.NodePoolLabelKey: s.pool}, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("counting the nodes of pool %q: %w", s.pool, err)
	}
	count := 0
	for i := range nodes.Items {
		if minded(&nodes.Items[i]) && GPUs(&nodes.Items[i]) > 0 {
			count++
		}
	}
	room := max(1, (count+share-1)/share)
	return k.turns.wait(s.pool, claim.UID, room, s.timeout(), k.cfg.Clock.Now()), nil
}
