package operator

import (
	"context"
	"io/fs"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/preview"
	"github.com/poolwright/poolwright/reconciler/pullrequest"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/timeout"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// held is a tree that answers nothing before it is released.
type held struct {
	fstest.MapFS
	requested, released chan struct{}
}

func (h held) Stat(name string) (fs.FileInfo, error) {
	select {
	case h.requested <- struct{}{}:
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
		_, err := (&child.Runner{Semaphore: slots, Proposed: true, Repository: "other"}).Load(t.Context(), tree, "x", substitute.Values{})
		done <- err
	}()
	<-tree.requested
	return func() {
		close(tree.released)
		if err := <-done; err != nil {
			t.Errorf("the other proposal: %v", err)
		}
	}
}

// renderingPlanner is a planner that renders what it compares in children of those slots. begun
// is closed when that begins.
func renderingPlanner(slots *child.Semaphore) (p *preview.Planner, begun chan struct{}) {
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "poolwright"}}
	sync.Spec.Path, sync.Status.LastAttemptedRevision = "p", "main@sha1:base1"
	begun = make(chan struct{})
	return &preview.Planner{
		Revisions: &lone{begun: begun}, Sync: sync, Live: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(sync).Build(),
		Previewer: &preview.Previewer{
			Renderer: &child.Runner{Semaphore: slots, Proposed: true, Repository: "ours"}, Cache: &rendercache.Cache{},
			Variables: &variables.Current{}, SchemaErrors: &validation.Errors{}, Now: time.Now, ObservedAt: &preview.ObservedAt{},
			Targets: []reconciler.NamedTarget{{Name: "kubernetes", Target: emptyTarget{}}},
			Forecast: func(context.Context, state.Set, state.Set, []plan.Change) (*provision.Forecast, error) {
				return nil, nil
			},
		},
	}, begun
}

// emptyTarget wants what is declared, and has nothing.
type emptyTarget struct{}

func (emptyTarget) Desired(_ context.Context, declared state.Set) (state.Set, error) {
	return declared, nil
}

func (emptyTarget) Observe(context.Context, state.Set) (state.Set, error) { return state.Set{}, nil }

func (emptyTarget) Apply(context.Context, plan.Change) error { return nil }

// lone is a repository with one ConfigMap on all sides.
type lone struct{ begun chan struct{} }

func (l *lone) CompareCached(gitsource.Revision, gitsource.Revision) (gitsource.Comparison, bool) {
	return gitsource.Comparison{}, false
}

func (l *lone) Contains(context.Context, string, string, string) (bool, error) { return false, nil }

func (l *lone) Compare(context.Context, string, string) (gitsource.Comparison, error) {
	close(l.begun)
	s := gitsource.Snapshot{TreeID: "one", Commit: "base1", FS: fstest.MapFS{"p/a.yaml": {Data: []byte(oneMap)}}}
	head := s
	head.Commit = "head1"
	return gitsource.Comparison{Base: s, MergeBase: s, Head: head}, nil
}

func TestAPlanIsNotChargedForTheSlotThatAnotherHas(t *testing.T) {
	slots, at := child.NewSemaphore(), clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	r, begun := renderingPlanner(slots)
	r.Clock = at
	release := occupied(t, slots)
	type made struct {
		took time.Duration
		err  error
	}
	done := make(chan made, 1)
	go func() {
		_, _, took, err := r.Plan(t.Context(), forge.PullRequest{Number: 1, Head: forge.Branch{SHA: "head1"}})
		done <- made{took, err}
	}()
	// The time of its work is not counted any more once it waits.
	<-begun
	for at.HasWaiters() {
		runtime.Gosched()
		select {
		case got := <-done:
			t.Fatalf("it did not wait: %s, %v", got.took, got.err)
		default:
		}
	}
	at.Step(2 * pullrequest.PlanTime)
	release()
	got := <-done
	if got.err != nil || got.took != 0 {
		t.Errorf("charged %s, %v", got.took, got.err)
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
	ctx, limit := timeout.Start(t.Context(), at, pullrequest.PlanTime)
	at.Step(time.Second)
	if err := (unmetered{blocked{wait: func() { at.Step(time.Hour) }}}).Wait(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, context.Cause(ctx))
	}
	if got := limit.Stop(); got != time.Second {
		t.Errorf("charged %s", got)
	}
}
