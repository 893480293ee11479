package reconciler

import (
	"context"
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// inUse is the revision that a run works with, and its contents, which are in no cache
// meanwhile. The zero value is none.
type inUse struct {
	revision *revision
	contents *contents
	release  func()
}

// earlierReader is the ability of a source that keeps earlier revisions.
type earlierReader interface {
	// Earlier returns an earlier revision without any request; false where it is not there.
	Earlier(ctx context.Context, revision string) (gitsource.Snapshot, bool)
}

// ResumesFrom is which revision an earlier process applied last. Where nothing newer can be
// loaded and the source still has it, drift from it is corrected, and nothing else is done. It
// returns the Loop, and is called before any other method.
func (l *Loop) ResumesFrom(revision string) *Loop {
	l.applied = revision
	return l
}

// resume makes what an earlier process applied last the newest revision, loaded as fresh would
// be. Where it cannot be loaded either, it returns nil.
func (l *Loop) resume(ctx context.Context, fresh *revision) *revision {
	from, ok := l.source.(earlierReader)
	if !ok || l.applied == "" || l.applied == fresh.snapshot.Revision {
		return nil
	}
	snapshot, ok := from.Earlier(ctx, l.applied)
	if !ok {
		return nil
	}
	r := &revision{snapshot: snapshot, beside: fresh.beside, load: fresh.load, trim: l.trim, resumed: true}
	if err := l.cache.first(ctx, r); err != nil {
		return nil // Why the newest cannot be loaded is what a person has to mend.
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = r
	return r
}

// keep goes on with the last good revision where a newer one cannot be loaded: what was
// applied stays so, and drift from it is corrected. With other variables' values it is
// another revision, and what it would declare is unknown.
func (l *Loop) keep(ctx context.Context, newest Result, fresh *revision, why error) (Result, bool, error) {
	last, planned := l.newest()
	if last == nil || last.resumed && last.beside != fresh.beside {
		last = l.resume(ctx, fresh)
	}
	if last == nil || last.beside != fresh.beside || ctx.Err() != nil {
		return newest, false, why
	}
	return Result{Revision: last.snapshot.Revision, Stale: why, Attempted: newest.Revision, Resumed: last.resumed}, last != planned, nil
}

// careful are the policies for a plan of the revision; unsure is true where what it does not
// declare proves nothing. What an earlier process applied may have been declared by another
// path or with other values: only what that process is known to have applied is put back.
func (r *revision) careful(unsure bool, policies []plan.Policy) []plan.Policy {
	if r.resumed {
		policies = append([]plan.Policy{plan.OnlyDrift()}, policies...)
	}
	if unsure || r.resumed {
		policies = append([]plan.Policy{plan.NoPrune()}, policies...)
	}
	return policies
}

// want is what a target makes of the revision. What an earlier process applied last may be what
// it began to delete since, by a later revision: that is not wanted again.
func (r *revision) want(ctx context.Context, t targets.Target, declared state.Set) (state.Set, []state.Problem, error) {
	set, problems, err := want(ctx, t, declared)
	withdrawer, ok := t.(targets.Withdrawer)
	if err != nil || !ok || !r.resumed {
		return set, problems, err
	}
	deleting, err := withdrawer.Deleting(ctx)
	if err != nil {
		return state.Set{}, nil, fmt.Errorf("reading which deletions have begun: %w", err)
	}
	kept := slices.DeleteFunc(set.Items(), func(i state.Item) bool { return slices.Contains(deleting, i.Key) })
	return state.NewSet(kept...), problems, nil
}

// Load gets the revision ready that the next run works with: the newest, or the one
// planned last, which Correct works with. It may take minutes: a large revision is not kept
// between runs, and its memory is shared with the runs of others. The runs do it themselves
// where nobody did; Unload gives it up without a run. Canceling ctx ends it.
func (l *Loop) Load(ctx context.Context, planned bool) error {
	if err := l.begin(ctx, planned); err != nil {
		return err
	}
	l.mu.Unlock()
	return nil
}

// Loaded reports whether Load has nothing to do.
func (l *Loop) Loaded(planned bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.using(l.which(planned))
}

// Unload gives up what Load got ready, where no run did.
func (l *Loop) Unload() {
	l.mu.Lock()
	l.end()
}

// begin locks the Loop as soon as the revision is ready. Where it fails the Loop is not
// locked.
func (l *Loop) begin(ctx context.Context, planned bool) error {
	for {
		l.mu.Lock()
		r := l.which(planned)
		if l.using(r) {
			return nil
		}
		l.unload() // Who waits for memory holds none.
		l.mu.Unlock()
		has, release, err := l.cache.again(ctx, r)
		if err != nil {
			return fmt.Errorf("loading %s again: %w", r.snapshot.Revision, err)
		}
		l.mu.Lock()
		l.unload()
		l.run = inUse{r, has, release}
		l.mu.Unlock()
	}
}

// end is the end of what begin began.
func (l *Loop) end() {
	l.unload()
	l.mu.Unlock()
}

func (l *Loop) which(planned bool) *revision {
	if planned {
		return l.planned
	}
	return l.last
}

// using makes a revision the one in use if nothing has to be loaded for that; no revision
// needs nothing.
func (l *Loop) using(r *revision) bool {
	if r == nil || l.run.revision == r {
		return true
	}
	has := l.cache.take(r)
	if has == nil {
		return false
	}
	l.unload()
	l.run = inUse{r, has, func() {}}
	return true
}

// unload gives the revision in use back to the cache.
func (l *Loop) unload() {
	was := l.run
	if l.run = (inUse{}); was.revision == nil {
		return
	}
	if was.revision == l.last || was.revision == l.planned {
		l.cache.put(was.revision, was.contents)
	}
	was.release()
}

// trimming is the ability of a target to drop what only Correct needs, until its Desired is
// called again.
type trimming interface{ Trim() }

func (l *Loop) trim() {
	for _, w := range l.targets {
		if t, ok := w.Target.(trimming); ok {
			t.Trim()
		}
	}
}

// wanted is what the targets make of the revision in use.
func (l *Loop) wanted(ctx context.Context) (map[string]state.Set, error) {
	has := l.run.contents
	if has.wanted != nil {
		return has.wanted, nil
	}
	all := map[string]state.Set{}
	has.activate()
	for _, w := range l.targets {
		var err error
		if all[w.Name], _, err = l.run.revision.want(ctx, w.Target, has.declared.Set); err != nil {
			l.trim()
			return nil, fmt.Errorf("preparing %s: %w", w.Name, err)
		}
	}
	has.wanted = all
	return all, nil
}

// activate makes the contents those that the targets are used for.
func (c *contents) activate() {
	if c.declared.Activate != nil {
		c.declared.Activate()
	}
}

// withdraw records that deletions were given up.
func (l *Loop) withdraw(ctx context.Context, givenUp []state.Key) error {
	for _, w := range l.targets {
		of := slices.DeleteFunc(slices.Clone(givenUp), func(k state.Key) bool { return k.Target != w.Name })
		remembers, ok := w.Target.(targets.Withdrawer)
		if !ok || len(of) == 0 {
			continue
		}
		if err := remembers.Withdraw(ctx, of...); err != nil {
			return fmt.Errorf("recording which deletions were given up in %s: %w", w.Name, err)
		}
	}
	return nil
}
