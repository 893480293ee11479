package startuptaint

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/provision/backoff"
	"github.com/poolwright/poolwright/provision/gpu"
)

// FailureBackoff counts, for each pool, the nodes in a row that never advertised their GPUs,
// and until when none is launched. It may be used from several goroutines.
// Make one with NewFailureBackoff.
type FailureBackoff struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	pools map[string]poolFailures
}

// poolFailures is what is known of a pool with failures.
type poolFailures struct {
	failures int
	// backoffs counts the failures that began a backoff or made it longer.
	backoffs int
	until    time.Time
	last     string
}

// NewFailureBackoff returns an empty FailureBackoff that reads the time from the clock.
func NewFailureBackoff(clock clock.PassiveClock) *FailureBackoff {
	return &FailureBackoff{clock: clock, pools: map[string]poolFailures{}}
}

// Failed records that a node of the pool was given up, and why. It returns how many
// that are in a row, and until when the pool is backed off: the zero time after the
// first, five minutes after the second, then twice as long each time, at most two
// hours. Failures during a backoff are counted but do not make it
// longer, because their nodes were launched before it began: ten nodes with one
// cause are one lesson.
func (b *FailureBackoff) Failed(pool, diagnosis string) (failures int, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.pools[pool]
	now := b.clock.Now()
	r.failures++
	r.last = diagnosis
	if r.failures > 1 && !now.Before(r.until) {
		r.until = now.Add(backoff.After(r.backoffs))
		r.backoffs++
	}
	b.pools[pool] = r
	return r.failures, r.until
}

// Reset records that a node of the pool advertises its GPUs, which ends the row of
// failures and the backoff.
func (b *FailureBackoff) Reset(pool string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pools, pool)
}

// Active reports whether nothing with GPUs is launched for the pool now, and until
// when.
func (b *FailureBackoff) Active(pool string) (until time.Time, held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	until = b.pools[pool].until
	return until, b.clock.Now().Before(until)
}

// State is what is recorded of a pool: the failures in a row, until when the
// last of them backs off or backed off the pool (zero for never), and its diagnosis.
func (b *FailureBackoff) State(pool string) (failures int, until time.Time, last string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.pools[pool]
	return r.failures, r.until, r.last
}

// Pools names the pools with a failure that nothing has ended, sorted.
func (b *FailureBackoff) Pools() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.pools))
}

// Restore has Pools and State return what they returned in an earlier process, and
// nothing else: that one had recorded more than this one has. Of each pool it reads the name,
// the failures, the backoff and the diagnosis; one without failures is left out. How many of
// the failures came during a backoff is not recorded, so the next one may be longer than it
// would have been. A time that no backoff can reach is cut to the longest.
func (b *FailureBackoff) Restore(pools []gpu.PoolState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.pools)
	latest := b.clock.Now().Add(backoff.Max)
	for _, p := range pools {
		if p.Failures <= 0 {
			continue
		}
		until := p.BackoffUntil
		if until.After(latest) {
			until = latest
		}
		b.pools[p.Pool] = poolFailures{failures: p.Failures, backoffs: p.Failures - 1, until: until, last: p.LastFailure}
	}
}
