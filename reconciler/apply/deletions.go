package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Why deletions are not attempted. They are values of Result.Err.
var (
	errIncomplete  = errors.New("not deleted: what is desired is not completely known")
	errNotReplaced = errors.New("not deleted: a creation or update failed, and what is left may be needed until it succeeds")
	errHeldChange  = errors.New("not deleted: a creation or update is held, and what is left may be needed until it is made")
	errNodesStay   = errors.New("not changed yet: nodes still need this")
	errUnknown     = errors.New("not deleted: something of the same kind could not be compared, and may be what was to replace it")
)

// delete makes the deletions that need not wait, and returns false where the intent could not be
// recorded.
func (r *execution) delete(ctx context.Context, guard deletionGuard, deletions []int) bool {
	safe := r.withoutBlocked(ctx, guard, deletions)
	if !r.begin(ctx, slices.Concat(safe, r.confirmedWaiting(deletions))) {
		return false
	}
	r.work(ctx, phases(safe, r.Results, r.opts.Order))
	return true
}

// confirmedWaiting are those of the deletions that a person confirmed and that have to wait.
func (r *execution) confirmedWaiting(deletions []int) []int {
	return slices.DeleteFunc(slices.Clone(deletions), func(i int) bool {
		return r.Results[i].Status != NotAttempted || r.Results[i].Change.Confirmed == nil
	})
}

// withoutBlocked records the deletions that must wait as not attempted and returns the others.
func (r *execution) withoutBlocked(ctx context.Context, guard deletionGuard, deletions []int) []int {
	if ctx.Err() != nil {
		r.markNotAttempted(deletions, stopped(ctx))
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
		if why := guard.why(r.Results[i].Change); why != nil {
			r.markNotAttempted([]int{i}, why)
			continue
		}
		safe = append(safe, i)
	}
	return safe
}

// deletionGuard has the reasons against deletions. What is to be deleted may be what
// something else replaces, and a rename must never lose both; but a target that fails
// must not keep the others from being cleaned up. So a deletion waits
//
//   - for what was not made in its own target, and in the targets that come after
//     it in the order of targets, for those stand on it: a role in AWS stays
//     while the new one could not be written to the cluster, a ConfigMap does not
//     wait for AWS;
//   - for what was not made in any target, when others go with it: the nodes that go
//     with a pool come back only where everything is there that they need;
//   - while a thing of its own kind is unknown, for that may be its successor.
//
// Not made is what failed, was refused or not attempted, and what a revision declares and is
// held: a class that is not updated yet still needs the role that it names. What is
// read-only is waited for by nobody, or it would be for ever; and what is held and
// only puts back what somebody changed by hand replaces nothing. Nor does what comes
// after nodes, which waits for deletions itself.
type deletionGuard struct {
	order func(a, b string) int
	// missing has the targets in which something was not made, and why that prevents
	// deletions.
	missing map[string]error
	// unknown has the kinds of the unknown things: keys without a name.
	unknown map[state.Key]bool
}

// deletions reads what became of the creations and updates, and for the last deletions of
// those that come after nodes.
func (r *execution) deletions(p plan.Plan, last bool) deletionGuard {
	k := deletionGuard{order: r.byOrder, missing: map[string]error{}, unknown: map[state.Key]bool{}}
	for _, res := range r.Results {
		if res.Change.Action == plan.Delete || afterNodes(res.Change) && !last {
			continue
		}
		target := res.Change.Key.Target
		switch res.Status {
		case Failed, Conflict, NotAttempted:
			k.missing[target] = errNotReplaced
		case Held:
			if !res.Change.Drift && k.missing[target] == nil {
				k.missing[target] = errHeldChange
			}
		case Applied, Skipped:
		}
	}
	for _, u := range p.Unknown {
		k.unknown[kindOf(u.Key)] = true
	}
	return k
}

// why is why the deletion must wait, or returns nil.
func (k deletionGuard) why(c plan.Change) error {
	var held error
	for target, err := range k.missing {
		if k.order(target, c.Key.Target) < 0 && c.Before.Impact == "" {
			continue
		}
		if errors.Is(err, errNotReplaced) {
			return err
		}
		held = err
	}
	if held == nil && k.unknown[kindOf(c.Key)] {
		return errUnknown
	}
	return held
}

func kindOf(k state.Key) state.Key {
	return state.Key{Target: k.Target, Group: k.Group, Kind: k.Kind}
}

// afterNodes reports whether a change comes after the nodes that go with others.
func afterNodes(c plan.Change) bool { return c.Before != nil && c.Before.AfterNodes }

// afterNodes does not attempt the changes that come after nodes where a deletion with which nodes go is held
// or was not made, in whatever target, or may be missing in the plan since the run deletes nothing.
// It returns the changes otherwise.
func (r *execution) afterNodes(last []int) []int {
	if r.opts.NoDeletes {
		r.markNotAttempted(last, fmt.Errorf("%w, and this run deletes nothing", errNodesStay))
		return nil
	}
	for _, res := range r.Results {
		c := res.Change
		if c.Action == plan.Delete && !afterNodes(c) && !c.ReadOnly() && res.Status != Applied && c.Before.Losses.Nodes() {
			was := "was not made"
			if res.Status == Held {
				was = "is held"
			}
			r.markNotAttempted(last, fmt.Errorf("%w, and the deletion of %s, with which they go, %s", errNodesStay, c.Key, was))
			return nil
		}
	}
	return last
}
