package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

const (
	denied = "denied: sqs:GetQueueAttributes is missing"
	byHand = "run: aws eks update-cluster-version"
)

func reporting(sync *v1alpha1.Sync) { sync.Spec.Drift = v1alpha1.DriftReport }

func TestWhatIsUnknownIsNeverCalledInSync(t *testing.T) {
	s := newStage(t, nil)
	s.commit("aws/queue=1", "aws/rule=1", "kubernetes/pool=1")
	s.aws.unknown["queue"] = denied
	begun, reads := s.clock.Now(), 0
	var when []float64 // when AWS was read, in seconds
	for s.clock.Since(begun) < 25*time.Minute {
		wait := s.reconcile()
		if wait > 66*time.Second {
			t.Errorf("Git is asked in %s only", wait)
		}
		if s.aws.fullComparisons > reads {
			reads, when = s.aws.fullComparisons, append(when, s.clock.Since(begun).Seconds())
		}
		s.clock.Step(wait)
	}
	want := []float64{0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111, 1411}
	if d := cmp.Diff(want, when, cmpopts.EquateApprox(0, 1)); d != "" {
		t.Errorf("looks (-want +got):\n%s", d)
	}
	if s.aws.live["rule"] != "1" || s.cluster.live["pool"] != "1" || s.aws.live["queue"] != "" {
		t.Errorf("aws %v, cluster %v", s.aws.live, s.cluster.live)
	}
	message := s.expectCondition("Ready", metav1.ConditionFalse, "PartlyUnknown")
	if message != "1 thing could not be compared: aws Thing.sqs/queue (cluster.yaml:9): "+denied+"; the rest of revision main@sha1:11 is applied" {
		t.Errorf("message %q", message)
	}
	s.expectCondition("Drifted", metav1.ConditionUnknown, "PartlyUnknown")
	s.expectCondition("Reconciling", metav1.ConditionTrue, "ProgressingWithRetry")
	if d := cmp.Diff([]string{"Warning PartlyUnknown 1 thing could not be compared: aws Thing.sqs/queue (cluster.yaml:9): " + denied}, s.takeEvents()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if s.unknownIn("aws") != 1 || s.unknownIn("kubernetes") != 0 || s.driftedNow() != 0 {
		t.Errorf("gauges: aws %v, cluster %v, drifted %v", s.unknownIn("aws"), s.unknownIn("kubernetes"), s.driftedNow())
	}

	delete(s.aws.unknown, "queue")
	s.drift(at("aws", "queue")) // Watches tell it, too.
	s.clock.Step(time.Second)
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	s.expectCondition("Drifted", metav1.ConditionFalse, "InSync")
	if s.aws.live["queue"] != "1" || s.unknownIn("aws") != 0 {
		t.Errorf("queue %q, gauge %v", s.aws.live["queue"], s.unknownIn("aws"))
	}

	s.aws.unknown["queue"], s.aws.unknown["rule"] = denied, denied
	s.commit("aws/queue=1", "aws/rule=1")
	s.later()
	if reported := s.takeEvents(); len(reported) != 1 || !strings.HasPrefix(reported[0], "Warning PartlyUnknown 2 things could not be compared, the first: ") {
		t.Errorf("events %v", reported)
	}
	if s.cluster.live["pool"] != "" {
		t.Error("what is unknown in AWS keeps the cluster from being pruned")
	}
}

func TestSomethingThatBecomesUnknownIsReportedWhateverElseFails(t *testing.T) {
	s := newStage(t, nil)
	s.commit("aws/queue=1", "aws/rule=1", "aws/role=1")
	s.aws.unknown["queue"], s.aws.refused["rule"] = denied, "InternalFailure"
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionFalse, "ApplyFailed")
	s.expectCondition("Drifted", metav1.ConditionUnknown, "PartlyUnknown")
	s.aws.unknown["role"] = denied
	s.clock.Step(time.Second)
	s.reconcile()
	want := []string{
		"Warning PartlyUnknown 1 thing could not be compared: aws Thing.sqs/queue (cluster.yaml:9): " + denied,
		"Warning ApplyFailed 1 of 2 changes failed, the first: aws Thing.sqs/rule: InternalFailure (cluster.yaml:9)",
		"Warning PartlyUnknown 1 thing could not be compared: aws Thing.sqs/role (cluster.yaml:9): " + denied,
	}
	if d := cmp.Diff(want, s.takeEvents()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestWhatIsOnlyComparedLeavesTheSyncReadyAndDriftedWithoutARetry(t *testing.T) {
	s := newStage(t, nil)
	s.aws.live["version"], s.aws.compared["version"], s.aws.compared["addon"] = "1.33", byHand, "run: aws eks create-addon"
	s.commit("aws/version=1.34", "aws/addon=1", "aws/queue=1", "kubernetes/pool=1")
	s.reconcile()
	message := s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if message != "Applied revision main@sha1:11: 2 objects" {
		t.Errorf("message %q", message)
	}
	if got := s.expectCondition("Drifted", metav1.ConditionTrue, "ReadOnly"); got != "2 live objects differ from the revision" {
		t.Errorf("message %q", got)
	}
	if d := cmp.Diff([]string{"create aws Thing.sqs/addon: run: aws eks create-addon", "update aws Thing.sqs/version: " + byHand}, s.pending()); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	reads := s.aws.fullComparisons
	for range 5 {
		if wait := s.later(); wait < 50*time.Second {
			t.Errorf("the next reconciliation is in %s", wait)
		}
	}
	if s.aws.fullComparisons != reads {
		t.Errorf("%d more comparisons in full", s.aws.fullComparisons-reads)
	}
	s.expectCondition("Drifted", metav1.ConditionTrue, "ReadOnly")
	s.clock.Step(resync)
	s.reconcile()
	if s.aws.fullComparisons != reads+1 {
		t.Errorf("%d comparisons in full after %s, want one", s.aws.fullComparisons-reads, resync)
	}
	if s.driftedNow() != 2 || s.aws.live["version"] != "1.33" || s.sync().Status.Objects != 2 {
		t.Errorf("gauge %v, version %q, %d objects", s.driftedNow(), s.aws.live["version"], s.sync().Status.Objects)
	}
	reported := []string{"Warning DriftReported 2 live things differ from Git and stay so, the first: aws Thing.sqs/addon (cluster.yaml:9): run: aws eks create-addon"}
	if d := cmp.Diff(reported, s.takeEvents()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestAComparedObjectThatChangesIsReadAtOnceAndAlone(t *testing.T) {
	s := newStage(t, nil)
	s.aws.live["version"], s.aws.compared["version"] = "1.34", byHand
	s.aws.live["other"], s.aws.compared["other"] = "x", byHand
	s.commit("aws/version=1.34", "aws/other=1", "kubernetes/pool=1")
	s.reconcile()
	reads := s.aws.fullComparisons
	s.aws.live["version"] = "1.35"
	s.drift(at("aws", "version"))
	if d := cmp.Diff([]string{"update aws Thing.sqs/other: " + byHand, "update aws Thing.sqs/version: " + byHand}, s.pending()); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	if s.driftedNow() != 2 {
		t.Errorf("gauge %v", s.driftedNow())
	}
	s.aws.live["version"], s.aws.live["other"] = "1.34", "1"
	s.drift(at("aws", "version"))
	if d := cmp.Diff([]string{"update aws Thing.sqs/other: " + byHand}, s.pending()); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	s.drift(at("aws", "other"))
	s.expectCondition("Drifted", metav1.ConditionFalse, "InSync")
	if got := s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded"); got != "Applied revision main@sha1:11: 1 object" {
		t.Errorf("message %q", got)
	}
	if s.aws.fullComparisons != reads || s.driftedNow() != 0 {
		t.Errorf("%d comparisons in full, gauge %v", s.aws.fullComparisons-reads, s.driftedNow())
	}
}

func TestAWSDriftIsCorrectedAndReportedOnce(t *testing.T) {
	s := newStage(t, nil)
	s.commit("aws/rule=ENABLED", "kubernetes/pool=1")
	s.reconcile()
	reads := s.aws.fullComparisons
	s.aws.live["rule"] = "DISABLED"
	s.drift(at("aws", "rule"))
	s.drift(at("aws", "rule"))
	s.later()
	if s.aws.live["rule"] != "ENABLED" || s.aws.fullComparisons != reads {
		t.Errorf("rule %s, %d comparisons in full", s.aws.live["rule"], s.aws.fullComparisons-reads)
	}
	if d := cmp.Diff([]string{"Normal DriftCorrected aws Thing.sqs/rule: value is as in Git again"}, s.takeEvents()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	s.expectCondition("Drifted", metav1.ConditionFalse, "InSync")
}

func TestAWSDriftThatCannotBePutRightIsDriftAndHoldsUpNothing(t *testing.T) {
	s := newStage(t, nil)
	s.commit("aws/rule=ENABLED", "kubernetes/pool=1", "kubernetes/old=1")
	s.reconcile()
	s.aws.live["rule"], s.aws.refused["rule"] = "DISABLED", "AccessDenied: events:PutRule"
	s.commit("aws/rule=ENABLED", "kubernetes/pool=2")
	s.later()
	s.expectCondition("Ready", metav1.ConditionFalse, "ApplyFailed")
	s.expectCondition("Drifted", metav1.ConditionTrue, "DriftNotCorrected")
	if d := cmp.Diff(map[string]string{"pool": "2"}, s.cluster.live); d != "" {
		t.Errorf("cluster (-want +got):\n%s", d)
	}
}

func TestUnknownIsLessThanKnownDrift(t *testing.T) {
	s := newStage(t, nil)
	s.aws.live["version"], s.aws.compared["version"], s.aws.unknown["queue"] = "1.33", byHand, denied
	s.commit("aws/version=1.34", "aws/queue=1")
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionFalse, "PartlyUnknown")
	s.expectCondition("Drifted", metav1.ConditionTrue, "ReadOnly")
}

func TestAnObjectThatCanBeReadAgainIsNoLongerUnknown(t *testing.T) {
	s := newStage(t, nil)
	s.commit("aws/queue=1", "aws/rule=1")
	s.reconcile()
	s.aws.unknown["queue"], s.aws.unknown["rule"] = denied, denied
	s.drift(at("aws", "queue"), at("aws", "rule"))
	s.expectCondition("Ready", metav1.ConditionFalse, "PartlyUnknown")
	if s.unknownIn("aws") != 2 {
		t.Errorf("gauge %v, want 2", s.unknownIn("aws"))
	}
	delete(s.aws.unknown, "queue")
	s.drift(at("aws", "queue"))
	if got := s.expectCondition("Drifted", metav1.ConditionUnknown, "PartlyUnknown"); !strings.HasPrefix(got, "1 thing could not be compared: aws Thing.sqs/rule") || s.unknownIn("aws") != 1 {
		t.Errorf("message %q, gauge %v", got, s.unknownIn("aws"))
	}
	delete(s.aws.unknown, "rule")
	s.drift(at("aws", "rule"))
	s.expectCondition("Drifted", metav1.ConditionFalse, "InSync")
	// What was observed alone proves nothing of the rest: the next full run does.
	s.expectCondition("Ready", metav1.ConditionFalse, "PartlyUnknown")
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if reported := s.takeEvents(); len(reported) != 1 {
		t.Errorf("events %v, want one", reported)
	}
}

func TestOneThingPutRightDoesNotCallTheRestCompared(t *testing.T) {
	s := newStage(t, nil)
	s.commit("aws/rule=1", "kubernetes/pool=1")
	s.reconcile()
	s.loadError = state.Failf(state.Stalled, "NoManifests", "the folder declares nothing")
	s.commit()
	s.later()
	s.expectCondition("Drifted", metav1.ConditionFalse, "InSync")
	s.aws.live["rule"] = "edited"
	s.drift(at("aws", "rule"))
	s.expectCondition("Drifted", metav1.ConditionFalse, "InSync")
	s.expectCondition("Ready", metav1.ConditionFalse, "NoManifests")
	if s.aws.live["rule"] != "1" {
		t.Error("the last good revision is not in force")
	}
}

func TestAHeldPruneIsReportedBesideWhatIsUnknown(t *testing.T) {
	s := newStage(t, nil)
	s.commit("aws/queue=1", "kubernetes/a=1", "kubernetes/b=1")
	s.reconcile()
	s.aws.unknown["queue"] = denied
	s.commit("aws/queue=1")
	s.later()
	if got := s.expectCondition("Ready", metav1.ConditionFalse, "PruneHeld"); !strings.HasPrefix(got, "would delete all 2 objects (guard.maxPrunePercent); revision main@sha1:111 is not applied in full; confirm with: ") {
		t.Errorf("message %q", got)
	}
	s.expectCondition("Drifted", metav1.ConditionUnknown, "PartlyUnknown")
}

func TestUnderReportNothingIsEverWrittenToAWS(t *testing.T) {
	s := newStage(t, reporting)
	s.aws.live["stray"], s.aws.applied["stray"] = "1", "1"
	s.aws.live["rule"], s.aws.applied["rule"] = "DISABLED", "ENABLED"
	s.commit("aws/rule=ENABLED", "aws/queue=1", "kubernetes/pool=1")
	s.reconcile()
	s.commit("aws/rule=ENABLED", "aws/queue=2", "kubernetes/pool=2")
	s.later()
	s.clock.Step(reportGap)
	s.drift(at("aws", "rule"))
	if len(s.aws.writes) != 0 {
		t.Errorf("AWS was written: %v", s.aws.writes)
	}
	if s.cluster.live["pool"] != "2" {
		t.Error("the cluster did not follow")
	}
	const why = ": nothing is written to aws (drift: Report)"
	want := []string{"create aws Thing.sqs/queue" + why, "update aws Thing.sqs/rule" + why, "delete aws Thing.sqs/stray" + why}
	if d := cmp.Diff(want, s.pending()); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	s.expectCondition("Drifted", metav1.ConditionTrue, "DriftReported")
	reads := s.aws.fullComparisons
	for range 3 {
		s.later()
	}
	if s.aws.fullComparisons != reads {
		t.Errorf("%d more comparisons in full", s.aws.fullComparisons-reads)
	}
}

func deleting(sync *v1alpha1.Sync) {
	sync.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
}

// leave deletes the Sync, once it has applied everything.
func (s *stage) leave() {
	s.Helper()
	s.reconcile()
	s.takeEvents()
	if err := s.r.Client.Delete(s.Context(), s.sync()); err != nil {
		s.Fatal(err)
	}
}

func TestASyncDoesNotGoWhileItIsUnknownWhatIsLeft(t *testing.T) {
	s := newStage(t, deleting)
	s.commit("aws/queue=1", "kubernetes/pool=1")
	s.leave()
	s.aws.unknown["queue"] = denied
	for range 3 {
		if wait := s.reconcile(); wait != time.Minute {
			t.Errorf("the next reconciliation is in %s", wait)
		}
	}
	message := s.expectCondition("Ready", metav1.ConditionFalse, "DeletionFailed")
	if !strings.HasPrefix(message, "1 thing could not be compared: aws Thing.sqs/queue: "+denied) {
		t.Errorf("message %q", message)
	}
	if d := cmp.Diff([]string{"Warning DeletionFailed " + message}, s.takeEvents()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if len(s.cluster.live) != 0 || s.aws.live["queue"] == "" {
		t.Errorf("cluster %v, aws %v", s.cluster.live, s.aws.live)
	}
	delete(s.aws.unknown, "queue")
	s.reconcile()
	if s.sync().Name != "" || len(s.aws.live) != 0 {
		t.Errorf("the Sync is still there, or AWS holds %v", s.aws.live)
	}
}

func TestASyncThatOnlyReportsLeavesAWSAndReportsThat(t *testing.T) {
	s := newStage(t, func(sync *v1alpha1.Sync) { deleting(sync); reporting(sync) })
	s.aws.live["queue"], s.aws.applied["queue"] = "1", "1"
	s.commit("aws/queue=1", "kubernetes/pool=1")
	s.leave()
	s.reconcile()
	if s.sync().Name != "" || len(s.cluster.live) != 0 || len(s.aws.writes) != 0 {
		t.Errorf("Sync %q, cluster %v, writes to AWS %v", s.sync().Name, s.cluster.live, s.aws.writes)
	}
	want := []string{"Warning Orphaned Left as they are (1), the first: aws Thing.sqs/queue: nothing is written to aws (drift: Report)"}
	if d := cmp.Diff(want, s.takeEvents()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}
