package reconciler

import (
	"cmp"
	"context"

	"github.com/poolwright/poolwright/gitsource"
)

// acceptingSource is the ability of a source that may refuse later what it has returned, such as a
// revision whose signer is not trusted any more.
type acceptingSource interface {
	// Accepts reports whether a revision may be applied still, and where it may not, whether drift from it may
	// be corrected.
	Accepts(ctx context.Context, revision string) (apply, correct bool)
}

// acceptance is what a revision that the source returned earlier may be used for.
type acceptance int

const (
	// refused: for nothing.
	refused acceptance = iota
	// correctable: to put back drift from it, since it was applied as a whole before it was refused.
	correctable
	// applicable: to be applied.
	applicable
)

// accepts is what a revision may be used for, by its source as of its last Fetch.
func (l *Loop) accepts(ctx context.Context, revision string) acceptance {
	source, ok := l.source.(acceptingSource)
	if !ok {
		return applicable
	}
	switch apply, correct := source.Accepts(ctx, revision); {
	case apply:
		return applicable
	case correct:
		return correctable
	}
	return refused
}

// hold goes on with a revision that must not be applied any more and from which drift may be corrected. All
// others are given up, also one that is being applied; where nothing is left, why is the error.
func (l *Loop) hold(ctx context.Context, snapshot gitsource.Snapshot, accepted acceptance, newest Result, why error) (Result, error) {
	if accepted == refused {
		l.giveUp("")
		return newest, why
	}
	last := l.giveUp(snapshot.Revision)
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
	return Result{
		Revision: last.snapshot.Revision, TreeID: last.snapshot.TreeID, Changed: last != planned,
		SourceError: cmp.Or(newest.SourceError, why), Attempted: newest.Revision, OnlyDrift: true,
	}, nil
}

// giveUp keeps what was loaded of one revision alone, from which no more than drift is corrected; it returns nil
// where nothing was.
func (l *Loop) giveUp(except string) *revision {
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
