// Package apply makes the changes of a Plan, exactly those and in their order,
// and what became of each.
//
// It refuses to decide: what is held or dropped was decided on the Plan. It does not
// retry either; what failed is observed anew by the next run. What it does decide is
// when to stop: see Run, where to start reading.
package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// Options shape a run. The zero value is ready to use.
type Options struct {
	// Order lists the targets in the order in which they are corrected;
	// deletions go through it backwards. Targets that it does not name follow
	// in the order of their names.
	Order []string
	// Concurrency is how many changes of one wave are made at a time; 16 when
	// zero or less.
	Concurrency int
	// ReadyTimeout bounds the wait for one wave's things before the next wave
	// starts; two minutes when zero or less.
	ReadyTimeout time.Duration
	// ChangeTimeout bounds one change, so that a target that does not respond cannot hold
	// a run for ever; one minute when zero or less.
	ChangeTimeout time.Duration
	// NoDeletes reports that the wanted set is incomplete (a file could not be
	// read, a kind could not be discovered), so that what is missing from it proves
	// nothing: every deletion is skipped.
	NoDeletes bool
	// BeforeDeletes checks right before the first deletion, and before the first of those that come
	// after nodes, whether the plan still holds; with an error, they fail with it. It is called before
	// each update that loses as much as a deletion, too, and that fails alone. May be nil.
	BeforeDeletes func(ctx context.Context) error
	// BeforeConfirmed is called before the first change, where a confirmation let some of
	// them pass; with an error, these fail with it. May be nil.
	BeforeConfirmed func(ctx context.Context, with []hold.Token) error
}

const (
	defaultConcurrency   = 16
	defaultReadyTimeout  = 2 * time.Minute
	defaultChangeTimeout = time.Minute
	// endTimeout bounds the last write of a run's inventory. It is well under
	// the 30 s that Kubernetes gives a pod to stop.
	endTimeout = 10 * time.Second
)

func (o Options) withDefaults() Options {
	if o.Concurrency <= 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.ReadyTimeout <= 0 {
		o.ReadyTimeout = defaultReadyTimeout
	}
	if o.ChangeTimeout <= 0 {
		o.ChangeTimeout = defaultChangeTimeout
	}
	return o
}

// errNotRecorded is Result.Err of a change without recorded intent.
var errNotRecorded = errors.New("not started: the intent could not be recorded")

// Run makes the plan's changes in the targets, keyed as in state.Key.Target:
//
//   - Intent first: every Recorder among the targets gets Begin with what it
//     is to create and update, if only with nothing, before the first write
//     anywhere; when one refuses, nothing is written.
//   - Then creations and updates, target by target and wave by wave, at most
//     Concurrency at a time; a wave starts when the one before in its target
//     is ready, or ReadyTimeout has passed (what is not ready is in
//     Outcome.NotReady).
//   - Then deletions, backwards, unless NoDeletes is set or something that is
//     not there yet may need what would go (deletionGuard): a rename never
//     loses both. Recorders get Begin for those that are about to be sent, before
//     the first of them, and for those that a person confirmed: what is skipped
//     must not be recorded as allowed where nobody allowed it.
//   - Then, in the same order, the updates and deletions that come after the nodes
//     that go with others ([loss.Removal]), unless one of these others is held or
//     was not made: the engine drains and terminates those nodes, and they use what
//     is in AWS.
//
// One thing that is refused does not stop the others, and an error in one target does
// not stop the next. When ctx ends (shutdown, lost leadership) no further write starts
// and the rest is skipped. End is called on each Recorder that began, also then, and on
// all of them where there is nothing to do. A panic in a target becomes the error of
// the change that it was making.
func Run(ctx context.Context, p plan.Plan, targets map[string]targets.Target, opts Options) Outcome {
	r := &run{opts: opts.withDefaults(), targets: targets, results: make([]Result, len(p.Changes))}
	todo := r.confirmed(ctx, r.triage(p))
	if len(todo) == 0 {
		// An earlier life may have been killed before it could record what it did.
		r.end(ctx, r.recorders())
		return r.outcome()
	}
	makes, deletes, last := r.split(todo)
	if r.begin(ctx, slices.Concat(makes, last.makes)) {
		r.work(ctx, phases(makes, r.results, r.opts.Order))
		if r.delete(ctx, r.deletions(p, false), deletes) {
			r.work(ctx, phases(r.afterNodes(last.makes), r.results, r.opts.Order))
			left := r.afterNodes(last.deletes)
			r.begin(ctx, r.skippedOf(last.deletes))
			r.delete(ctx, r.deletions(p, true), left)
		} else {
			r.skip(slices.Concat(last.makes, last.deletes), errNotRecorded)
		}
	} else {
		r.skip(slices.Concat(deletes, last.deletes), errNotRecorded)
	}
	r.end(ctx, r.begun)
	return r.outcome()
}

// delete makes the deletions that need not wait, and returns false where the intent could not be
// recorded.
func (r *run) delete(ctx context.Context, guard deletionGuard, deletions []int) bool {
	safe := r.spare(ctx, guard, deletions)
	if !r.begin(ctx, slices.Concat(safe, r.skippedOf(deletions))) {
		return false
	}
	r.work(ctx, phases(safe, r.results, r.opts.Order))
	return true
}

