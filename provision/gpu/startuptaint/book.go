package startuptaint

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/provision/gpu"
)

const (
	// firstHold follows the second failure in a row; each later one doubles it.
	firstHold = 5 * time.Minute
	// longestHold bounds it.
	longestHold = 2 * time.Hour
)

// Book counts, for each pool, the nodes in a row that never offered their GPUs,
// and says until when none is launched. It may be used from several goroutines.
// Make one with NewBook.
type Book struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	rows map[string]row
}

// row is what is known of a pool with failures.
type row struct {
	failures int
	// holds counts the failures that began a hold or made it longer.
	holds int
	until time.Time
	last  string
}

// NewBook returns an empty book that reads the time from the clock.
func NewBook(clock clock.PassiveClock) *Book {
	return &Book{clock: clock, rows: map[string]row{}}
}

// Failed notes that a node of the pool was given up, and why. It returns how many
// that are in a row, and until when the pool is held: the zero time after the
// first, five minutes after the second, then twice as long each time, at most two
// hours. Failures while the pool is held are counted but do not make the hold
// longer, because their nodes were launched before it began: ten nodes with one
// cause are one lesson.
func (b *Book) Failed(pool, diagnosis string) (failures int, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.rows[pool]
	now := b.clock.Now()
	r.failures++
	r.last = diagnosis
	if r.failures > 1 && !now.Before(r.until) {
		r.until = now.Add(holdAfter(r.holds))
		r.holds++
	}
	b.rows[pool] = r
	return r.failures, r.until
}

// holdAfter is the length of a hold that follows that many others.
func holdAfter(holds int) time.Duration {
	length := firstHold
	for range holds {
		if length *= 2; length >= longestHold {
			return longestHold
		}
	}
	return length
}

// Offered notes that a node of the pool offers its GPUs, which ends the row of
// failures and the hold.
func (b *Book) Offered(pool string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.rows, pool)
}

// Held tells whether nothing with GPUs is launched for the pool now, and until
// when.
func (b *Book) Held(pool string) (until time.Time, held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	until = b.rows[pool].until
	return until, b.clock.Now().Before(until)
}

// State is what the book says of a pool: the failures in a row, until when the
// last of them holds or held the pool (zero for never), and its diagnosis.
func (b *Book) State(pool string) (failures int, until time.Time, last string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.rows[pool]
	return r.failures, r.until, r.last
}

// Pools names the pools with a failure that nothing has ended, sorted.
func (b *Book) Pools() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.rows))
}

// Restore makes the book say what Pools and State said in an earlier process, and
// nothing else: that one knew better than whatever this one was told before. Of each
// pool it reads the name, the failures, the hold and the diagnosis; one without
// failures is left out. How many of the failures came during a hold is not told, so the
// next hold may be longer than it would have been. A time that no hold can reach is cut
// to the longest hold.
func (b *Book) Restore(pools []gpu.PoolState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.rows)
	latest := b.clock.Now().Add(longestHold)
	for _, p := range pools {
		if p.Failures <= 0 {
			continue
		}
		until := p.HeldUntil
		if until.After(latest) {
			until = latest
		}
		b.rows[p.Pool] = row{failures: p.Failures, holds: p.Failures - 1, until: until, last: p.LastFailure}
	}
}
