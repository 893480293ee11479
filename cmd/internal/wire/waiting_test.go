package wire

import (
	"context"
	"io/fs"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/impact"
	"github.com/poolwright/poolwright/reconciler/pullrequest"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/worktime"
)

// held is a tree that answers nothing before it is released.
type held struct {
	fstest.MapFS
	asked, released chan struct{}
}

func (h held) Stat(name string) (fs.FileInfo, error) {
	select {
	case h.asked <- struct{}{}:
	default:
	}
	<-h.released
	return h.MapFS.Stat(name)
}

// occupied has a proposal of another repository take the slot of proposals.
func occupied(t *testing.T, slots *child.Semaphore) (release func()) {
	t.Helper()
	tree := held{fstest.MapFS{"x/a.yaml": {Data: []byte(oneMap)}}, make(chan struct{}, 1), make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		_, err := (&child.Runner{Semaphore: slots, Proposal: true, Repository: "other"}).Load(t.Context(), tree, "x", substitute.Values{})
		done <- err
	}()
	<-tree.asked
	return func() {
		close(tree.released)
		if err := <-done; err != nil {
			t.Errorf("the other proposal: %v", err)
		}
	}
}

// rendering makes a reviewer render what it compares. It is told when that begins.
func (r *reviewer) rendering(slots *child.Semaphore) (begun chan struct{}) {
	r.renders = &renders{}
	r.children = &child.Runner{Semaphore: slots, Proposal: true, Repository: "ours"}
	begun = make(chan struct{})
	r.repository = &lone{begun: begun}
	r.forecast = func(context.Context, impact.Change) (*provision.Forecast, error) { return nil, nil }
	return begun
}

// lone is a repository with one ConfigMap on all sides.
type lone struct {
	fewRevisions
	begun chan struct{}
}

func (l *lone) Compare(context.Context, string, string) (gitsource.Comparison, error) {
	close(l.begun)
	s := gitsource.Snapshot{TreeID: "one", Commit: "base1", FS: fstest.MapFS{"p/a.yaml": {Data: []byte(oneMap)}}}
	head := s
	head.Commit = "head1"
	return gitsource.Comparison{Base: s, MergeBase: s, Head: head}, nil
}

func TestAPlanIsNotChargedForTheSlotThatAnotherHas(t *testing.T) {
	r, _, _ := stageReview(t, nil)
	slots, at := child.NewSemaphore(), clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	begun := r.rendering(slots)
	r.clock = at
	release := occupied(t, slots)
	type made struct {
		plan pullrequest.Plan
		err  error
	}
	done := make(chan made, 1)
	go func() {
		plan, err := r.Plan(t.Context(), forge.PullRequest{Number: 1, Head: forge.Branch{SHA: "head1"}})
		done <- made{plan, err}
	}()
	// The time of its work is not counted any more once it waits.
	<-begun
	for at.HasWaiters() {
		runtime.Gosched()
		select {
		case got := <-done:
			t.Fatalf("it did not wait: %+v, %v", got.plan, got.err)
		default:
		}
	}
	at.Step(2 * pullrequest.PlanTime)
	release()
	got := <-done
	if got.err != nil || got.plan.Took != 0 {
		t.Errorf("charged %s, %v", got.plan.Took, got.err)
	}
}

// blocked is a limiter with no token left.
type blocked struct {
	flowcontrol.RateLimiter
	wait func()
}

func (b blocked) Wait(context.Context) error {
	b.wait()
	return nil
}

func TestAPlanIsNotChargedForTheLimiterThatAllShare(t *testing.T) {
	at := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	ctx, meter := worktime.Start(t.Context(), at, pullrequest.PlanTime)
	at.Step(time.Second)
	if err := (unmetered{blocked{wait: func() { at.Step(time.Hour) }}}).Wait(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, context.Cause(ctx))
	}
	if got := meter.Stop(); got != time.Second {
		t.Errorf("charged %s", got)
	}
}
