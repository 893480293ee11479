package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

// unwritten visits while no status can be written.
func (s *stage) unwritten() {
	s.Helper()
	api, down := s.r.Client, errors.New("the API server is away")
	s.intercept(interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
		return down
	}})
	if _, err := s.r.Reconcile(s.Context(), ctrl.Request{NamespacedName: stageName}); !errors.Is(err, down) {
		s.Fatalf("a status that cannot be written: %v", err)
	}
	s.r.Client = api
}

func TestWhatCouldNotBeWrittenIsSaidByTheNextVisit(t *testing.T) {
	for name, drifted := range map[string][]state.Key{
		"though the source has nothing new": nil,
		"though something drifts meanwhile": {at("cluster", "map")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.commit("cluster/np-gpu=1", "aws/queue=1")
			s.aws.refused["queue"] = "AccessDenied"
			s.visit()
			s.says("Ready", metav1.ConditionFalse, "ApplyFailed")
			s.told()

			delete(s.aws.refused, "queue")
			s.commit("cluster/np-gpu=2", "cluster/map=1", "aws/queue=1")
			s.clock.Step(2 * resync)
			s.unwritten()
			s.r.sessions.open[stageName].putBack(drifted)
			s.visit()
			if got, want := s.says("Ready", metav1.ConditionTrue, "ReconciliationSucceeded"), "Applied revision "+s.revision+": 3 objects"; got != want {
				t.Errorf("Ready says %q, want %q", got, want)
			}
			if d := cmp.Diff([]string{}, append(s.pending(), s.told()...)); d != "" {
				t.Errorf("pending, or told again (-want +got):\n%s", d)
			}
			s.objects(3)
			if status := s.sync().Status; status.LastAppliedRevision != s.revision {
				t.Errorf("applied %q", status.LastAppliedRevision)
			}
			looks := s.cluster.looks
			if s.later(); s.cluster.looks != looks {
				t.Error("everything is compared again, though all of it was written")
			}
		})
	}
	t.Run("though it was a failure, of which the next try would come late", func(t *testing.T) {
		s := newStage(t, nil)
		s.commit("cluster/map=1")
		s.visit()
		s.cluster.unknown["map"] = "Forbidden"
		s.clock.Step(2 * resync)
		s.unwritten()
		s.visit()
		s.says("Ready", metav1.ConditionFalse, "PartlyUnknown")
		s.says("Drifted", metav1.ConditionUnknown, "PartlyUnknown")
	})
}
