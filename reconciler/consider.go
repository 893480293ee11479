package reconciler

import (
	"context"
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
)

// consider has held what the plan's consequences do not allow. A deletion that is held
// already is counted, too: a person should read all at once.
func consider(ctx context.Context, result Result, opts Options) Result {
	if opts.Guard == nil || len(result.Plan.Guarded()) == 0 {
		return result
	}
	result.Plan = opts.Guard(ctx, result.Plan)
	return result
}

// reconsider is consider for a plan of some things only, which shows too little of what
// the whole revision does: what was withheld from that stays so until all is planned
// again, however few nodes a part of it would cost.
func (r *revision) reconsider(ctx context.Context, result Result, opts Options) Result {
	result.Plan.Wanted = r.provisions
	result.Plan = result.Plan.KeepUsed(r.used).Withhold(r.withheld)
	if !slices.ContainsFunc(result.Plan.Guarded(), func(c plan.Change) bool { return !c.Held() }) {
		return result
	}
	return consider(ctx, result, opts)
}

// remember keeps what is withheld, and what is wanted, for reads some things only.
func (r *revision) remember(result Result) {
	r.withheld, r.used, r.provisions = map[state.Key]hold.Reasons{}, map[state.Key]hold.Reasons{}, result.Plan.Wanted
	for _, c := range result.Plan.Changes {
		if c.KeepsUsed() {
			r.used[c.Key] = c.Hold
		}
		if c.Hold.Nodes() || c.Hold.By(hold.UpdateLosses) {
			r.withheld[c.Key] = c.Hold
		}
	}
}
