package reconciler

import (
	"cmp"
	"context"
	"fmt"

	"github.com/poolwright/poolwright/gitsource"
)

// persistentSource is the ability of a source that keeps its last good snapshot
// over restarts.
type persistentSource interface {
	Last(ctx context.Context) (gitsource.Snapshot, bool)
}

// loadSnapshot loads what the source gave, or what it gave last.
func (l *Loop) loadSnapshot(ctx context.Context, snapshot gitsource.Snapshot, stale error) (Result, error) {
	if stale != nil {
		var status verification
		if snapshot, status = l.lastGood(ctx); status != verified {
			return l.continueOnlyDrift(ctx, snapshot, status, Result{}, stale)
		}
	}
	result := Result{Revision: snapshot.Revision, TreeID: snapshot.TreeID, OriginRevision: snapshot.OriginRevision, SourceError: stale}
	fresh := &revision{snapshot: snapshot, load: l.load, trim: l.trim}
	if l.dependencies != nil {
		if err := l.dependencies(ctx, snapshot.Revision, snapshot.TreeID); err != nil {
			return l.wait(ctx, result, fresh, err)
		}
	}
	if err := l.readInputs(ctx, fresh); err != nil {
		return result, err
	}
	if last, changed := l.proceed(); last != nil && last.snapshot.Revision == snapshot.Revision && last.snapshot.TreeID == snapshot.TreeID && last.inputsDigest == fresh.inputsDigest && !last.resumed {
		result.Changed = changed
		return result, nil
	}
	if err := l.cache.loadFirst(ctx, fresh); err != nil {
		return l.keep(ctx, result, fresh, fmt.Errorf("loading %s: %w", snapshot.Revision, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != l.planned {
		l.cache.take(l.last)
	}
	l.last, result.Changed = fresh, true
	return result, nil
}

// readInputs completes a revision with what its load depends on beside the snapshot.
func (l *Loop) readInputs(ctx context.Context, fresh *revision) error {
	if l.inputs == nil {
		return nil
	}
	digest, load, err := l.inputs(ctx)
	if err != nil {
		return fmt.Errorf("loading %s: %w", fresh.snapshot.Revision, err)
	}
	if fresh.inputsDigest = digest; load != nil {
		fresh.load = load
	}
	return nil
}

// proceed records that the newest revision may be applied. It returns the newest that is loaded, and
// whether something of it may not be planned yet.
func (l *Loop) proceed() (last *revision, changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = false
	return l.last, l.last != l.planned || l.plannedWaiting
}

// wait goes on with what is applied while the newest revision must not be: it is not loaded, unless it
// is what an earlier process applied. What was loaded and not planned yet is given up.
func (l *Loop) wait(ctx context.Context, newest Result, fresh *revision, why error) (Result, error) {
	last := l.startWaiting()
	if last != nil && l.verification(ctx, last.snapshot.Revision) == unverified {
		last = l.unloadExcept("")
	}
	if last == nil && l.applied != "" && l.readInputs(ctx, fresh) == nil {
		last = l.loadApplied(ctx, fresh)
	}
	if last == nil || ctx.Err() != nil {
		return newest, cmp.Or(newest.SourceError, why)
	}
	_, planned := l.newest()
	out := Result{
		Revision: last.snapshot.Revision, TreeID: last.snapshot.TreeID, OriginRevision: last.snapshot.OriginRevision, Changed: last != planned,
		SourceError: cmp.Or(newest.SourceError, why), OnlyDrift: true,
	}
	if newest.SourceError == nil {
		out.AttemptedRevision, out.OriginRevision = newest.Revision, newest.OriginRevision
	}
	return out, nil
}

// startWaiting records that the newest revision must not be applied yet, and returns what is applied;
// nil where none is loaded.
func (l *Loop) startWaiting() *revision {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = true
	applied := l.planned
	if applied == nil && l.last != nil && l.wasApplied(l.last.snapshot) {
		applied = l.last
	}
	if l.last != applied {
		l.cache.take(l.last)
		l.last = applied
	}
	return applied
}

// loadApplied loads what an earlier process applied last, which may be the newest revision; nil where
// it cannot be.
func (l *Loop) loadApplied(ctx context.Context, fresh *revision) *revision {
	if !l.wasApplied(fresh.snapshot) {
		return l.resume(ctx, fresh)
	}
	if err := l.cache.loadFirst(ctx, fresh); err != nil {
		return nil // Why it waits is what a person has to mend.
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = fresh
	return fresh
}

// newest is the newest revision, and the newest that was planned; nil where none is.
func (l *Loop) newest() (last, planned *revision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, l.planned
}

// lastGood is the last good snapshot, of this Loop or of an earlier life of its source, and whether it is
// verified.
func (l *Loop) lastGood(ctx context.Context) (gitsource.Snapshot, verification) {
	if last, _ := l.newest(); last != nil {
		if status := l.verification(ctx, last.snapshot.Revision); status != unverified {
			return last.snapshot, status
		}
	}
	if mem, ok := l.source.(persistentSource); ok {
		if snapshot, ok := mem.Last(ctx); ok {
			return snapshot, l.verification(ctx, snapshot.Revision)
		}
	}
	return gitsource.Snapshot{}, unverified
}

// keep goes on with the last good revision where a newer one cannot be loaded: what was
// applied stays so, and drift from it is corrected. With other variables' values it is
// another revision, and what it would declare is unknown.
func (l *Loop) keep(ctx context.Context, newest Result, fresh *revision, why error) (Result, error) {
	last, planned := l.newest()
	if last != nil {
		switch status := l.verification(ctx, last.snapshot.Revision); status {
		case unverified:
			last = l.unloadExcept("")
		case verifiedBefore:
			return l.continueOnlyDrift(ctx, last.snapshot, status, newest, why)
		case verified:
		}
	}
	if last == nil || last.resumed && last.inputsDigest != fresh.inputsDigest {
		last = l.resume(ctx, fresh)
	}
	if last == nil || last.inputsDigest != fresh.inputsDigest || ctx.Err() != nil {
		return newest, why
	}
	return Result{
		Revision: last.snapshot.Revision, TreeID: last.snapshot.TreeID, Changed: last != planned, SourceError: why,
		AttemptedRevision: newest.Revision, OriginRevision: newest.OriginRevision, OnlyDrift: last.resumed,
	}, nil
}

// earlierReader is the ability of a source that keeps earlier revisions.
type earlierReader interface {
	// Earlier returns an earlier revision without any request, with the files of an id where that is not
	// empty; false where it is not there.
	Earlier(ctx context.Context, revision, treeID string) (gitsource.Snapshot, bool)
}

// wasApplied reports whether a snapshot is what an earlier process applied last. A source of Flux may have other
// files under the same revision.
func (l *Loop) wasApplied(s gitsource.Snapshot) bool {
	return s.Revision == l.applied && (l.appliedTreeID == "" || s.TreeID == l.appliedTreeID)
}

// resume makes what an earlier process applied last the newest revision, loaded as fresh would
// be. Where it cannot be loaded either, it returns nil.
func (l *Loop) resume(ctx context.Context, fresh *revision) *revision {
	from, ok := l.source.(earlierReader)
	if !ok || l.applied == "" || l.wasApplied(fresh.snapshot) {
		return nil
	}
	snapshot, ok := from.Earlier(ctx, l.applied, l.appliedTreeID)
	if !ok || !l.wasApplied(snapshot) {
		return nil
	}
	r := &revision{snapshot: snapshot, inputsDigest: fresh.inputsDigest, load: fresh.load, trim: l.trim, resumed: true}
	if err := l.cache.loadFirst(ctx, r); err != nil {
		return nil // Why the newest cannot be loaded is what a person has to mend.
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = r
	return r
}
