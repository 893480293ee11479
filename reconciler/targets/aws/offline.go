package aws

import (
	"context"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// Offline is the AWS side of a Cluster where there is no AWS to ask: it wants what a
// Target does, which takes no request, and has nothing to observe or correct: both are
// errors. check is that of a Target's Config; may be nil.
func Offline(check func(cluster state.Item) []state.Problem) targets.Target {
	return &unasked{target: &Target{cfg: Config{Check: check}, kinds: kinds()}}
}

type unasked struct {
	// target knows the kinds, and has neither credentials nor an inventory.
	target *Target
}

// Want implements targets.Target.
func (u *unasked) Want(ctx context.Context, declared state.Set) (state.Set, error) {
	return u.target.Want(ctx, declared)
}

// Observe implements targets.Target.
func (u *unasked) Observe(context.Context, state.Set) (state.Set, error) {
	return state.Set{}, state.Failf(state.Fix, "Offline", "observing AWS: nobody is asked offline")
}

// Correct implements targets.Target.
func (u *unasked) Correct(_ context.Context, c plan.Change) error {
	return state.Failf(state.Fix, "Offline", "correcting %s: nobody is asked offline", c.Key)
}
