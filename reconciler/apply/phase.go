package apply

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/poolwright/poolwright/reconciler/plan"
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
