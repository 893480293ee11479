package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"weak"

	"golang.org/x/sync/semaphore"

	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

const (
	// loadsAtOnce is how many revisions are loaded for the first time at once: their
	// sizes are known only afterwards.
	loadsAtOnce = 2
	// shares is how many revisions of the largest size the cache has room for.
	shares = 8
	// itemBytes is what an object takes beside its fields, in bytes: its key and its
	// labels, as it was declared and as a target desires it. Targets copy no more of it.
	itemBytes = 2 << 10
)

// RevisionCache keeps the decoded revisions of the Loops that share it from one run to the
// next, within a capacity in bytes. Where it is full the largest is evicted first, so that
// a small revision stays whatever others follow; a revision that takes more than an eighth
// is never kept. Runs of those that are not kept load them again, and wait for each other
// beyond a second bound. Sizes are estimates, see [manifest.DecodedValue]. It is safe for
// concurrent use.
type RevisionCache struct {
	loads, uncached *semaphore.Weighted
	maxUncached     int64
	capacity        int64

	mu sync.Mutex
	// kept is in the order of size. A Loop that is gone takes its revisions along.
	kept []weak.Pointer[revision]
}

// NewRevisionCache makes an empty cache of a capacity in bytes, and lets runs hold so many
// bytes of uncached revisions at once; one that alone is larger is loaded alone.
func NewRevisionCache(capacity, uncached int64) *RevisionCache {
	return &RevisionCache{
		loads: semaphore.NewWeighted(loadsAtOnce), uncached: semaphore.NewWeighted(uncached), maxUncached: uncached, capacity: capacity,
	}
}

// decodedRevision is what a revision declares.
type decodedRevision struct {
	declared.Declared
	of *revision
	// desired is what the targets made of it; nil before they did.
	desired map[string]state.Set
	// release ends the use of what is in no cache; nil where it is from the cache.
	release func()
}

// size estimates how many bytes of memory a revision takes.
func size(d declared.Declared) (total int64) {
	for item := range d.Set.All() {
		total += itemBytes + manifest.DecodedValue(item.Object)
	}
	return total
}

// loadFirst loads a revision for the first time.
func (c *RevisionCache) loadFirst(ctx context.Context, r *revision) error {
	if err := c.loads.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("waiting until other revisions are loaded: %w", context.Cause(ctx))
	}
	defer c.loads.Release(1)
	d, err := r.decode(ctx)
	if err != nil {
		return err
	}
	r.size = size(d)
	c.put(&decodedRevision{Declared: d, of: r})
	return nil
}

// decode loads what the revision declares. A panic on the way, of a decoder that met
// hostile content, is an error.
func (r *revision) decode(ctx context.Context) (d declared.Declared, err error) {
	err = apply.Recover(func() (err error) { d, err = r.load(ctx, r.snapshot); return err })
	return d, err
}

// reload loads a revision that is not kept.
func (c *RevisionCache) reload(ctx context.Context, r *revision) (*decodedRevision, error) {
	n := min(r.size, c.maxUncached)
	if err := c.uncached.Acquire(ctx, n); err != nil {
		return nil, fmt.Errorf("waiting until runs of other large revisions end: %w", context.Cause(ctx))
	}
	d, err := r.decode(ctx)
	if err != nil {
		c.uncached.Release(n)
		return nil, err
	}
	return &decodedRevision{Declared: d, of: r, release: func() { c.uncached.Release(n) }}, nil
}

// take takes a revision's contents out of the cache, for a run; nil where they are not in it.
func (c *RevisionCache) take(r *revision) *decodedRevision {
	if r == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(r)
	has := r.kept
	r.kept = nil
	return has
}

// remove takes a revision out of kept, and those of Loops that are gone.
func (c *RevisionCache) remove(r *revision) {
	me := weak.Make(r)
	c.kept = slices.DeleteFunc(c.kept, func(k weak.Pointer[revision]) bool { return k == me || k.Value() == nil })
}

// put keeps a revision's contents, or evicts them at once.
func (c *RevisionCache) put(has *decodedRevision) {
	r := has.of
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(r)
	r.kept = has
	if r.size > c.capacity/shares {
		r.evict()
		return
	}
	// The newest of equal ones is the first to be evicted: it is at hand, the others stay.
	sized := func(k weak.Pointer[revision]) int64 {
		if of := k.Value(); of != nil {
			return of.size
		}
		return 0
	}
	c.kept = append(c.kept, weak.Make(r))
	slices.SortStableFunc(c.kept, func(a, b weak.Pointer[revision]) int { return cmp.Compare(sized(a), sized(b)) })
	total, from := int64(0), 0
	for from < len(c.kept) && total+sized(c.kept[from]) <= c.capacity {
		total += sized(c.kept[from])
		from++
	}
	for _, k := range c.kept[from:] {
		if of := k.Value(); of != nil {
			of.evict()
		}
	}
	c.kept = slices.Delete(c.kept, from, len(c.kept))
}

// evict gives up a revision's contents, also in its targets where these had them last. No
// run works with them: it would have taken them.
func (r *revision) evict() {
	if r.kept.desired != nil {
		r.trim()
	}
	r.kept = nil
}
