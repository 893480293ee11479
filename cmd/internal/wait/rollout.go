package wait

import (
	"context"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/rollout"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// rolledOut checks that the Sync is ready, and that its condition RolledOut is True. The status has the condition for the revision
// that it has as applied.
func rolledOut(ctx context.Context, w *syncWaiter, sync *v1alpha1.Sync) (outcome, error) {
	o, err := ready(ctx, w, sync)
	if err != nil || !o.met {
		return o, err
	}
	c := conditions.Get(sync, rollout.Condition)
	switch {
	case c == nil:
		return outcome{sentence: "it has no condition RolledOut, which controllers before this release do not set: upgrade the controller"}, nil
	case c.ObservedGeneration < sync.Generation:
		return outcome{sentence: "its newest generation has not been reconciled yet"}, nil
	case c.Status != metav1.ConditionTrue:
		return outcome{sentence: "it is not rolled out: " + sanitize.Text(c.Reason) + ": " + sanitize.Text(c.Message)}, nil
	}
	return outcome{met: true, sentence: sanitize.Text(c.Message)}, nil
}

// rolledOutOf checks that the Sync has applied a revision, and then its roll-out. Once that was applied, a newer one may follow it:
// its nodes are to be replaced as well.
func rolledOutOf(revision string) syncCheck {
	isApplied, applies := applied(revision), false
	return func(ctx context.Context, w *syncWaiter, sync *v1alpha1.Sync) (outcome, error) {
		if !applies {
			o, err := isApplied(ctx, w, sync)
			if err != nil || !o.met {
				return o, err
			}
			applies = true
		}
		return rolledOut(ctx, w, sync)
	}
}
