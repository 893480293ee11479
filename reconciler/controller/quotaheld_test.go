package controller

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// shortStage has a revision in force, and another one that needs more of a quota than there is.
func shortStage(t *testing.T, policy v1alpha1.QuotaPolicy) *stage {
	t.Helper()
	s := newStage(t, func(sync *v1alpha1.Sync) { sync.Spec.Guard.Quota = policy })
	s.quota, s.cluster.typeless = 64, true
	s.commit("kubernetes/np-gpu=10", "kubernetes/map=1")
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	s.takeEvents()
	s.commit("kubernetes/np-gpu=72", "kubernetes/map=2")
	s.later()
	return s
}

func TestWhatExceedsAQuotaIsHeldAndReportedOnce(t *testing.T) {
	s := shortStage(t, v1alpha1.QuotaHold)
	token := s.required("QuotaHeld")
	const why = "NodePool np-gpu needs at least 72 vCPUs, the quota allows 64 (guard.quota): request a quota increase (quota code L-1) or lower a limit"
	if got := s.expectCondition("Ready", metav1.ConditionFalse, "QuotaHeld"); !strings.HasPrefix(got, why+"; revision ") || !strings.HasPrefix(token, "quota-1-") {
		t.Errorf("message %q with %s", got, token)
	}
	s.expectCondition("Reconciling", metav1.ConditionTrue, "ProgressingWithRetry")
	if d := cmp.Diff([]string{"update NodePool.karpenter.sh/np-gpu: " + why}, s.pending()); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	if pending := s.sync().Status.Pending; pending[0].HeldBy[0] != "QuotaExceeded" || pending[0].ConfirmationToken != token {
		t.Errorf("pending is %+v", pending)
	}
	if s.cluster.live["np-gpu"] != "10" || s.cluster.live["map"] != "2" {
		t.Errorf("cluster %v", s.cluster.live)
	}
	s.quota = 68 // Raised, and not enough.
	for range 5 {
		s.later()
	}
	if got := s.expectCondition("Ready", metav1.ConditionFalse, "QuotaHeld"); !strings.Contains(got, "the quota allows 68") || s.required("QuotaHeld") != token {
		t.Errorf("message %q, before it was %s", got, token)
	}
	if events := s.takeEvents(); len(events) != 1 || !strings.HasPrefix(events[0], "Warning QuotaHeld "+why) {
		t.Errorf("events %q", events)
	}
	s.quota = 72
	s.clock.Step(unknownRetryInterval)
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if s.cluster.live["np-gpu"] != "72" || s.sync().Status.ConfirmationToken != "" {
		t.Errorf("cluster %v", s.cluster.live)
	}
}

func TestWhatExceedsAQuotaIsAppliedOnceItIsConfirmed(t *testing.T) {
	s := shortStage(t, v1alpha1.QuotaHold)
	s.confirm(s.required("QuotaHeld"))
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if s.cluster.live["np-gpu"] != "72" {
		t.Errorf("cluster %v", s.cluster.live)
	}
	s.commit("kubernetes/np-gpu=80", "kubernetes/map=2")
	s.later()
	if token := s.required("QuotaHeld"); !strings.HasPrefix(token, "quota-2-") || s.cluster.live["np-gpu"] != "72" {
		t.Errorf("the next token is %s, cluster %v", token, s.cluster.live)
	}
}

func TestWhatExceedsAQuotaIsAppliedWhereTheGuardWarns(t *testing.T) {
	s := shortStage(t, v1alpha1.QuotaWarn)
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if s.cluster.live["np-gpu"] != "72" {
		t.Errorf("cluster %v", s.cluster.live)
	}
}

// A watch event alone reads no quota, and must not apply what is held.
func TestAWatchEventDoesNotApplyWhatExceedsAQuota(t *testing.T) {
	s := shortStage(t, v1alpha1.QuotaHold)
	token := s.required("QuotaHeld")
	s.quota = 0
	s.cluster.live["np-gpu"] = "5"
	s.drift(at("kubernetes", "np-gpu"))
	if s.cluster.live["np-gpu"] != "5" || s.required("QuotaHeld") != token {
		t.Errorf("cluster %v", s.cluster.live)
	}
}
