package aws

import (
	"context"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// Offline is the AWS side of a Cluster where there is no AWS to ask: it wants what a
// World does, which takes no request, and has nothing to observe or correct: both are
// errors. check is that of a World's Config; may be nil.
func Offline(check func(cluster state.Item) []state.Problem) targets.Target {
	return &unasked{world: &World{cfg: Config{Check: check}, kinds: kinds()}}
}

type unasked struct {
	// world knows the kinds, and has neither credentials nor an inventory.
	world *World
}

// Want implements targets.Target.
func (u *unasked) Want(ctx context.Context, declared state.Set) (state.Set, error) {
	return u.world.Want(ctx, declared)
}

// Observe implements targets.Target.
func (u *unasked) Observe(context.Context, state.Set) (state.Set, error) {
	return state.Set{}, state.Failf(state.Fix, "Offline", "observing AWS: nobody is asked offline")
}

// Correct implements targets.Target.
func (u *unasked) Correct(_ context.Context, c plan.Change) error {
	return state.Failf(state.Fix, "Offline", "correcting %s: nobody is asked offline", c.Key)
}
