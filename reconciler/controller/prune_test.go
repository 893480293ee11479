package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// planned is the token that `poolwright plan` prints: another process, with the policies
// of the Sync.
func (s *stage) planned() string {
	s.Helper()
	loop := reconciler.NewLoop(s, s.load, reconciler.NamedTarget{Name: "aws", Target: s.aws}, reconciler.NamedTarget{Name: "kubernetes", Target: s.cluster})
	result, err := loop.Plan(s.Context(), reconciler.Options{Policies: syncpolicy.ForRun(s.sync(), time.Now())})
	if err != nil || result.Plan.Confirmation() == "" {
		s.Fatal(err, result.Plan.Reasons())
	}
	return result.Plan.Confirmation()
}

// The plan, the condition (which `poolwright reconcile` fails with) and the event print
// one token, and it confirms also when the deletions are made that nobody need allow.
func TestOneTokenIsPrintedEverywhereAndConfirmsLater(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/map=1", "kubernetes/old=1", "kubernetes/older=1", "aws/queue=1")
	s.reconcile()
	s.aws.removals["queue"] = loss.DeletionImpact{Impact: "3 nodes are not drained any more", Losses: loss.Counts{"Node": 3}}
	s.takeEvents()
	s.commit("kubernetes/map=1")
	token := s.planned()
	for n := range 3 {
		if n == 0 {
			s.reconcile()
		} else {
			s.later()
		}
		if got := s.required("PruneHeld"); got != token {
			t.Errorf("after %d reconciliations Ready asks for %s, the plan for %s", n+1, got, token)
		}
		if got := s.planned(); got != token {
			t.Errorf("after %d reconciliations the plan asks for %s, before for %s", n+1, got, token)
		}
	}
	if _, left := s.cluster.live["old"]; left || s.aws.live["queue"] == "" {
		t.Errorf("cluster %v, aws %v", s.cluster.live, s.aws.live)
	}
	events := s.takeEvents()
	if len(events) != 1 || !strings.HasSuffix(events[0], "; confirm"+withToken+token) {
		t.Errorf("events %q, the plan asks for %s", events, token)
	}
	s.confirm(token)
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if len(s.aws.live) > 0 {
		t.Errorf("aws %v", s.aws.live)
	}
}

// What a hold protects does not come to pass without the deletion.
func TestTheEngineKeepsItsQueueWhileTheQueuesDeletionWaits(t *testing.T) {
	for name, unknown := range map[string]string{"it requires a token": "", "it is unknown whether it is there": "Throttling"} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.commit("kubernetes/engine=queue", "kubernetes/map=1", "aws/queue=1")
			s.reconcile()
			part := loss.FieldRef{Group: "poolwright.dev", Kind: "Cluster", Field: "spec.interruptionQueue"}
			s.aws.removals["queue"] = loss.DeletionImpact{Impact: "3 nodes are not drained any more", Losses: loss.Counts{"Node": 3}, UsedBy: part}
			s.aws.unknown["queue"] = unknown
			s.commit("kubernetes/engine=none", "kubernetes/map=2")
			keeps := func(when string) {
				t.Helper()
				if s.cluster.live["engine"] != "queue" || s.cluster.live["map"] != "2" || s.aws.live["queue"] != "1" {
					t.Fatalf("%s: cluster %v, aws %v", when, s.cluster.live, s.aws.live)
				}
			}
			s.reconcile()
			keeps("at first")
			s.later()
			keeps("later")
			s.drift(at("kubernetes", "engine")) // Looked at by itself.
			s.reconcile()
			keeps("after a look at the Cluster alone")
			s.restart()
			s.reconcile()
			keeps("after a restart")
			if unknown == "" {
				s.confirm(s.required("PruneHeld"))
			} else {
				s.expectCondition("Ready", metav1.ConditionFalse, "PartlyUnknown")
				s.aws.unknown["queue"] = ""
				s.later()
				s.confirm(s.required("PruneHeld"))
			}
			s.reconcile()
			s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
			if s.cluster.live["engine"] != "none" || len(s.aws.live) > 0 {
				t.Errorf("confirmed: cluster %v, aws %v", s.cluster.live, s.aws.live)
			}
			if d := cmp.Diff("delete queue", s.aws.writes[len(s.aws.writes)-1]); d != "" || !slices.Contains(s.cluster.writes, "update engine") {
				t.Errorf("written: %v and %v", s.aws.writes, s.cluster.writes)
			}
		})
	}
}

