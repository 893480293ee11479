package controller

import (
	"context"
	"time"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
)

// partial reads some things, puts back those that may be, and leaves all
// others alone: what drifts in the cluster must cost no request to AWS. No token lets
// anything pass here: only a full run can determine when one was used.
func (r *SyncReconciler) partial(ctx context.Context, sync *v1alpha1.Sync, s *session, keys []state.Key) run {
	if ready, err := s.revisions.Ready(true); err != nil || !ready {
		s.putBack(keys)
		return unready(partial, err)
	}
	s.lastObserved = r.Clock.Now()
	unconfirmed := sync.DeepCopy()
	delete(unconfirmed.Annotations, v1alpha1.ConfirmAnnotation)
	result, err := s.Loop.Correct(ctx, keys, s.options(unconfirmed))
	if err != nil || result.Outcome.Err() != nil {
		s.putBack(keys)
	}
	return run{Result: result, err: err, kind: partial, observed: keys}
}

// full compares everything with the revision at hand. Where that is loaded in the
// background, the visit that its end brings begins with the same result of the source.
func (r *SyncReconciler) full(ctx context.Context, sync *v1alpha1.Sync, s *session, got reconciler.Result, drifted []state.Key) run {
	if ready, err := s.revisions.Ready(false); err != nil || !ready {
		s.putBack(drifted)
		if err == nil {
			s.revisions.Keep()
			s.nextFetch = time.Time{}
		}
		return unready(full, err)
	}
	s.lastFull = r.Clock.Now()
	s.lastObserved = s.lastFull
	opts := s.options(sync)
	opts.Apply.BeforeDeletes = r.unchanged(sync)
	opts.Apply.BeforeConfirmed = func(ctx context.Context, with []hold.Token) error {
		return r.recordAttemptedConfirmation(ctx, sync, with)
	}
	result, err := s.Loop.Continue(ctx, got, opts)
	result.Problems = lint.Sorted(result.Problems) // Counted, and the first named, as poolwright lint does.
	return run{Result: result, err: err}
}

// unready is a pass whose revision is not loaded yet, or cannot be.
func unready(kind runKind, err error) run {
	if err != nil {
		return run{err: err, kind: kind}
	}
	return run{kind: waiting, loading: kind == full}
}
