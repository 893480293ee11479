package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
)

// withToken is the end of a message on what waits, up to its tokens.
const withToken = " with: kubectl -n poolwright-system annotate sync dev --overwrite poolwright.dev/confirm="

// heldStage has a revision in force, and another one that costs 14 nodes where five
// may go without confirmation.
func heldStage(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, func(sync *v1alpha1.Sync) { sync.Spec.Guard.MaxNodesReplaced = new(int32(5)) })
	s.commit("kubernetes/np-gpu=1", "kubernetes/np-cpu=1", "kubernetes/map=1", "aws/queue=1")
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	s.nodes = 14
	s.commit("kubernetes/np-gpu=2", "kubernetes/np-cpu=1", "kubernetes/map=2", "aws/queue=2")
	s.later()
	return s
}

// required returns the token that the Sync asks for in its status, and for that reason.
func (s *stage) required(reason string) string {
	s.Helper()
	message, token := s.expectCondition("Ready", metav1.ConditionFalse, reason), s.sync().Status.ConfirmationToken
	if token == "" || !strings.HasSuffix(message, withToken+token) || strings.Count(message, withToken) != 1 {
		s.Fatalf("message %q does not ask for %q", message, token)
	}
	return token
}

func TestWhatWouldReplaceTooManyNodesIsHeldAndReportedOnce(t *testing.T) {
	s := heldStage(t)
	token := s.required("NodeReplacementHeld")
	const why = "would replace 14 nodes; guard.maxNodesReplaced is 5"
	const incomplete = "; revision main@sha1:111 is not applied in full"
	if got := s.expectCondition("Ready", metav1.ConditionFalse, "NodeReplacementHeld"); got != why+incomplete+"; confirm"+withToken+token {
		t.Errorf("message %q", got)
	}
	s.expectCondition("Reconciling", metav1.ConditionTrue, "ProgressingWithRetry")
	s.expectCondition("Drifted", metav1.ConditionFalse, "NoDrift")
	if d := cmp.Diff([]string{"update NodePool.karpenter.sh/np-gpu: " + why}, s.pending()); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	if s.cluster.live["np-gpu"] != "1" || s.cluster.live["map"] != "2" || s.aws.live["queue"] != "2" {
		t.Errorf("cluster %v, aws %v", s.cluster.live, s.aws.live)
	}
	if status := s.sync().Status; status.LastAppliedRevision != "main@sha1:11" || status.LastAttemptedRevision != "main@sha1:111" {
		t.Errorf("applied %s, attempted %s", status.LastAppliedRevision, status.LastAttemptedRevision)
	}
	s.nodes = 12 // Nodes come and go.
	for range 5 {
		s.later()
	}
	if got := s.expectCondition("Ready", metav1.ConditionFalse, "NodeReplacementHeld"); !strings.HasPrefix(got, "would replace 12 nodes; ") || s.required("NodeReplacementHeld") != token {
		t.Errorf("message %q, before it asked for %s", got, token)
	}
	if d := cmp.Diff([]string{"Warning NodeReplacementHeld " + why + incomplete + "; confirm" + withToken + token}, s.takeEvents()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	s.nodes = 5 // Now they may.
	s.clock.Step(unknownRetryInterval)
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if s.cluster.live["np-gpu"] != "2" {
		t.Errorf("cluster %v", s.cluster.live)
	}
}

func TestHeldNodesAreCountedAgainEverMoreSeldom(t *testing.T) {
	s := heldStage(t)
	begun, counted := s.clock.Now(), 0
	var when []float64 // seconds
	for s.clock.Since(begun) < 25*time.Minute {
		wait := s.reconcile()
		if s.foretold > counted {
			counted, when = s.foretold, append(when, s.clock.Since(begun).Seconds())
		}
		s.clock.Step(wait)
	}
	if d := cmp.Diff([]float64{0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111, 1411}, when, cmpopts.EquateApprox(0, 1)); d != "" {
		t.Errorf("counted (-want +got):\n%s", d)
	}
}

func TestAConfirmedRolloutGoesThroughOnce(t *testing.T) {
	s := heldStage(t)
	s.confirm(" another," + s.required("NodeReplacementHeld") + " ")
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	writes := len(s.cluster.writes)
	if s.cluster.live["np-gpu"] != "2" {
		t.Errorf("cluster %v", s.cluster.live)
	}
	foretold := s.foretold
	for range 3 {
		s.later()
	}
	if len(s.cluster.writes) != writes || s.foretold != foretold {
		t.Errorf("afterwards wrote %v and looked ahead %d times", s.cluster.writes[writes:], s.foretold-foretold)
	}
	s.commit("kubernetes/np-gpu=3", "kubernetes/np-cpu=1", "kubernetes/map=2", "aws/queue=2")
	s.later()
	s.required("NodeReplacementHeld")
	if s.cluster.live["np-gpu"] != "2" {
		t.Error("the old token confirmed another change")
	}
}

func TestATokenThatDoesNotFitIsReadOnce(t *testing.T) {
	s := heldStage(t)
	token := s.required("NodeReplacementHeld")
	s.clock.Step(time.Second)
	s.reconcile() // The pause is two seconds by now, and grows.
	reads := s.cluster.fullComparisons
	s.confirm("000000000000")
	s.reconcile()
	if s.cluster.fullComparisons != reads+1 || s.required("NodeReplacementHeld") != token || s.cluster.live["np-gpu"] != "1" {
		t.Errorf("%d looks, cluster %v", s.cluster.fullComparisons-reads, s.cluster.live)
	}
	for range 3 {
		s.reconcile()
	}
	if s.cluster.fullComparisons != reads+1 {
		t.Errorf("the same token was read %d times", s.cluster.fullComparisons-reads)
	}
}

func TestAHeldRolloutOutlivesARestart(t *testing.T) {
	s := heldStage(t)
	token := s.required("NodeReplacementHeld")
	s.restart()
	s.reconcile()
	if s.required("NodeReplacementHeld") != token || s.cluster.live["np-gpu"] != "1" {
		t.Errorf("it asks for %s, before for %s; cluster %v", s.required("NodeReplacementHeld"), token, s.cluster.live)
	}
	s.restart()
	s.confirm(token)
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
}

func TestAMergeThatGrewWaitsOverRecountsAndRestartsUntilItIsConfirmed(t *testing.T) {
	review := func(merged bool, things ...string) plan.Review {
		out := plan.Review{PullRequest: 12, Merged: merged, Pools: map[string]int{"np-gpu": 1, "np-new": 0}}
		for _, thing := range things {
			name, value, _ := strings.Cut(thing, "=")
			i := newPlace("kubernetes").item(name, value)
			out.Changes = append(out.Changes, plan.Change{Key: i.Key, After: &i}.Fingerprint())
		}
		return out
	}
	for name, c := range map[string]plan.Review{
		"its merge was not detected yet": review(false, "np-gpu=2", "np-new=1"),
		"it was":                         review(true, "np-gpu=2", "np-new=1"),
		"it was, and another merge changed the pool as well": review(true, "np-gpu=3", "np-new=1"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.commit("kubernetes/np-gpu=1")
			s.reconcile()
			s.reviews, s.nodes = []plan.Review{c}, 4
			s.commit("kubernetes/np-gpu=2", "kubernetes/np-new=1")
			s.later()
			token := s.required("NodeReplacementHeld")
			for range 4 {
				s.later()
				s.restart()
				s.reconcile()
			}
			want := map[string]string{"np-gpu": "1", "np-new": "1"}
			if d := cmp.Diff(want, s.cluster.live); d != "" || s.required("NodeReplacementHeld") != token {
				t.Fatalf("it asks for %s, before for %s; cluster (-want +got):\n%s", s.required("NodeReplacementHeld"), token, d)
			}
			s.drift(at("kubernetes", "np-gpu"), at("kubernetes", "np-new"))
			if s.cluster.live["np-gpu"] != "1" {
				t.Error("a look at some things made the change")
			}
			s.confirm(token)
			s.reconcile()
			s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
			if s.cluster.live["np-gpu"] != "2" {
				t.Errorf("confirmed: cluster %v", s.cluster.live)
			}
		})
	}
}

