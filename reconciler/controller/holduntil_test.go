package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mark marks a live thing of the cluster to stay as it is, and returns until when.
func (s *stage) mark(name string, during time.Duration) string {
	until := s.clock.Now().Add(during).UTC().Format(time.RFC3339)
	s.cluster.marked = map[string]string{name: until}
	return until
}

// end goes to the end of the hold, where the reconciliation is that wait says.
func (s *stage) end(until string, wait time.Duration) {
	s.Helper()
	at, err := time.Parse(time.RFC3339, until)
	if err != nil {
		s.Fatal(err)
	}
	if left := at.Sub(s.clock.Now()); wait > left+time.Second {
		s.Fatalf("the next reconciliation is in %s, and the hold ends in %s", wait, left)
	}
	s.clock.Step(at.Sub(s.clock.Now()))
	s.reconcile()
}

func TestDriftOfAMarkedThingStaysUntilTheMarkEnds(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/pool=1", "kubernetes/other=1")
	s.reconcile()
	until := s.mark("pool", 30*time.Second)
	s.cluster.live["pool"], s.cluster.live["other"] = "edited", "edited"
	s.drift(at("kubernetes", "pool"), at("kubernetes", "other"))
	if s.cluster.live["pool"] != "edited" || s.cluster.live["other"] != "1" {
		t.Fatalf("the cluster has %v", s.cluster.live)
	}
	if d := cmp.Diff([]string{"update Thing/pool: stays as it is until " + until + " (hold-until)"}, s.pending()); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	if held := s.sync().Status.Pending[0].HeldBy; len(held) != 1 || held[0] != "HoldUntil" {
		t.Errorf("held by %v", held)
	}
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	s.expectCondition("Drifted", metav1.ConditionTrue, "HoldUntil")
	s.end(until, s.reconcile())
	if s.cluster.live["pool"] != "1" {
		t.Errorf("after its end the cluster has %v", s.cluster.live)
	}
	s.expectCondition("Drifted", metav1.ConditionFalse, "InSync")
}

func TestARevisionsChangesOfAMarkedThingAreMadeOnceTheMarkEnds(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/pool=1", "kubernetes/gone=1", "kubernetes/former=1", "kubernetes/other=1")
	s.reconcile()
	until := s.mark("pool", 150*time.Second)
	s.cluster.marked["gone"] = until
	s.commit("kubernetes/pool=2", "kubernetes/other=2")
	applied := s.sync().Status.LastAppliedRevision
	s.later()
	if d := cmp.Diff(map[string]string{"pool": "1", "gone": "1", "former": "1", "other": "2"}, s.cluster.live); d != "" {
		t.Fatalf("the cluster (-want +got):\n%s", d)
	}
	held := func() {
		t.Helper()
		status := s.sync().Status
		if status.LastAppliedRevision != applied || status.LastAttemptedRevision == applied {
			t.Errorf("while changes of the revision are held, %q counts as applied, and %q as attempted", status.LastAppliedRevision, status.LastAttemptedRevision)
		}
		s.expectCondition("Ready", metav1.ConditionFalse, "HoldUntil")
		s.expectCondition("Drifted", metav1.ConditionFalse, "NoDrift")
		s.expectCondition("Reconciling", metav1.ConditionTrue, "ProgressingWithRetry")
		if meta.IsStatusConditionTrue(s.sync().Status.Conditions, "Stalled") {
			t.Error("the Sync is stalled")
		}
	}
	held()
	comparisons := s.cluster.fullComparisons
	wait := s.later()
	if s.cluster.fullComparisons != comparisons {
		t.Errorf("while nothing changes, everything is compared %d times", s.cluster.fullComparisons-comparisons)
	}
	held()
	s.cluster.live["other"] = "edited"
	s.drift(at("kubernetes", "other"))
	if s.cluster.live["other"] != "2" {
		t.Errorf("drift of another object stays: %v", s.cluster.live)
	}
	held()
	s.end(until, wait)
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if status := s.sync().Status; status.LastAppliedRevision != status.LastAttemptedRevision {
		t.Errorf("after its end %q counts as applied, and %q as attempted", status.LastAppliedRevision, status.LastAttemptedRevision)
	}
	if d := cmp.Diff(map[string]string{"pool": "2", "other": "2"}, s.cluster.live); d != "" {
		t.Errorf("after its end the cluster (-want +got):\n%s", d)
	}
	if got := s.pending(); len(got) != 0 {
		t.Errorf("pending %v", got)
	}
}

func TestADeletedSyncWaitsForWhatIsMarked(t *testing.T) {
	s := newStage(t, deleting)
	s.commit("kubernetes/pool=1", "kubernetes/other=1")
	s.leave()
	until := s.mark("pool", 10*time.Minute)
	s.reconcile()
	s.clock.Step(10*time.Minute - 20*time.Second)
	if after := s.reconcile(); after != 20*time.Second {
		t.Errorf("the next reconciliation is in %s, and the hold ends in 20s", after)
	}
	if d := cmp.Diff(map[string]string{"pool": "1"}, s.cluster.live); d != "" {
		t.Errorf("the cluster (-want +got):\n%s", d)
	}
	if message := s.expectCondition("Ready", metav1.ConditionFalse, "DeletionFailed"); !strings.Contains(message, "Thing/pool stays as it is until "+until) {
		t.Errorf("message %q", message)
	}
	s.clock.Step(20 * time.Second)
	s.reconcile()
	if len(s.cluster.live) != 0 || s.sync().Name != "" {
		t.Errorf("the cluster has %v", s.cluster.live)
	}
}
