package randomwalk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
	"github.com/poolwright/poolwright/provision/sandbox/trace/oracle"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

// walker performs operations in a fixture.
type walker struct {
	fixture  *fixture.Fixture
	commits  commits
	armed    []*wiretap.Armed
	suspends bool
}

// newWalker makes the first commit, and starts the controller with a Sync.
func newWalker(ctx context.Context, s *fixture.Fixture) (*walker, error) {
	w := &walker{fixture: s}
	if err := w.declare(ctx, initial()); err != nil {
		return nil, err
	}
	if err := s.Start(); err != nil {
		return nil, err
	}
	return w, s.CreateSync(ctx)
}

// declare commits what is declared from now on, if it is acceptable.
func (w *walker) declare(ctx context.Context, model map[string]string) error {
	if !w.commits.accept(model) {
		return nil
	}
	w.fixture.Model = model
	return w.fixture.Commit(ctx, fmt.Sprintf("Commit %d", w.commits.count))
}

// perform does one operation. What the product does about it, it does later.
func (w *walker) perform(ctx context.Context, o Operation) error {
	switch o.Do {
	case Commit:
		return w.declare(ctx, w.commits.changed(o.Values))
	case Revert:
		return w.declare(ctx, maps.Clone(w.commits.before))
	case Edit:
		return w.fixture.Edit(ctx, o.Object)
	case Delete:
		return w.fixture.Delete(ctx, o.Object)
	case Suspend, Resume:
		return w.suspend(ctx, o.Do == Suspend)
	case Reconcile:
		return w.fixture.Request(ctx)
	case Inject:
		w.inject(*o.Fault, o.Times)
		return nil
	case Kill:
		w.kill()
		return nil
	case Restart:
		return w.fixture.Restart(ctx)
	case Check:
		return w.check(ctx)
	}
	return fmt.Errorf("there is no operation %q", o.Do)
}

func (w *walker) suspend(ctx context.Context, suspend bool) error {
	if w.suspends == suspend {
		return nil
	}
	w.suspends = suspend
	return w.fixture.Suspend(ctx, suspend)
}

// inject lets each of the next requests meet the fault. A process can be killed once, at the
// last of them.
func (w *walker) inject(f Fault, times int) {
	fault := wiretap.Fault{At: f.At, After: f.After, Do: f.Do, Status: f.Status, Wait: f.Wait}
	if f.Do == wiretap.Kill {
		fault.Nth, times = times, 1
		fault.Call = func(trace.Request) { w.kill() }
	}
	for range max(1, times) {
		w.armed = append(w.armed, w.fixture.Tap.Arm(fault))
	}
}

// kill ends the controller, if it runs.
func (w *walker) kill() {
	if _, running := w.fixture.Running(); running {
		w.fixture.Kill()
	}
}

// check ends the faults and returns once all is as declared, which it records. A
// fixture.TimeoutError becomes a part of the trace.
func (w *walker) check(ctx context.Context) error {
	for _, armed := range w.armed {
		armed.Disarm()
	}
	w.armed = nil
	err := w.suspend(ctx, false)
	for _, step := range []func(context.Context) error{w.fixture.Restart, w.fixture.Converge, w.fixture.Run, w.fixture.Observe} {
		if err == nil {
			err = step(ctx)
		}
	}
	if late, ok := errors.AsType[*fixture.TimeoutError](err); ok {
		w.fixture.Tap.Record(trace.Event{Kind: trace.Stuck, Reason: late.Error()})
		err = nil
	}
	w.commits.checked()
	return err
}

// violations checks the trace, which loses the requests that no later check needs.
func (w *walker) violations() []oracle.Violation {
	out := oracle.Check(w.fixture.Tap.Records())
	if len(out) == 0 {
		w.fixture.Tap.Discard(func(q *trace.Request) bool {
			return q.Wire == trace.Git || q.Wire == trace.Kubernetes && !q.Writes()
		})
	}
	return out
}

// pause waits, while the product works.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
