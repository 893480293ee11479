package controller

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// A deletion that was confirmed and could not be sent goes on only as long as the Sync's annotation quotes
// its token, however often it was tried, and in another process.
func TestAConfirmedDeletionThatIsNotSentIsTakenBackWithTheAnnotation(t *testing.T) {
	for name, between := range map[string]func(*stage){
		"after one run":     func(*stage) {},
		"after several":     func(s *stage) { s.later(); s.later() },
		"in a next process": func(s *stage) { s.restart(); s.reconcile() },
	} {
		t.Run(name, func(t *testing.T) {
			s, token := waitingStage(t)
			s.cluster.refused["pool"] = "a webhook denied the request"
			s.confirm(token)
			s.later()
			between(s)
			s.expectCondition("Ready", metav1.ConditionFalse, "ApplyFailed")
			if got := s.sync().Status; got.LastHandledConfirmationTokens != "" || s.cluster.live["pool"] == "" {
				t.Fatalf("handled %q, cluster %v", got.LastHandledConfirmationTokens, s.cluster.live)
			}
			delete(s.cluster.refused, "pool")
			s.confirm("")
			s.later()
			if again := s.required("PruneHeld"); again != token || s.cluster.live["pool"] == "" {
				t.Fatalf("it asks for %q, not %q: cluster %v", again, token, s.cluster.live)
			}
			s.confirm(token)
			s.later()
			if got := s.sync().Status.LastHandledConfirmationTokens; got != token || s.cluster.live["pool"] != "" {
				t.Errorf("handled %q, cluster %v", got, s.cluster.live)
			}
		})
	}
}

// Who confirms what waits beside a deletion that is not sent yet quotes the command of the message, which keeps the
// token of that deletion.
func TestTheCommandKeepsTheTokenOfADeletionThatIsNotSent(t *testing.T) {
	s, token := waitingStage(t)
	s.cluster.refused["pool"] = "a webhook denied the request"
	s.confirm(token)
	s.later()
	s.later()
	s.cluster.removals["other"] = loss.DeletionImpact{Impact: "1 node goes with it", Losses: loss.Counts{"Node": 1}}
	s.commit("kubernetes/map=1")
	s.later()
	both := s.sync().Status.ConfirmationToken
	if len(both) <= len(token) || both == token {
		t.Fatalf("it asks for %q after %q", both, token)
	}
	delete(s.cluster.refused, "pool")
	s.confirm(both)
	s.later()
	if len(s.cluster.live) != 1 || len(s.cluster.allowed) > 0 {
		t.Errorf("left: %v, allowed %v", s.cluster.live, s.cluster.allowed)
	}
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
}

// While spec.prune is false nothing is deleted, and what was confirmed before is not when it is true again.
func TestAConfirmedDeletionThatWasGivenUpNeedsAnotherConfirmation(t *testing.T) {
	s, token := waitingStage(t)
	s.cluster.refused["pool"] = "a webhook denied the request"
	s.confirm(token)
	s.later()
	delete(s.cluster.refused, "pool")
	prunes := func(is bool) {
		s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Prune = &is; sync.Generation++ })
		s.later()
	}
	prunes(false)
	prunes(true)
	if again := s.required("PruneHeld"); again == token || s.cluster.live["pool"] == "" {
		t.Errorf("it asks for %q, cluster %v", again, s.cluster.live)
	}
}