func TestAWiderGuardIsFollowedAtOnce(t *testing.T) {
	s := heldStage(t)
	s.edit(func(sync *v1alpha1.Sync) {
		sync.Generation++
		sync.Spec.Guard.MaxNodesReplaced = new(int32(14))
	})
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
}

func TestWhatDriftsBesideAHeldRolloutIsPutBackAlone(t *testing.T) {
	s := heldStage(t)
	token, foretold := s.required("NodeReplacementHeld"), s.foretold
	s.takeEvents()
	s.cluster.live["np-gpu"], s.cluster.live["np-cpu"], s.cluster.live["map"] = "x", "x", "x"
	s.drift(at("kubernetes", "np-gpu"), at("kubernetes", "np-cpu"), at("kubernetes", "map"))
	want := map[string]string{"np-gpu": "x", "np-cpu": "1", "map": "2"}
	if d := cmp.Diff(want, s.cluster.live); d != "" {
		t.Errorf("cluster (-want +got):\n%s", d)
	}
	if s.required("NodeReplacementHeld") != token || s.foretold != foretold {
		t.Errorf("it asks for %s, before for %s; looked ahead %d times", s.required("NodeReplacementHeld"), token, s.foretold-foretold)
	}
	for _, e := range s.takeEvents() {
		if !strings.HasPrefix(e, "Normal DriftCorrected ") {
			t.Errorf("event %q", e)
		}
	}
}