// A Sync's own deletion is held as any other deletion is.
func TestADeletionOfASyncThatWaitsForAConfirmationIsHeldAsAnyOther(t *testing.T) {
	s := newStage(t, deleting)
	s.commit("kubernetes/pool=1", "kubernetes/map=1")
	s.leave()
	s.cluster.removals["pool"] = loss.DeletionImpact{Impact: "2 nodes go with it", Losses: loss.Counts{"Node": 2}}
	s.edit(func(sync *v1alpha1.Sync) {
		sync.Annotations = map[string]string{fluxmeta.ReconcileRequestAnnotation: "now"}
	})
	s.reconcile()
	token := s.required("PruneHeld")
	s.expectCondition("Stalled", metav1.ConditionTrue, "PruneHeld")
	s.expectCondition("Drifted", metav1.ConditionUnknown, "Terminating")
	status := s.sync().Status
	if meta.FindStatusCondition(status.Conditions, "Reconciling") != nil || status.ObservedGeneration != s.sync().Generation {
		t.Errorf("it is held until it is confirmed, and is Reconciling: %+v", status.Conditions)
	}
	if status.LastHandledReconcileAt != "now" {
		t.Errorf("who asked for a run waits for an answer, the last is %q", status.LastHandledReconcileAt)
	}
	want := []v1alpha1.PendingChange{{
		Object: "Thing/pool", Action: "delete", Reason: status.Pending[0].Reason, HeldBy: []string{"DeletionLosses"}, ConfirmationToken: token,
	}}
	if d := cmp.Diff(want, status.Pending); d != "" || !strings.Contains(want[0].Reason, "2 nodes go with it") {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	if n := s.gauge("poolwright_sync_ready", map[string]string{"sync": "dev"}); n != 0 {
		t.Errorf("poolwright_sync_ready is %v", n)
	}
	message := s.expectCondition("Ready", metav1.ConditionFalse, "PruneHeld")
	if !strings.Contains(message, "deletionPolicy") {
		t.Errorf("nobody learns what keeps the Sync and how to keep its objects: %s", message)
	}
	s.later() // Says nothing new.
	if d := cmp.Diff([]string{"Warning PruneHeld " + message}, s.takeEvents()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	s.confirm(token)
	s.reconcile()
	if s.sync().Name != "" || len(s.cluster.live) > 0 {
		t.Errorf("confirmed, the Sync is still there, or the cluster holds %v", s.cluster.live)
	}
}

func TestTheDeletionOfASuspendedSyncLeavesWhatItAppliedWithAnEvent(t *testing.T) {
	for name, tt := range map[string]struct {
		policy v1alpha1.DeletionPolicy
		want   []string
	}{
		"Delete": {v1alpha1.DeletionPolicyDelete, []string{"Warning Orphaned Left as it is what the Sync applied (2 objects), since it is suspended: deletionPolicy Delete does not count then"}},
		"Orphan": {v1alpha1.DeletionPolicyOrphan, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, deleting)
			s.commit("kubernetes/pool=1", "kubernetes/map=1")
			s.leave()
			s.takeEvents()
			s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Suspend, sync.Spec.DeletionPolicy = true, tt.policy })
			s.reconcile()
			if s.sync().Name != "" || len(s.cluster.live) != 2 {
				t.Errorf("the suspended Sync is still there, or the cluster has lost something: %v", s.cluster.live)
			}
			if d := cmp.Diff(tt.want, s.takeEvents()); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
		})
	}
}

func TestADeletionThatIsHeldIsLeftWhereTheSyncIsSuspendedAfterwards(t *testing.T) {
	s := newStage(t, deleting)
	s.commit("kubernetes/pool=1", "kubernetes/map=1")
	s.leave()
	s.cluster.removals["pool"] = loss.DeletionImpact{Impact: "2 nodes go with it", Losses: loss.Counts{"Node": 2}}
	s.reconcile()
	token := s.required("PruneHeld")
	s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Suspend = true })
	s.confirm(token)
	s.reconcile()
	if _, there := s.cluster.live["pool"]; s.sync().Name != "" || !there {
		t.Errorf("suspended, the Sync is still there, or the pool is gone: %v", s.cluster.live)
	}
}