// skippedOf are those of the deletions that a person confirmed and that have to wait.
func (r *run) skippedOf(deletions []int) []int {
	return slices.DeleteFunc(slices.Clone(deletions), func(i int) bool {
		return r.results[i].Status != Skipped || r.results[i].Change.Confirmed == nil
	})
}

// run is the state of one Run.
type run struct {
	opts    Options
	targets map[string]targets.Target
	// results has one entry per change, in the plan's order. Workers write
	// to distinct entries, so no lock is needed.
	results    []Result
	notReady   []NotReady
	recordErrs []error
	// begun are the targets that recorded an intent, in the order in which they did.
	begun []string
}

// triage settles what will not be tried and returns the indices of the rest.
func (r *run) triage(p plan.Plan) []int {
	var todo []int
	for i, c := range p.Changes {
		r.results[i].Change = c
		switch {
		case c.Held():
			r.results[i].Status = Held
		case c.Action == plan.Delete && r.opts.NoDeletes:
			r.skip([]int{i}, errIncomplete)
		case r.targets[c.Key.Target] == nil:
			err := fmt.Errorf("making %s: no target is called %q", c.Key, c.Key.Target)
			r.record(i, state.Fail(state.Stalled, "UnknownTarget", err))
		default:
			todo = append(todo, i)
		}
	}
	return todo
}

// confirmed settles what a confirmation let pass where that cannot be recorded, and returns
// the rest.
func (r *run) confirmed(ctx context.Context, todo []int) []int {
	var with []hold.Token
	for _, i := range todo {
		with = append(with, r.results[i].Change.Tokens...)
	}
	if len(with) == 0 || r.opts.BeforeConfirmed == nil {
		return todo
	}
	err := r.opts.BeforeConfirmed(ctx, with)
	if err == nil {
		return todo
	}
	return slices.DeleteFunc(todo, func(i int) bool {
		if len(r.results[i].Change.Tokens) == 0 {
			return false
		}
		r.record(i, err)
		return true
	})
}

// lastChanges are those that come after the nodes that go with others.
type lastChanges struct{ makes, deletes []int }

// split distinguishes the deletions from the other changes, and what comes last of both.
func (r *run) split(todo []int) (makes, deletes []int, last lastChanges) {
	for _, i := range todo {
		c, to := r.results[i].Change, &makes
		switch deletes, after := &deletes, afterNodes(c); {
		case c.Action == plan.Delete && after:
			to = &last.deletes
		case c.Action == plan.Delete:
			to = deletes
		case after:
			to = &last.makes
		}
		*to = append(*to, i)
	}
	return makes, deletes, last
}

// work goes through the phases.
func (r *run) work(ctx context.Context, all []phase) {
	for n, ph := range all {
		if ctx.Err() != nil {
			r.skip(ph.changes, stopped(ctx))
			continue
		}
		r.correct(ctx, ph)
		// Another target waits for none of this one's: what needs both tries again
		// by itself, and AWS can take minutes.
		if n+1 < len(all) && !all[n+1].deletes && all[n+1].target == ph.target {
			r.await(ctx, ph)
		}
	}
}

// spare skips the deletions that must wait and returns the others.
func (r *run) spare(ctx context.Context, guard deletionGuard, deletions []int) []int {
	if ctx.Err() != nil {
		r.skip(deletions, stopped(ctx))
		return nil
	}
	if r.opts.BeforeDeletes != nil && len(deletions) > 0 {
		if err := r.opts.BeforeDeletes(ctx); err != nil {
			for _, i := range deletions {
				r.record(i, err)
			}
			return nil
		}
	}
	var safe []int
	for _, i := range deletions {
		if why := guard.why(r.results[i].Change); why != nil {
			r.skip([]int{i}, why)
			continue
		}
		safe = append(safe, i)
	}
	return safe
}

// correct makes the changes of one phase, some at a time.
func (r *run) correct(ctx context.Context, ph phase) {
	each(ctx, r.opts.Concurrency, ph.changes, func(i int) {
		c := r.results[i].Change
		callCtx, cancel := context.WithTimeout(ctx, r.opts.ChangeTimeout)
		defer cancel()
		r.record(i, Recover(func() error {
			if c.Action == plan.Update && c.Loses() && r.opts.BeforeDeletes != nil {
				if err := r.opts.BeforeDeletes(callCtx); err != nil {
					return err
				}
			}
			return r.targets[ph.target].Correct(callCtx, c)
		}))
	}, func(i int) {
		r.skip([]int{i}, stopped(ctx))
	})
}

// record gives change i the result that follows from its error.
func (r *run) record(i int, err error) {
	r.results[i].Err = err
	switch {
	case err == nil:
		r.results[i].Status = Applied
	case errors.Is(err, targets.ErrConflict):
		r.results[i].Status = Conflict
	default:
		r.results[i].Status = Failed
	}
}

func (r *run) skip(changes []int, why error) {
	for _, i := range changes {
		r.results[i].Status, r.results[i].Err = Skipped, why
	}
}

// errStopped marks changes that were not tried because the run's context had
// ended.
var errStopped = errors.New("not started: the run was stopped")

func stopped(ctx context.Context) error {
	return fmt.Errorf("%w: %w", errStopped, context.Cause(ctx))
}
