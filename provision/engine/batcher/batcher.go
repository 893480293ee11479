// Package batcher decides when pending pods are scheduled, in place of the batcher within
// Karpenter's provisioner. Two things differ:
//
//   - a batch ends when it was scheduled, not when it was read. Karpenter drops a batch that it
//     reads while a NodeClaim has no instance yet, which is one to three seconds for each launch,
//     and its pods come again ten seconds later;
//   - a pod that comes again, because it is still pending, does not extend the window: in a
//     cluster with many pending pods every window would last as long as it may.
//
// Scheduling itself is Karpenter's, unchanged. Start reading at Provisioner.Reconcile.
package batcher

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

// Batcher collects the pods, and the nodes that are disrupted, for which nodes may be needed.
// Make it with New.
type Batcher struct {
	clock clock.Clock
	// idle and maximum are after how long the window closes: without another arrival, and at most.
	idle, maximum time.Duration

	mu sync.Mutex
	// waiting are those of the batch; scheduled those of earlier batches that were not removed.
	waiting, scheduled sets.Set[types.UID]
	// first and last are when the window opened, and when it was extended.
	first, last time.Time
	// opened is signalled when the window opens.
	opened chan struct{}
}

// New returns an empty batcher. A window closes when no new pod was added for idle, and at the
// latest after maximum.
func New(clk clock.Clock, idle, maximum time.Duration) *Batcher {
	return &Batcher{
		clock: clk, idle: idle, maximum: maximum,
		waiting: sets.New[types.UID](), scheduled: sets.New[types.UID](), opened: make(chan struct{}, 1),
	}
}

// Trigger adds a pod or a node to the batch, by its UID. It extends the window if it is new.
func (b *Batcher) Trigger(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting.Has(uid) {
		return
	}
	now := b.clock.Now()
	if b.waiting.Len() == 0 {
		b.first, b.last = now, now
	}
	if !b.scheduled.Has(uid) {
		b.last = now
	}
	b.waiting.Insert(uid)
	select {
	case b.opened <- struct{}{}:
	default:
	}
}

// Remove takes away what needs no node any more.
func (b *Batcher) Remove(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting.Delete(uid)
	b.scheduled.Delete(uid)
}

// wait returns the batch once its window is closed, or nothing if there is none for a while.
func (b *Batcher) wait(ctx context.Context) sets.Set[types.UID] {
	empty := b.clock.NewTimer(time.Second)
	defer empty.Stop()
	for {
		batch, closes := b.closed()
		if batch.Len() > 0 {
			return batch
		}
		if closes > 0 {
			window := b.clock.NewTimer(closes)
			select {
			case <-ctx.Done():
				window.Stop()
				return nil
			case <-window.C():
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-empty.C():
			return nil
		case <-b.opened:
		}
	}
}

// closed returns the batch where its window is closed, else after how long that may be, which
// is 0 where nothing is in it.
func (b *Batcher) closed() (sets.Set[types.UID], time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting.Len() == 0 {
		return nil, 0
	}
	now := b.clock.Now()
	left := min(b.last.Add(b.idle).Sub(now), b.first.Add(b.maximum).Sub(now))
	if left > 0 {
		return nil, left
	}
	return b.waiting.Clone(), 0
}

// done removes a batch that was scheduled. What was added meanwhile is the next one.
func (b *Batcher) done(batch sets.Set[types.UID]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid := range batch {
		if b.waiting.Has(uid) { // else it was removed
			b.scheduled.Insert(uid)
		}
	}
	b.waiting = b.waiting.Difference(batch)
	if b.waiting.Len() > 0 {
		b.first = b.clock.Now()
	}
}
