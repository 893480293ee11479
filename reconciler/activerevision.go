package reconciler

import (
	"context"
	"fmt"
)

// Load gets the revision ready that the next run works with: the newest, or the one
// planned last, which CorrectDrift works with. It may take minutes: a large revision is not kept
// between runs, and its memory is shared with the runs of others. The runs do it themselves
// where nobody did; Unload gives it up without a run. Canceling ctx ends it.
func (l *Loop) Load(ctx context.Context, planned bool) error {
	if err := l.acquire(ctx, planned); err != nil {
		return err
	}
	l.mu.Unlock()
	return nil
}

// Loaded reports whether Load has nothing to do.
func (l *Loop) Loaded(planned bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.activateCached(l.revisionFor(planned))
}

// Unload gives up what Load got ready, where no run did.
func (l *Loop) Unload() {
	l.mu.Lock()
	l.release()
}

// acquire locks the Loop as soon as the revision is ready. Where it fails the Loop is not
// locked.
func (l *Loop) acquire(ctx context.Context, planned bool) error {
	for {
		l.mu.Lock()
		r := l.revisionFor(planned)
		if l.activateCached(r) {
			return nil
		}
		l.unload() // Who waits for memory holds none.
		l.mu.Unlock()
		has, err := l.cache.reload(ctx, r)
		if err != nil {
			return fmt.Errorf("loading %s again: %w", r.snapshot.Revision, err)
		}
		l.mu.Lock()
		l.unload()
		l.active = has
		l.mu.Unlock()
	}
}

// release is the end of what begin began.
func (l *Loop) release() {
	l.unload()
	l.mu.Unlock()
}

func (l *Loop) revisionFor(planned bool) *revision {
	if planned {
		return l.planned
	}
	return l.last
}

// activateCached makes a revision the active one if nothing has to be loaded for that; no revision
// needs nothing.
func (l *Loop) activateCached(r *revision) bool {
	if r == nil || l.active != nil && l.active.of == r {
		return true
	}
	has := l.cache.take(r)
	if has == nil {
		return false
	}
	l.unload()
	l.active = has
	return true
}

// unload gives the active revision back to the cache.
func (l *Loop) unload() {
	was := l.active
	if l.active = nil; was == nil {
		return
	}
	release := was.release
	was.release = nil
	if was.of == l.last || was.of == l.planned {
		l.cache.put(was)
	}
	if release != nil {
		release()
	}
}
