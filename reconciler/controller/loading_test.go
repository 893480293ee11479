package controller

import (
	"context"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// uncached makes the stage's revisions too large to be kept between runs, and returns who
// holds all memory for such revisions, and who is called when a reconciliation is asked for.
func uncached(s *stage) (holder *reconciler.Loop, woken chan struct{}) {
	cache := reconciler.NewRevisionCache(0, 1)
	s.r.Build = func(context.Context, *v1alpha1.Sync) (SyncRuntime, error) {
		loop := reconciler.NewLoop(s, s.load, reconciler.NamedTarget{Name: "aws", Target: s.aws}, reconciler.NamedTarget{Name: "kubernetes", Target: s.cluster})
		values := func(context.Context) (string, reconciler.Loader, error) { return "", nil, s.loadError }
		return SyncRuntime{Loop: loop.WithRevisionCache(cache).WithInputs(values), Orphan: func(context.Context) error { return nil }}, nil
	}
	s.r.states.timeout = 0
	woken = make(chan struct{}, 8)
	s.r.states.notify = func(types.NamespacedName) { woken <- struct{}{} }
	holder = reconciler.NewLoop(s, s.load).WithRevisionCache(cache)
	if _, err := holder.Fetch(s.Context()); err != nil {
		s.Fatal(err)
	}
	return holder, woken
}

// holdLoad takes the memory, and fails where a reconciliation left some in use.
func holdLoad(s *stage, holder *reconciler.Loop) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	if err := holder.Load(ctx, false); err != nil {
		s.Fatal(err)
	}
}

func TestARunThatWaitsForMemoryIsTriedAgainAndHoldsNoWorker(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/a=1")
	holder, woken := uncached(s)
	s.reconcile() // Adds the finalizer, and applies.
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	holdLoad(s, holder)
	s.commit("kubernetes/a=2")
	s.later() // Returns, though nobody gives memory.
	s.expectCondition("Reconciling", metav1.ConditionTrue, loadingRevision)
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if s.cluster.live["a"] != "1" {
		t.Error("a revision was applied that was not loaded")
	}
	holder.Unload()
	<-woken
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if s.cluster.live["a"] != "2" {
		t.Errorf("the world holds %q", s.cluster.live["a"])
	}
	holdLoad(s, holder) // All memory is given back.
	s.cluster.live["a"] = "by hand"
	s.drift(at("kubernetes", "a"))
	if s.cluster.live["a"] != "by hand" {
		t.Error("drift was corrected to a revision that was not loaded")
	}
	holder.Unload()
	<-woken
	s.reconcile()
	if s.cluster.live["a"] != "2" {
		t.Errorf("the world holds %q", s.cluster.live["a"])
	}
	holdLoad(s, holder)
}

func TestMemoryThatNobodyUsesIsGivenBack(t *testing.T) {
	for name, end := range map[string]func(*stage){
		"the Sync is suspended": func(s *stage) {
			s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Suspend = true })
			s.reconcile()
		},
		"the source cannot be read": func(s *stage) {
			s.unread = context.DeadlineExceeded
			s.edit(func(sync *v1alpha1.Sync) {
				sync.Annotations = map[string]string{fluxmeta.ReconcileRequestAnnotation: "now"}
			})
			s.reconcile()
		},
		"a variable has no value": func(s *stage) {
			s.loadError = state.Failf(state.Stalled, "SubstituteFailed", "no such ConfigMap")
			s.edit(func(sync *v1alpha1.Sync) {
				sync.Annotations = map[string]string{fluxmeta.ReconcileRequestAnnotation: "now"}
			})
			s.reconcile()
			s.expectCondition("Ready", metav1.ConditionFalse, "SubstituteFailed")
			s.loadError = nil // Who holds the memory next needs no variable.
		},
		"another Sync takes its place": func(s *stage) {
			s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Path = "elsewhere" })
			s.reconcile()
		},
		"the Sync's own deletion is held until it is confirmed": deletionWaits,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.commit("kubernetes/a=1")
			holder, woken := uncached(s)
			s.reconcile()
			holdLoad(s, holder)
			s.commit("kubernetes/a=2")
			s.later()
			holder.Unload()
			<-woken
			end(s)
			holdLoad(s, holder)
		})
	}
}

// deletionWaits deletes the Sync with its things, of which one takes nodes along.
func deletionWaits(s *stage) {
	s.Helper()
	s.edit(func(sync *v1alpha1.Sync) { sync.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete })
	s.cluster.removals["a"] = loss.DeletionImpact{Impact: "nodes go", Losses: loss.Counts{"Node": 3}}
	if err := s.r.Client.Delete(s.Context(), s.sync()); err != nil {
		s.Fatal(err)
	}
	s.reconcile()
	s.required("PruneHeld")
}

func TestALoadUnderWayEndsWithTheDeletionOfItsSync(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/a=1")
	holder, _ := uncached(s)
	s.reconcile()
	holdLoad(s, holder)
	s.commit("kubernetes/a=2")
	s.later()
	deletionWaits(s)
	holder.Unload() // It was the next in line.
	holdLoad(s, holder)
}

func TestDriftOfASyncThatWaitsForMemoryIsKept(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/a=1")
	holder, woken := uncached(s)
	s.reconcile()
	holdLoad(s, holder)
	s.commit("kubernetes/a=2")
	s.r.states.open[stageName].putBack([]state.Key{at("kubernetes", "a")})
	s.later()
	if got := s.r.states.open[stageName].takeDrift(); len(got) != 1 {
		t.Errorf("drift of %v is remembered", got)
	}
	holder.Unload()
	<-woken
	s.reconcile()
	if s.cluster.live["a"] != "2" {
		t.Errorf("the world holds %q", s.cluster.live["a"])
	}
}
