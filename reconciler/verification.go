package reconciler

import (
	"cmp"
	"context"

	"github.com/poolwright/poolwright/gitsource"
)

// verifyingSource is the ability of a source that verifies signatures: a revision that it has returned may be
// unverified later, since its key is revoked.
type verifyingSource interface {
	// Verified reports whether a revision is verified still, so that it may be applied, and where it is not, whether it
	// was before it was applied, so that drift from it may be corrected.
	Verified(ctx context.Context, revision string) (apply, correct bool)
}

// verification is whether a revision that the source returned earlier is verified, by which it may be used.
type verification int

const (
	// unverified: it may be used for nothing.
	unverified verification = iota
	// verifiedBefore: it was applied as a whole while it was verified; drift from it may be corrected.
	verifiedBefore
	// verified: it may be applied, as each revision of a source that verifies nothing.
	verified
)

// verification is that of a revision, by its source as of its last Fetch.
func (l *Loop) verification(ctx context.Context, revision string) verification {
	source, ok := l.source.(verifyingSource)
	if !ok {
		return verified
	}
	switch apply, correct := source.Verified(ctx, revision); {
	case apply:
		return verified
	case correct:
		return verifiedBefore
	}
	return unverified
}

// continueOnlyDrift goes on with a revision that must not be applied any more and from which drift may be corrected. All
// others are unloaded, also one that is being applied; where nothing is left, why is the error.
func (l *Loop) continueOnlyDrift(ctx context.Context, snapshot gitsource.Snapshot, status verification, newest Result, why error) (Result, error) {
	if status == unverified {
		l.unloadExcept("")
		return newest, why
	}
	last := l.unloadExcept(snapshot.Revision)
	if last == nil {
		fresh := &revision{snapshot: snapshot, load: l.load, trim: l.trim, resumed: true}
		if l.readInputs(ctx, fresh) != nil || l.cache.loadFirst(ctx, fresh) != nil {
			return newest, why // It is what a person has to mend.
		}
		last = fresh
		l.mu.Lock()
		l.last = fresh
		l.mu.Unlock()
	}
	if ctx.Err() != nil {
		return newest, why
	}
	_, planned := l.newest()
	origin := newest.OriginRevision
	if newest.Revision == "" {
		origin = last.snapshot.OriginRevision
	}
	return Result{
		Revision: last.snapshot.Revision, TreeID: last.snapshot.TreeID, Changed: last != planned,
		SourceError: cmp.Or(newest.SourceError, why), AttemptedRevision: newest.Revision, OriginRevision: origin, OnlyDrift: true,
	}, nil
}

// unloadExcept keeps what was loaded of one revision alone, from which no more than drift is corrected; it returns nil
// where nothing was.
func (l *Loop) unloadExcept(except string) *revision {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = true
	kept := l.planned
	if kept == nil || kept.snapshot.Revision != except {
		kept = l.last
	}
	if kept != nil && kept.snapshot.Revision != except {
		kept = nil
	}
	was, planned := l.last, l.planned
	l.last = kept
	if planned != kept {
		l.planned = nil
	}
	for _, r := range []*revision{was, planned} {
		if r != nil && r != kept {
			l.cache.take(r)
		}
	}
	return kept
}
