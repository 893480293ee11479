package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// phase is a group of changes between which no order matters: one wave of one
// target.
type phase struct {
	deletes bool
	target  string
	wave    int
	// changes are indices into the results, in the plan's order.
	changes []int
}

// phases groups the changes and sorts the groups: creations and updates by
// target and rising wave, then deletions by falling target and wave.
func phases(todo []int, results []Result, targetOrder []string) []phase {
	var out []phase
	for _, i := range todo {
		c := results[i].Change
		ph := phase{deletes: c.Action == plan.Delete, target: c.Key.Target, wave: c.Wave()}
		at := slices.IndexFunc(out, func(o phase) bool {
			return o.deletes == ph.deletes && o.target == ph.target && o.wave == ph.wave
		})
		if at < 0 {
			at = len(out)
			out = append(out, ph)
		}
		out[at].changes = append(out[at].changes, i)
	}
	slices.SortFunc(out, func(a, b phase) int {
		if a.deletes != b.deletes {
			if a.deletes {
				return 1
			}
			return -1
		}
		byTarget := cmp.Or(cmp.Compare(rank(targetOrder, a.target), rank(targetOrder, b.target)), cmp.Compare(a.target, b.target))
		forward := cmp.Or(byTarget, cmp.Compare(a.wave, b.wave))
		if a.deletes {
			return -forward
		}
		return forward
	})
	return out
}

// rank is the target's place in the order, behind all others when not named.
func rank(order []string, name string) int {
	if at := slices.Index(order, name); at >= 0 {
		return at
	}
	return len(order)
}

// work goes through the phases.
func (r *execution) work(ctx context.Context, all []phase) {
	for n, ph := range all {
		if ctx.Err() != nil {
			r.markNotAttempted(ph.changes, stopped(ctx))
			continue
		}
		r.applyPhase(ctx, ph)
		// Another target waits for none of this one's: what needs both tries again
		// by itself, and AWS can take minutes.
		if n+1 < len(all) && !all[n+1].deletes && all[n+1].target == ph.target {
			r.await(ctx, ph)
		}
	}
}

// errStopped marks changes that were not tried because the run's context had
// ended.
var errStopped = errors.New("not started: the run was stopped")

func stopped(ctx context.Context) error {
	return fmt.Errorf("%w: %w", errStopped, context.Cause(ctx))
}

// applyPhase makes the changes of one phase, some at a time.
func (r *execution) applyPhase(ctx context.Context, ph phase) {
	each(ctx, r.opts.Concurrency, ph.changes, func(i int) {
		c := r.Results[i].Change
		callCtx, cancel := context.WithTimeout(ctx, r.opts.ChangeTimeout)
		defer cancel()
		r.record(i, Recover(func() error {
			if c.Action == plan.Update && c.HasLosses() && r.opts.BeforeDeletes != nil {
				if err := r.opts.BeforeDeletes(callCtx); err != nil {
					return err
				}
			}
			return r.targets[ph.target].Apply(callCtx, c)
		}))
	}, func(i int) {
		r.markNotAttempted([]int{i}, stopped(ctx))
	})
}

// each calls do for every item, at most limit at a time, and returns when all
// calls have. Once ctx has ended no call starts; the items left go to rest.
func each(ctx context.Context, limit int, items []int, do, rest func(int)) {
	queue := make(chan int, len(items))
	for _, i := range items {
		queue <- i
	}
	close(queue)
	var workers sync.WaitGroup
	for range min(limit, len(items)) {
		workers.Go(func() {
			for i := range queue {
				if ctx.Err() != nil {
					rest(i)
					continue
				}
				do(i)
			}
		})
	}
	workers.Wait()
}

// record gives change i the result that follows from its error.
func (r *execution) record(i int, err error) {
	r.Results[i].Err = err
	switch {
	case err == nil:
		r.Results[i].Status = Applied
	case errors.Is(err, targets.ErrConflict):
		r.Results[i].Status = Conflict
	default:
		r.Results[i].Status = Failed
	}
}

func (r *execution) markNotAttempted(changes []int, why error) {
	for _, i := range changes {
		r.Results[i].Status, r.Results[i].Err = NotAttempted, why
	}
}

// await waits until what the phase applied is ready. What is not ready in time
// is noted, and the run goes on: the things that depend on it fail by
// themselves, and those that do not must not wait for it.
func (r *execution) await(ctx context.Context, ph phase) {
	waiter, ok := r.targets[ph.target].(targets.Waiter)
	if !ok {
		return
	}
	var keys []state.Key
	for _, i := range ph.changes {
		if r.Results[i].Status == Applied {
			keys = append(keys, r.Results[i].Change.Key)
		}
	}
	if len(keys) == 0 {
		return
	}
	waitCtx, cancel := context.WithTimeout(ctx, r.opts.ReadyTimeout)
	defer cancel()
	var late map[state.Key]string
	err := Recover(func() (err error) { late, err = waiter.Ready(waitCtx, keys); return err })
	if ctx.Err() != nil {
		return // Stopped, not late.
	}
	if err != nil && len(late) == 0 {
		// Nothing is known of any of them.
		late = make(map[state.Key]string, len(keys))
		for _, k := range keys {
			late[k] = "readiness unknown: " + err.Error()
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(late), state.Key.Compare) {
		r.NotReady = append(r.NotReady, NotReady{Key: k, Reason: late[k]})
	}
}
