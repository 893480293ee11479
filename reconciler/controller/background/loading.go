package background

import (
	"context"

	"github.com/poolwright/poolwright/reconciler/apply"
)

// loading is a revision that is being loaded again.
type loading struct {
	background
	// cancel ends it early; what is loaded by then is given up.
	cancel context.CancelFunc
	// err is valid when done is closed.
	err error
}

// Ready gets the revision ready that the next run works with, by
// [reconciler.Loop.Load]. It returns false while that takes longer than Timeout;
// then its end brings another reconciliation.
func (l *Loader) Ready(planned bool) (bool, error) {
	for !l.loop.Loaded(planned) {
		if l.loading == nil {
			l.loading = l.load(planned)
		}
		if !l.loading.await(false, l.Timeout, l.notify) {
			return false, nil
		}
		err := l.loading.err
		if l.loading = nil; err != nil {
			return true, err
		}
	}
	return true, nil
}

func (l *Loader) load(planned bool) *loading {
	ctx, cancel := context.WithCancel(l.live)
	next := &loading{background: background{done: make(chan struct{})}, cancel: cancel}
	go func() {
		defer close(next.done)
		defer cancel()
		next.err = apply.Recover(func() error { return l.loop.Load(ctx, planned) })
		if ctx.Err() != nil {
			l.loop.Unload() // Nobody comes any more.
		}
	}()
	return next
}

// Cancel ends a load under way that no reconciliation will use.
func (l *Loader) Cancel() {
	if l.loading != nil {
		l.loading.cancel()
		l.loading = nil
	}
}

// Unload gives up what a reconciliation had loaded and did not use, unless the next one will.
func (l *Loader) Unload() {
	if l.loading == nil {
		l.loop.Unload()
	}
}
