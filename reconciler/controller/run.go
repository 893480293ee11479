package controller

import (
	"context"
	"slices"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// resync is how often a Sync that needs nothing is compared in full all the
// same: the net under the watches, not the way drift is found.
const resync = 10 * time.Minute

// reportGap is the least time between two comparisons that only report drift: something
// that is rewritten every second must not cost one each time.
const reportGap = 10 * time.Second

// run does the least that is enough: put back drifted things, fetch what is new in Git,
// or compare everything. What the Sync depends on is as dependencies has it.
func (r *SyncReconciler) run(ctx context.Context, sync *v1alpha1.Sync, s *syncState, dependencies string) reconciliation {
	defer s.revisions.Unload()
	now := r.Clock.Now()
	drifted, forced := s.takeDrift(), s.forced(sync, now)
	// What a token has let pass and could not be made is for a full run to make.
	drifted = slices.DeleteFunc(drifted, func(k state.Key) bool { return slices.Contains(s.drift.confirmedKeys(), k) })
	alone := len(drifted) > 0 && !forced
	if alone && sync.Spec.Drift == v1alpha1.DriftReport {
		if left := s.lastObserved.Add(reportGap).Sub(now); left > 0 {
			s.putBack(drifted)
			return reconciliation{kind: waiting, after: left}
		}
	}
	if !alone || !now.Before(s.nextFetch) || dependencies != s.dependencies {
		if got, done, err := s.revisions.Fetch(sync.Annotations[fluxmeta.ReconcileRequestAnnotation]+dependencies, alone); done {
			s.nextFetch, s.dependencies = r.Clock.Now().Add(r.Jitter(interval(sync))), dependencies
			if err == nil {
				return r.proceed(ctx, sync, s, got, drifted, forced)
			}
			s.putBack(drifted)
			if !alone {
				s.revisions.Cancel() // Without drift the next reconciliation has no use for it.
			}
			return reconciliation{Result: got, err: err, applied: sync.Status.LastAppliedRevision}
		}
		if !alone {
			s.putBack(drifted)
			return reconciliation{kind: waiting}
		}
	}
	// Also while a slow source is awaited.
	return r.partial(ctx, sync, s, drifted)
}

// proceed goes on with what the source returned.
func (r *SyncReconciler) proceed(ctx context.Context, sync *v1alpha1.Sync, s *syncState, got reconciler.Result, drifted []state.Key, forced bool) reconciliation {
	if got.Changed || forced {
		return r.full(ctx, sync, s, got, drifted)
	}
	now, fresh := r.Clock.Now(), got.SourceError == nil
	converged := s.convergedAt(now)
	resting := fresh && now.Before(s.restUntil)
	if converged && fresh && s.failures == 0 {
		// A person who undoes what is only reported is observed by nobody.
		drifted = union(drifted, s.drift.reported())
		resting = resting || len(drifted) > 0
	}
	switch {
	case resting && len(drifted) > 0:
		return r.partial(ctx, sync, s, drifted)
	case converged && len(drifted) == 0:
		return reconciliation{Result: got, kind: idle}
	case resting:
		return reconciliation{kind: waiting, after: min(s.restUntil.Sub(now), s.nextFetch.Sub(now))}
	}
	return r.full(ctx, sync, s, got, drifted)
}

// convergedAt reports whether the last full run left nothing to be done at a time: it is not due again by then, and no hold
// has ended.
func (s *syncState) convergedAt(now time.Time) bool {
	until := s.drift.heldUntil()
	return s.converged && now.Before(s.lastFull.Add(resync)) && (until.IsZero() || now.Before(until))
}

// full compares everything with the revision at hand. Where that is loaded in the
// background, the reconciliation that its end brings begins with the same result of the source.
func (r *SyncReconciler) full(ctx context.Context, sync *v1alpha1.Sync, s *syncState, got reconciler.Result, drifted []state.Key) reconciliation {
	opts := s.options(sync, r.Clock.Now())
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
	opts.Apply.BeforeDeletes = r.unchanged(sync)
	opts.Apply.BeforeConfirmed = func(ctx context.Context, with []hold.Token) error {
		return r.recordAttemptedConfirmation(ctx, sync, with)
	}
	result, err := s.Loop.RunFetched(ctx, got, opts)
	result.Problems = lint.Sorted(result.Problems) // Counted, and the first named, as poolwright lint does.
	return reconciliation{Result: result, err: err}
}

// partial reads some things, puts back those that may be, and leaves all
// others alone: what drifts in the cluster must cost no request to AWS. No token lets
// anything pass here: only a full run can determine when one was used.
func (r *SyncReconciler) partial(ctx context.Context, sync *v1alpha1.Sync, s *syncState, keys []state.Key) reconciliation {
	if ready, err := s.revisions.Ready(true); err != nil || !ready {
		s.putBack(keys)
		return unready(partial, err)
	}
	s.lastObserved = r.Clock.Now()
	unconfirmed := sync.DeepCopy()
	delete(unconfirmed.Annotations, v1alpha1.ConfirmAnnotation)
	result, err := s.Loop.CorrectDrift(ctx, keys, s.options(unconfirmed, r.Clock.Now()))
	if err != nil || result.Outcome.Err() != nil {
		s.putBack(keys)
	}
	return reconciliation{Result: result, err: err, kind: partial, observed: keys}
}

// unready is a pass whose revision is not loaded yet, or cannot be.
func unready(kind runKind, err error) reconciliation {
	if err != nil {
		return reconciliation{err: err, kind: kind}
	}
	return reconciliation{kind: waiting, loading: kind == full}
}

// options is how careful a run for the Sync must be.
func (s *syncState) options(sync *v1alpha1.Sync, now time.Time) reconciler.Options {
	opts := reconciler.Options{Policies: syncpolicy.ForRun(sync, now)}
	if s.Guard != nil {
		opts.Guard = func(ctx context.Context, p plan.Plan) plan.Plan { return s.Guard(ctx, sync, p) }
	}
	return opts
}
