package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// intercept puts functions between the controller and the API.
func (s *stage) intercept(funcs interceptor.Funcs) {
	s.Helper()
	api, ok := s.r.Client.(client.WithWatch)
	if !ok {
		s.Fatalf("%T cannot be intercepted", s.r.Client)
	}
	s.r.Client = interceptor.NewClient(api, funcs)
}

// unwritten reconciles while no status can be written, and at the time that is asked for.
func (s *stage) unwritten() {
	s.Helper()
	s.clock.Step(s.fails())
}

// fails reconciles while no status can be written, and returns when to come back.
func (s *stage) fails() time.Duration {
	s.Helper()
	api, down := s.r.Client, errors.New("the API server is away")
	s.intercept(interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
		return down
	}})
	defer func() { s.r.Client = api }()
	return s.reconcile()
}

// AWS bills by the call: what nobody could be told is not found out again and again.
func TestWhatCannotBeWrittenIsFoundOutLessAndLessOften(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/np-gpu=1", "aws/queue=1")
	s.reconcile()
	s.commit("kubernetes/np-gpu=2", "aws/queue=1")
	s.clock.Step(2 * resync)
	before := s.cluster.fullComparisons
	for n, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		after := s.fails()
		if after != want {
			t.Errorf("after %d failures it waits %s", n+1, after)
		}
		if reads := s.cluster.fullComparisons - before; reads != n+1 {
			t.Errorf("%d comparisons after %d failures", reads, n+1)
		}
		s.clock.Step(after - time.Millisecond)
		if s.fails(); s.cluster.fullComparisons-before != n+1 {
			t.Error("a reconciliation before its time compared everything")
		}
		s.clock.Step(time.Millisecond)
	}
	s.reconcile()
	if reads := s.cluster.fullComparisons - before; reads != 5 {
		t.Errorf("%d comparisons until it was written", reads)
	}
}

func TestWhatCouldNotBeWrittenIsReportedByTheNextReconciliation(t *testing.T) {
	for name, drifted := range map[string][]state.Key{
		"though the source has nothing new": nil,
		"though something drifts meanwhile": {at("kubernetes", "map")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.commit("kubernetes/np-gpu=1", "aws/queue=1")
			s.aws.refused["queue"] = "AccessDenied"
			s.reconcile()
			s.expectCondition("Ready", metav1.ConditionFalse, "ApplyFailed")
			s.takeEvents()

			delete(s.aws.refused, "queue")
			s.commit("kubernetes/np-gpu=2", "kubernetes/map=1", "aws/queue=1")
			s.clock.Step(2 * resync)
			s.unwritten()
			s.r.states.open[stageName].putBack(drifted)
			s.reconcile()
			if got, want := s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded"), "Applied revision "+s.revision+": 3 objects"; got != want {
				t.Errorf("Ready says %q, want %q", got, want)
			}
			if d := cmp.Diff([]string{}, append(s.pending(), s.takeEvents()...)); d != "" {
				t.Errorf("pending, or told again (-want +got):\n%s", d)
			}
			s.objects(3)
			if status := s.sync().Status; status.LastAppliedRevision != s.revision {
				t.Errorf("applied %q", status.LastAppliedRevision)
			}
			reads := s.cluster.fullComparisons
			if s.later(); s.cluster.fullComparisons != reads {
				t.Error("everything is compared again, though all of it was written")
			}
		})
	}
	t.Run("though it was a failure, of which the next try would come late", func(t *testing.T) {
		s := newStage(t, nil)
		s.commit("kubernetes/map=1")
		s.reconcile()
		s.cluster.unknown["map"] = "Forbidden"
		s.clock.Step(2 * resync)
		s.unwritten()
		s.reconcile()
		s.expectCondition("Ready", metav1.ConditionFalse, "PartlyUnknown")
		s.expectCondition("Drifted", metav1.ConditionUnknown, "PartlyUnknown")
	})
}

// cached has the cache show the Sync as it was, until it catches up.
func (s *stage) cached(old *v1alpha1.Sync) (catchUp func()) {
	s.Helper()
	api := s.r.Client
	s.intercept(interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
		old.DeepCopyInto(into.(*v1alpha1.Sync))
		return nil
	}})
	return func() { s.r.Client = api }
}

// A Sync that is reconciled right after its status was written may come from a cache
// that has not heard of that yet.
func TestAStatusIsNotComparedWithOneOlderThanTheLast(t *testing.T) {
	for name, c := range map[string]struct {
		// first makes what the status says before, second what is written over
		// that, third what a reconciliation finds before the cache knows.
		first, second, third func(s *stage)
		drifted              string
	}{
		"what is as in the old status is written all the same": {
			first:   func(s *stage) { s.cluster.live["version"] = "1" },
			second:  func(s *stage) { s.cluster.live["version"] = "2" },
			third:   func(s *stage) { s.cluster.live["version"] = "1" },
			drifted: "InSync",
		},
		"what an observation of some things does not have stays as it was written last": {
			first:   func(s *stage) { s.cluster.live["version"], s.aws.refused["queue"] = "1", "AccessDenied" },
			second:  func(s *stage) { delete(s.aws.refused, "queue") },
			third:   func(s *stage) { s.cluster.live["version"] = "2" },
			drifted: "ReadOnly",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.cluster.compared["version"] = byHand
			c.first(s)
			s.commit("kubernetes/version=1", "aws/queue=1")
			s.reconcile()
			old := s.sync()
			c.second(s)
			s.clock.Step(resync)
			s.drift(at("kubernetes", "version"))
			catchUp := s.cached(old)
			c.third(s)
			s.r.states.open[stageName].putBack([]state.Key{at("kubernetes", "version")})
			if after := s.reconcile(); after != conflictDelay {
				t.Errorf("looks again after %s", after)
			}
			catchUp()
			s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
			s.reconcile()
			s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
			if got := meta.FindStatusCondition(s.sync().Status.Conditions, "Drifted").Reason; got != c.drifted {
				t.Errorf("Drifted says %s, want %s", got, c.drifted)
			}
		})
	}
}
