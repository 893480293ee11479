package controller

import (
	"context"
	"time"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
)

// partial looks at some things, puts back those that may be, and leaves all
// others alone: what drifts in the cluster must cost no question to AWS. No token lets
// anything pass here: only a full run knows when one was used.
func (r *SyncReconciler) partial(ctx context.Context, sync *v1alpha1.Sync, s *session, keys []state.Key) run {
	if ready, err := s.loaded(true); err != nil || !ready {
		s.putBack(keys)
		return unready(partial, err)
	}
	s.lastLook = r.Clock.Now()
	unconfirmed := sync.DeepCopy()
	delete(unconfirmed.Annotations, v1alpha1.ConfirmAnnotation)
	result, err := s.Loop.Correct(ctx, keys, s.options(unconfirmed))
	if err != nil || result.Outcome.Err() != nil {
		s.putBack(keys)
	}
	return run{Result: result, err: err, kind: partial, looked: keys}
}

// full compares everything with the revision at hand. Where that is loaded in the
// background, the visit that its end brings begins with the same answer of the source.
func (r *SyncReconciler) full(ctx context.Context, sync *v1alpha1.Sync, s *session, got reconciler.Result, drifted []state.Key) run {
	if ready, err := s.loaded(false); err != nil || !ready {
		s.putBack(drifted)
		if err == nil {
			s.source.keep()
			s.nextFetch = time.Time{}
		}
		return unready(full, err)
	}
	s.lastFull = r.Clock.Now()
	s.lastLook = s.lastFull
	opts := s.options(sync)
	opts.Apply.BeforeDeletes = r.unchanged(sync)
	opts.Apply.BeforeConfirmed = func(ctx context.Context, with []hold.Token) error { return r.attempt(ctx, sync, s, with) }
	result, err := s.Loop.Continue(ctx, got, opts)
	return run{Result: result, err: err}
}

// loading is a revision that is being loaded again.
type loading struct {
	background
	// cancel ends it early; what is loaded by then is given up.
	cancel context.CancelFunc
	// err is valid when done is closed.
	err error
}

// loaded gets the revision ready that the next run works with, see reconciler.Loop.Load.
// It reports false while that takes longer than patience; then its end brings another
// visit.
func (s *session) loaded(planned bool) (bool, error) {
	for !s.Loop.Loaded(planned) {
		if s.loading == nil {
			s.loading = s.load(planned)
		}
		if !s.loading.await(false, s.source.wake) {
			return false, nil
		}
		err := s.loading.err
		if s.loading = nil; err != nil {
			return true, err
		}
	}
	return true, nil
}

func (s *session) load(planned bool) *loading {
	ctx, cancel := context.WithCancel(s.source.live)
	l := &loading{background: background{done: make(chan struct{})}, cancel: cancel}
	go func() {
		defer close(l.done)
		defer cancel()
		l.err = apply.Recover(func() error { return s.Loop.Load(ctx, planned) })
		if ctx.Err() != nil {
			s.Loop.Unload() // Nobody comes any more.
		}
	}()
	return l
}

// cancelLoad ends a load under way that no visit will use.
func (s *session) cancelLoad() {
	if s.loading != nil {
		s.loading.cancel()
		s.loading = nil
	}
}

// unload gives up what a visit had loaded and did not use, unless the next one will.
func (s *session) unload() {
	if s.loading == nil {
		s.Loop.Unload()
	}
}

// unready is a pass whose revision is not loaded yet, or cannot be.
func unready(kind runKind, err error) run {
	if err != nil {
		return run{err: err, kind: kind}
	}
	return run{kind: waiting, loading: kind == full}
}
