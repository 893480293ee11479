package reconciler

import (
	"context"
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/proposal"
)

// Propose computes with the targets what the change from before to after would do; it
// changes nothing. Offline, only their Desired is called, and the result is the difference
// of the two revisions.
//
// A target keeps of its last Desired and Observe what the next verbs need: give Propose
// targets that no Loop works with, and those for one call at a time.
func Propose(ctx context.Context, before, after declared.Declared, offline bool, targets []NamedTarget, policies ...plan.Policy) (plan.Proposal, error) {
	sides := proposal.RevisionStates{Declared: after.Set, Offline: offline}
	var err error
	if sides.Before, err = survey(ctx, before, offline, targets); err != nil {
		return plan.Proposal{}, fmt.Errorf("reading the revision before the change: %w", err)
	}
	if sides.After, err = survey(ctx, after, offline, targets); err != nil {
		return plan.Proposal{}, fmt.Errorf("reading the revision after the change: %w", err)
	}
	return proposal.Propose(sides, policies...), nil
}

// survey compares one revision with all targets. Each is observed right after its Desired,
// since a target observes by what its last Desired was called with.
func survey(ctx context.Context, d declared.Declared, offline bool, targets []NamedTarget) (proposal.RevisionState, error) {
	out := proposal.RevisionState{Problems: slices.Clip(d.Problems)}
	if d.BeforeDesired != nil {
		d.BeforeDesired()
	}
	for _, w := range targets {
		desired, more, err := computeDesired(ctx, w.Target, d.Set)
		if err != nil {
			return out, fmt.Errorf("preparing %s: %w", w.Name, err)
		}
		out.Desired, out.Problems = out.Desired.Union(desired), append(out.Problems, more...)
		if offline {
			continue
		}
		found, err := w.Target.Observe(ctx, desired)
		if err != nil {
			return out, fmt.Errorf("observing %s: %w", w.Name, err)
		}
		out.Observed = out.Observed.Union(found)
	}
	return out, nil
}
