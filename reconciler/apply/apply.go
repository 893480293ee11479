// Package apply makes the changes of a Plan, exactly those and in their order,
// and what became of each.
//
// It refuses to decide: what is held or dropped was decided on the Plan. It does not
// retry either; what failed is observed anew by the next run. What it does decide is
// when to stop: see Run, where to start reading.
package apply

import (
	"cmp"
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
	// Order lists the targets in the order in which they are applied to;
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
	// NoDeletes reports that the desired set is incomplete (a file could not be
	// read, a kind could not be discovered), so that what is missing from it proves
	// nothing: no deletion is attempted.
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
//   - Intent first: every InventoryWriter among the targets gets Begin with what it
//     is to create and update, if only with nothing, before the first write
//     anywhere; when one refuses, nothing is written.
//   - Then creations and updates, target by target and wave by wave, at most
//     Concurrency at a time; a wave starts when the one before in its target
//     is ready, or ReadyTimeout has passed (what is not ready is in
//     Outcome.NotReady).
//   - Then deletions, backwards, unless NoDeletes is set or something that is
//     not there yet may need what would go (deletionGuard): a rename never
//     loses both. InventoryWriters get Begin for those that are about to be sent, before
//     the first of them, and for those that a person confirmed: what is not attempted
//     must not be recorded as allowed where nobody allowed it.
//   - Then, in the same order, the updates and deletions that come after the nodes
//     that go with others ([loss.DeletionImpact]), unless one of these others is held or
//     was not made: the engine drains and terminates those nodes, and they use what
//     is in AWS.
//
// One thing that is refused does not stop the others, and an error in one target does
// not stop the next. When ctx ends (shutdown, lost leadership) no further write starts
// and the rest is not attempted. End is called on each InventoryWriter that began, also then, and on
// all of them where there is nothing to do. A panic in a target becomes the error of
// the change that it was making.
func Run(ctx context.Context, p plan.Plan, targets map[string]targets.Target, opts Options) Outcome {
	r := &execution{opts: opts.withDefaults(), targets: targets, Outcome: Outcome{Results: make([]Result, len(p.Changes))}}
	todo := r.confirmed(ctx, r.triage(p))
	if len(todo) == 0 {
		// An earlier life may have been killed before it could record what it did.
		r.end(ctx, r.recorders())
		return r.Outcome
	}
	makes, deletes, last := r.split(todo)
	if r.begin(ctx, slices.Concat(makes, last.makes)) {
		r.work(ctx, phases(makes, r.Results, r.opts.Order))
		if r.delete(ctx, r.deletions(p, false), deletes) {
			r.work(ctx, phases(r.afterNodes(last.makes), r.Results, r.opts.Order))
			left := r.afterNodes(last.deletes)
			r.begin(ctx, r.confirmedWaiting(last.deletes))
			r.delete(ctx, r.deletions(p, true), left)
		} else {
			r.markNotAttempted(slices.Concat(last.makes, last.deletes), errNotRecorded)
		}
	} else {
		r.markNotAttempted(slices.Concat(deletes, last.deletes), errNotRecorded)
	}
	r.end(ctx, r.begun)
	return r.Outcome
}

// execution is one Run at work.
type execution struct {
	opts    Options
	targets map[string]targets.Target
	// Outcome is what was done so far. Workers write to distinct Results, so no lock is needed.
	Outcome
	// begun are the targets that recorded an intent, in the order in which they did.
	begun []string
}

// triage settles what will not be tried and returns the indices of the rest.
func (r *execution) triage(p plan.Plan) []int {
	var todo []int
	for i, c := range p.Changes {
		r.Results[i].Change = c
		switch {
		case c.Skipped():
			r.Results[i].Status = Skipped
		case c.Held():
			r.Results[i].Status = Held
		case c.Action == plan.Delete && r.opts.NoDeletes:
			r.markNotAttempted([]int{i}, errIncomplete)
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
func (r *execution) confirmed(ctx context.Context, todo []int) []int {
	var with []hold.Token
	for _, i := range todo {
		with = append(with, r.Results[i].Change.Tokens...)
	}
	if len(with) == 0 || r.opts.BeforeConfirmed == nil {
		return todo
	}
	err := r.opts.BeforeConfirmed(ctx, with)
	if err == nil {
		return todo
	}
	return slices.DeleteFunc(todo, func(i int) bool {
		if len(r.Results[i].Change.Tokens) == 0 {
			return false
		}
		r.record(i, err)
		return true
	})
}

// lastChanges are those that come after the nodes that go with others.
type lastChanges struct{ makes, deletes []int }

// split distinguishes the deletions from the other changes, and what comes last of both.
func (r *execution) split(todo []int) (makes, deletes []int, last lastChanges) {
	for _, i := range todo {
		c, to := r.Results[i].Change, &makes
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

// begin records the intent in every target, before any of it is written anywhere; in
// one that has nothing to do, what its observation has changed in the record, such as
// an approval that was revoked. Where one refuses, the changes are not attempted, and it returns
// false.
func (r *execution) begin(ctx context.Context, todo []int) bool {
	err := r.intend(ctx, todo)
	if err != nil {
		r.recordErrs = append(r.recordErrs, err)
		r.markNotAttempted(todo, errNotRecorded)
	}
	return err == nil
}

func (r *execution) intend(ctx context.Context, todo []int) error {
	intents := map[string][]plan.Change{}
	for _, i := range todo {
		c := r.Results[i].Change
		intents[c.Key.Target] = append(intents[c.Key.Target], c)
	}
	for _, name := range r.recorders() {
		if len(intents[name]) == 0 && slices.Contains(r.begun, name) {
			continue
		}
		rec, _ := r.targets[name].(targets.InventoryWriter)
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		if err := Recover(func() error { return rec.Begin(ctx, intents[name]) }); err != nil {
			return fmt.Errorf("recording what is about to change in %s: %w", name, err)
		}
		if !slices.Contains(r.begun, name) {
			r.begun = append(r.begun, name)
		}
	}
	return nil
}

// recorders names the targets that keep an inventory, in their order.
func (r *execution) recorders() []string {
	return slices.SortedFunc(func(yield func(string) bool) {
		for name, t := range r.targets {
			if _, ok := t.(targets.InventoryWriter); ok && !yield(name) {
				return
			}
		}
	}, r.byOrder)
}

func (r *execution) byOrder(a, b string) int {
	return cmp.Or(cmp.Compare(rank(r.opts.Order, a), rank(r.opts.Order, b)), cmp.Compare(a, b))
}
