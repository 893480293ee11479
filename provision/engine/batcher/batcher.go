// Package batcher decides when pending pods are scheduled, in place of the batcher within
// Karpenter's provisioner. Three things differ:
//
//   - a batch ends when it was scheduled, not when it was read. Karpenter drops a batch that it
//     reads while a NodeClaim has no instance yet, which is one to three seconds for each launch,
//     and its pods come again ten seconds later;
//   - a pod that comes again, because it is still pending, does not extend the window: in a
//     cluster with many pending pods every window would last as long as it may;
//   - how long the window stays open depends on whether the owners of its pods have all their
//     pods, as their ReplicaSet, StatefulSet or Job declares.
//
// Scheduling itself is Karpenter's, unchanged. Start reading at Provisioner.Reconcile.
package batcher

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

const (
	// completeIdle is the time without another arrival after which the window closes where the
	// owners have all their pods: what is created beside them may need nodes as well.
	completeIdle = 30 * time.Millisecond
	// stockIdle is the same where owners do not have all their pods yet. It is Karpenter's
	// default, so that no more nodes are launched for them than Karpenter would.
	stockIdle = time.Second
)

// Windows are after how long a window closes.
type Windows struct {
	// Complete is without another arrival where the owners have all their pods, Idle where
	// that is not known, and Incomplete where they do not.
	Complete, Idle, Incomplete time.Duration
	// Maximum is from its begin, in any case.
	Maximum time.Duration
}

// NewWindows returns the windows for a time without another arrival. Where it is not the default, it
// holds for complete owners as well: pods of others are waited for.
func NewWindows(idle, defaultIdle, maximum time.Duration) Windows {
	w := Windows{Complete: completeIdle, Idle: idle, Incomplete: max(idle, stockIdle), Maximum: maximum}
	if idle != defaultIdle {
		w.Complete = idle
	}
	return w
}

func (w Windows) idle(is completeness) time.Duration {
	switch is {
	case complete:
		return w.Complete
	case incomplete:
		return w.Incomplete
	default:
		return w.Idle
	}
}

// Batcher collects the pods, and the nodes that are disrupted, for which nodes may be needed.
// Make it with New.
type Batcher struct {
	clock   clock.Clock
	windows Windows
	// completeness is that of the owners of a batch.
	completeness func(context.Context, map[owner]int) completeness

	mu sync.Mutex
	// waiting are those of the batch, with their owners; scheduled those of earlier batches that
	// were not removed.
	waiting   map[types.UID]owner
	scheduled sets.Set[types.UID]
	// first and last are when the window opened, and when it was extended.
	first, last time.Time
	// changes are those of the batch that stand for calls of TriggerReconcile, which are numbered.
	changes sets.Set[types.UID]
	number  int
	// arrived is signalled when something was added.
	arrived chan struct{}
}

// New returns an empty batcher. When a window closes depends on whether the owners of the pods
// in it have all their pods.
func New(clk clock.Clock, windows Windows, owners *Owners) *Batcher {
	return &Batcher{
		clock: clk, windows: windows, completeness: owners.completeness,
		waiting: map[types.UID]owner{}, scheduled: sets.New[types.UID](), changes: sets.New[types.UID](), arrived: make(chan struct{}, 1),
	}
}

// Trigger adds a node, or what else needs nodes, to the batch, by its UID.
func (b *Batcher) Trigger(uid types.UID) { b.add(uid, owner{}) }

// TriggerReconcile adds a change that no object stands for, as Karpenter does where a
// CapacityBuffer was deleted. Each is new: one that comes while a batch is scheduled belongs
// to the next.
func (b *Batcher) TriggerReconcile() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.number++
	key := types.UID(strconv.Itoa(b.number))
	b.changes.Insert(key)
	b.insert(key, owner{})
}

// add adds a pod or a node to the batch. It extends the window if it is new.
func (b *Batcher) add(uid types.UID, of owner) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.insert(uid, of)
}

func (b *Batcher) insert(uid types.UID, of owner) {
	if _, ok := b.waiting[uid]; ok {
		return
	}
	now := b.clock.Now()
	if len(b.waiting) == 0 {
		b.first, b.last = now, now
	}
	if !b.scheduled.Has(uid) {
		b.last = now
	}
	b.waiting[uid] = of
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// Remove takes away what needs no node any more.
func (b *Batcher) Remove(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, uid)
	b.scheduled.Delete(uid)
}

// wait returns the batch once its window is closed, or nothing if there is none for a while.
func (b *Batcher) wait(ctx context.Context) sets.Set[types.UID] {
	for {
		batch, closes := b.closed(ctx)
		if len(batch) > 0 {
			return batch
		}
		if ended := b.sleep(ctx, cmp.Or(closes, time.Second)); ended && closes == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// sleep returns after the time, at the end of the context or when something was added. It reports
// whether the time has passed.
func (b *Batcher) sleep(ctx context.Context, d time.Duration) bool {
	timer := b.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
	case <-b.arrived:
	}
	return false
}

// closed returns the batch where its window is closed, else after how long that may be, which
// is 0 where nothing is in it.
func (b *Batcher) closed(ctx context.Context) (sets.Set[types.UID], time.Duration) {
	owners, n := b.owners()
	is := b.completeness(ctx, owners)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return nil, 0
	}
	if is == complete && len(b.waiting) > n {
		is = unknown // What was added meanwhile was not among them.
	}
	now := b.clock.Now()
	left := min(b.last.Add(b.windows.idle(is)).Sub(now), b.first.Add(b.windows.Maximum).Sub(now))
	switch {
	case left <= 0:
		return sets.KeySet(b.waiting), 0
	case is == incomplete:
		// Their other pods may be bound, of which there is no signal.
		return nil, min(left, countLifetime)
	}
	return nil, left
}

// owners returns how many pods of each owner wait, and how many wait in all.
func (b *Batcher) owners() (map[owner]int, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	owners := map[owner]int{}
	for _, of := range b.waiting {
		owners[of]++
	}
	return owners, len(b.waiting)
}

// done removes a batch that was scheduled. What was added meanwhile is the next one.
func (b *Batcher) done(batch sets.Set[types.UID]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid := range batch {
		if _, ok := b.waiting[uid]; ok { // else it was removed
			if !b.changes.Has(uid) { // A change does not come again.
				b.scheduled.Insert(uid)
			}
			delete(b.waiting, uid)
		}
	}
	b.changes = b.changes.Difference(batch)
	if len(b.waiting) > 0 {
		b.first = b.clock.Now()
	}
}
