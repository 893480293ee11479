package kubernetes

import (
	"context"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// Desired implements targets.Target: the declared Kubernetes objects, and those that a
// DevicePlugin stands for, as they will be sent, labelled, in their waves, without
// what only a live object has.
func (w *Target) Desired(ctx context.Context, declared state.Set) (state.Set, error) {
	set, problems, err := w.desired.Build(ctx, declared)
	if err != nil {
		return state.Set{}, err
	}
	w.diff.Retain(func(k state.Key) bool { _, desired := set.Get(k); return desired })
	w.diff.SetBase(set.Items())
	if len(problems) > 0 {
		return set, &targets.ProblemsError{Problems: problems}
	}
	return set, nil
}

// Trim drops the unmasked content of Secrets that Desired left to Apply, which creates and
// updates no Secret until the next Desired. It is safe for concurrent use with all verbs.
func (w *Target) Trim() { w.desired.Trim() }
