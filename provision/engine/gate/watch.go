package gate

import (
	"context"
	"slices"
	"time"

	"k8s.io/utils/clock"
)

// tolerated is how many checks in a row may stay unproven once the gates were
// open: AWS throttling for a minute is no reason to stop serving pods, and what
// such a minute could affect is guarded where it happens.
const tolerated = 3

// Watch checks the gates again and again, as a manager's Runnable. It takes them
// for open when it starts, since an engine is built only behind open gates. It runs
// on every replica: one that does not lead has to decide as well whether to build an
// engine.
type Watch struct {
	// Check is Gates.Check.
	Check func(context.Context) ([]ClosedGate, error)
	// Report is called with the closed gates whenever they change; with none when
	// all are open again. It must not block for long.
	Report func([]ClosedGate)
	// Every is the time between checks while all gates are open.
	Every time.Duration
	// Retry is the time between checks while one is closed or unproven.
	Retry time.Duration
	// Clock is the time. Default: the real one.
	Clock clock.Clock
}

// NeedLeaderElection is false: the manager does not wait for leadership.
func (w Watch) NeedLeaderElection() bool { return false }

// Start checks until the context ends; then it returns nil.
func (w Watch) Start(ctx context.Context) error {
	if w.Clock == nil {
		w.Clock = clock.RealClock{}
	}
	var reported reportedGates
	for {
		closed, err := w.Check(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if reported.changes(closed) {
			w.Report(slices.Clone(closed))
		}
		pause := w.Every
		if len(closed) > 0 {
			pause = w.Retry
		}
		timer := w.Clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// reportedGates is what was reported last; at the start that all gates are open.
type reportedGates struct {
	closed []ClosedGate
	// unproven counts checks in a row that only could not be made.
	unproven int
}

// changes records a check's outcome and returns whether it is to be reported.
func (v *reportedGates) changes(closed []ClosedGate) bool {
	unproven := len(closed) > 0 && !slices.ContainsFunc(closed, func(r ClosedGate) bool { return !r.Unproven })
	if unproven {
		v.unproven++
	} else {
		v.unproven = 0
	}
	open := len(v.closed) == 0
	if open && unproven && v.unproven < tolerated || slices.Equal(v.closed, closed) {
		return false
	}
	v.closed = closed
	return true
}