func TestAPoolThatIsDeletedWithItsNodesNeedsBothTokensAtOnce(t *testing.T) {
	s := newStage(t, func(sync *v1alpha1.Sync) { sync.Spec.Guard.MaxNodesReplaced = new(int32(5)) })
	s.commit("kubernetes/np-gpu=1", "kubernetes/np-cpu=1")
	s.reconcile()
	s.nodes = 14
	s.commit("kubernetes/map=1") // All pools go, which is not done without confirmation either.
	s.later()
	tokens := s.required("PruneHeld")
	if !strings.Contains(tokens, ",") {
		t.Errorf("it asks for %q", tokens)
	}
	message := s.expectCondition("Ready", metav1.ConditionFalse, "PruneHeld")
	if !strings.HasPrefix(message, "would delete all 2 objects (guard.maxPrunePercent) (confirmation token deletions-1-") {
		t.Errorf("message %q", message)
	}
	s.confirm(tokens)
	s.reconcile()
	if d := cmp.Diff(map[string]string{"map": "1"}, s.cluster.live); d != "" {
		t.Errorf("cluster (-want +got):\n%s", d)
	}
}

func TestTheTimeOfARevisionIsWhenItCameIntoForce(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/map=1")
	applied := func() time.Time {
		t.Helper()
		if s.sync().Status.LastAppliedTime == nil {
			t.Fatal("no time")
		}
		return s.sync().Status.LastAppliedTime.UTC()
	}
	s.cluster.refused["map"] = "no"
	s.reconcile()
	if s.sync().Status.LastAppliedTime != nil {
		t.Error("what was refused has a time")
	}
	delete(s.cluster.refused, "map")
	s.later()
	first := s.clock.Now()
	if !applied().Equal(first) {
		t.Errorf("applied at %s, want %s", applied(), first)
	}
	s.cluster.live["map"] = "x"
	s.drift(at("kubernetes", "map"))
	s.later()
	s.clock.Step(resync)
	s.reconcile()
	s.restart()
	s.reconcile()
	if !applied().Equal(first) {
		t.Errorf("the same revision is said to be applied at %s, want %s", applied(), first)
	}
	s.commit("kubernetes/map=1") // A commit that changes nothing here comes into force, too.
	s.later()
	if !applied().Equal(s.clock.Now()) {
		t.Errorf("the next one was applied at %s, want %s", applied(), s.clock.Now())
	}
}
