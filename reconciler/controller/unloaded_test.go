package controller

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/state"
)

// What cannot be rendered is not applied; what was applied before stays so, is compared,
// and its drift is corrected.
func TestARevisionThatCannotBeLoadedLeavesTheLastOneApplied(t *testing.T) {
	s := newStage(t, nil)
	s.commit("aws/rule=1", "kubernetes/pool=1", "kubernetes/map=1")
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	s.commit("kubernetes/pool=2") // Whoever took it all the same would delete the others.
	s.loadError = state.Failf(state.Stalled, "LimitExceeded", "base/kustomization.yaml:7: patches copy more than 128 KiB")
	s.later()
	const stays = "; revision main@sha1:11 stays applied"
	if message := s.expectCondition("Ready", metav1.ConditionFalse, "LimitExceeded"); !strings.HasSuffix(message, stays) || !strings.Contains(message, "kustomization.yaml:7") {
		t.Errorf("message %q", message)
	}
	s.expectCondition("Stalled", metav1.ConditionTrue, "LimitExceeded")
	s.expectCondition("Drifted", metav1.ConditionFalse, "InSync")
	if status := s.sync().Status; status.LastAppliedRevision != "main@sha1:11" || status.LastAttemptedRevision != "main@sha1:111" {
		t.Errorf("applied %s, attempted %s", status.LastAppliedRevision, status.LastAttemptedRevision)
	}

	s.aws.live["rule"], s.cluster.live["map"] = "edited", "edited"
	s.drift(at("kubernetes", "map"))
	s.later()
	s.expectCondition("Drifted", metav1.ConditionFalse, "InSync")
	s.cluster.refused["map"] = "denied"
	s.cluster.live["map"] = "edited"
	s.drift(at("kubernetes", "map"))
	s.expectCondition("Drifted", metav1.ConditionTrue, "DriftNotCorrected")
	delete(s.cluster.refused, "map")
	for range 12 { // Until everything is compared again.
		s.later()
	}
	s.expectCondition("Ready", metav1.ConditionFalse, "LimitExceeded")
	s.expectCondition("Drifted", metav1.ConditionFalse, "InSync")
	if s.aws.live["rule"] != "1" || s.cluster.live["map"] != "1" || s.cluster.live["pool"] != "1" {
		t.Errorf("aws %v, cluster %v", s.aws.live, s.cluster.live)
	}

	// A new process has no revision to compare with.
	s.restart()
	s.reconcile()
	if message := s.expectCondition("Ready", metav1.ConditionFalse, "LimitExceeded"); !strings.Contains(message, stays+", and drift from it is not corrected until") {
		t.Errorf("message %q", message)
	}
	s.expectCondition("Drifted", metav1.ConditionUnknown, "NotCompared")
	s.loadError = nil
	s.later()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if s.cluster.live["pool"] != "2" {
		t.Errorf("cluster %v", s.cluster.live)
	}
}

// A Sync whose changes are held until they are confirmed makes no progress by itself: for kstatus it is stalled.
func TestWhatIsHeldUntilItIsConfirmedIsStalled(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		hold         func(s *stage)
		stalled      bool
	}{
		{"deletions", "PruneHeld", func(s *stage) { s.commit() }, true},
		{"nodes, which may go by themselves", "NodeReplacementHeld", func(s *stage) {
			s.nodes = 14
			s.commit("kubernetes/np-gpu=2", "kubernetes/map=1", "aws/queue=1")
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := heldStage(t)
			s.nodes = 0
			s.commit("kubernetes/np-gpu=1", "kubernetes/map=1", "aws/queue=1")
			s.later()
			s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
			tt.hold(s)
			s.later()
			s.expectCondition("Ready", metav1.ConditionFalse, tt.reason)
			conditions := s.sync().Status.Conditions
			if got := meta.IsStatusConditionTrue(conditions, "Stalled"); got != tt.stalled {
				t.Errorf("stalled: %v", got)
			}
			if got := meta.IsStatusConditionTrue(conditions, "Reconciling"); got == tt.stalled {
				t.Errorf("reconciling: %v", got)
			}
		})
	}
}
