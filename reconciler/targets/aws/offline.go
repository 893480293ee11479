package aws

import (
	"context"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// Offline is the AWS side of a Cluster without AWS: it computes what a Target does
// without a request, and has nothing to observe or correct: both are errors. check is
// that of a Target's Config; may be nil.
func Offline(check func(cluster state.Item) []state.Problem) targets.Target {
	return &offlineTarget{target: &Target{cfg: Config{Check: check}, kinds: kinds()}}
}

type offlineTarget struct {
	// target has the kinds, and neither credentials nor an inventory.
	target *Target
}

// Desired implements targets.Target.
func (u *offlineTarget) Desired(ctx context.Context, declared state.Set) (state.Set, error) {
	return u.target.Desired(ctx, declared)
}

// Observe implements targets.Target.
func (u *offlineTarget) Observe(context.Context, state.Set) (state.Set, error) {
	return state.Set{}, state.Failf(state.Stalled, "Offline", "observing AWS: nothing is read or written offline")
}

// Apply implements targets.Target.
func (u *offlineTarget) Apply(_ context.Context, c plan.Change) error {
	return state.Failf(state.Stalled, "Offline", "correcting %s: nothing is read or written offline", c.Key)
}
