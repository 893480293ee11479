package controller

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/poolwright/poolwright/reconciler/notification"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestNobodyCallsInSyncWhatAProblemKeptFromBeingCompared(t *testing.T) {
	s := newStage(t, nil)
	s.problems = []state.Problem{{Origin: state.Origin{File: "cluster.yaml", Line: 4}, Message: "tag aws:foo is reserved"}}
	s.commit("kubernetes/pool=1")
	s.reconcile()
	message := s.expectCondition("Ready", metav1.ConditionFalse, "InvalidManifests")
	if want := "cluster.yaml:4: tag aws:foo is reserved; all other objects are applied, nothing is pruned; run poolwright lint on the folder to list every problem"; message != want {
		t.Errorf("message %q, want %q", message, want)
	}
	want := "1 problem in the repository, which the condition Ready reports: their objects could not be compared; all others match the revision"
	if got := s.expectCondition("Drifted", metav1.ConditionUnknown, "PartlyCompared"); got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	s.takeEvents()
	s.cluster.live["pool"] = "edited"
	s.drift(at("kubernetes", "pool"))
	s.expectCondition("Drifted", metav1.ConditionUnknown, "PartlyCompared")
	s.expectCondition("Ready", metav1.ConditionFalse, "InvalidManifests")
	if d := cmp.Diff([]string{"Normal DriftCorrected Thing/pool: value is as in Git again"}, s.takeEvents()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	s.problems = nil
	s.commit("kubernetes/pool=1")
	s.later()
	s.expectCondition("Drifted", metav1.ConditionFalse, "InSync")
}

func TestKnownDriftIsReportedThoughThereAreProblems(t *testing.T) {
	s := newStage(t, nil)
	s.problems = []state.Problem{{Message: "two Clusters"}}
	s.aws.live["version"], s.aws.compared["version"] = "1.33", byHand
	s.commit("aws/version=1.34")
	s.reconcile()
	s.expectCondition("Drifted", metav1.ConditionTrue, "ReadOnly")
}

func TestWhatCouldNotBeMadeIsNeitherDriftNorInSync(t *testing.T) {
	s := newStage(t, nil)
	s.aws.refused["queue"] = "AccessDenied"
	s.commit("aws/queue=1", "kubernetes/pool=1")
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionFalse, "ApplyFailed")
	s.expectCondition("Drifted", metav1.ConditionFalse, "NoDrift")
	s.aws.live["version"], s.aws.compared["version"] = "1.33", byHand
	s.cluster.refused["pool"] = "no"
	s.cluster.live["pool"] = "edited"
	s.commit("aws/queue=1", "aws/version=1.34", "kubernetes/pool=1")
	s.later()
	s.expectCondition("Drifted", metav1.ConditionTrue, "DriftNotCorrected")
}

// An object that is rewritten all the time must not have AWS read each time.
func TestUnderReportDriftInTheClusterSendsNoRequestToAWS(t *testing.T) {
	s := newStage(t, reporting)
	s.aws.live["queue"], s.aws.applied["queue"] = "1", "1"
	s.commit("aws/queue=1", "kubernetes/pool=1")
	s.reconcile()
	reads := s.aws.fullComparisons
	for n := range 50 {
		s.clock.Step(reportGap)
		s.cluster.live["pool"] = []string{"edited", "again"}[n%2]
		s.drift(at("kubernetes", "pool"))
	}
	if s.aws.fullComparisons != reads {
		t.Errorf("%d comparisons of AWS in full", s.aws.fullComparisons-reads)
	}
	s.expectCondition("Drifted", metav1.ConditionTrue, "DriftReported")
	if d := cmp.Diff([]string{"update Thing/pool: drift is only reported (drift: Report)"}, s.pending()); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	want := []string{"Warning DriftReported 1 live thing differs from Git and stays so: Thing/pool (cluster.yaml:9): drift is only reported (drift: Report)"}
	if d := cmp.Diff(want, s.takeEvents()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	// No watch tells that somebody put it back: the next reconciliation sees it.
	s.cluster.live["pool"] = "1"
	s.later()
	s.expectCondition("Drifted", metav1.ConditionFalse, "InSync")
	if s.aws.fullComparisons != reads || s.cluster.writes == nil {
		t.Errorf("%d comparisons of AWS in full", s.aws.fullComparisons-reads)
	}
	s.clock.Step(resync)
	s.reconcile()
	if s.aws.fullComparisons != reads+1 {
		t.Errorf("%d comparisons of AWS in full after %s, want one", s.aws.fullComparisons-reads, resync)
	}
}

func TestWhatANewProcessFindsReportedIsNotReportedAgain(t *testing.T) {
	s := newStage(t, nil)
	s.aws.live["version"], s.aws.compared["version"] = "1.33", byHand
	s.commit("aws/version=1.34")
	s.reconcile()
	if reported := s.takeEvents(); len(reported) != 1 {
		t.Errorf("events %v, want one", reported)
	}
	s.r.states.stop(stageName)
	s.reconcile()
	if reported := s.takeEvents(); len(reported) != 0 {
		t.Errorf("events of a new process: %v", reported)
	}
}

func TestWhileSomethingIsUnknownARevisionARequestAndAWatchActAtOnce(t *testing.T) {
	for name, act := range map[string]func(s *stage){
		"a new revision": func(s *stage) {
			s.commit("aws/queue=1", "kubernetes/pool=2")
			s.later()
		},
		"a request": func(s *stage) {
			s.cluster.live["pool"] = "1"
			sync := s.sync()
			sync.Annotations = map[string]string{fluxmeta.ReconcileRequestAnnotation: "now"}
			if err := s.r.Client.Update(s.Context(), sync); err != nil {
				s.Fatal(err)
			}
			s.declared = append(s.declared[:1:1], newPlace("kubernetes").item("pool", "2"))
			s.revision += "1"
			s.reconcile()
		},
		"a watch": func(s *stage) {
			s.commit("aws/queue=1", "kubernetes/pool=2")
			s.later()
			s.cluster.live["pool"] = "edited"
			s.drift(at("kubernetes", "pool"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.aws.unknown["queue"] = denied
			s.commit("aws/queue=1", "kubernetes/pool=1")
			for range 12 {
				s.clock.Step(s.reconcile())
			}
			act(s)
			if s.cluster.live["pool"] != "2" {
				t.Errorf("the pool is %q", s.cluster.live["pool"])
			}
		})
	}
}

func TestEverybodyCountsTheSameObjects(t *testing.T) {
	s := newStage(t, nil)
	s.aws.live["version"], s.aws.compared["version"] = "1.34", byHand
	s.aws.live["addon"], s.aws.compared["addon"] = "1", byHand
	s.aws.refused["role"] = "AccessDenied"
	s.aws.unknown["rule"] = denied
	s.commit("aws/version=1.34", "aws/addon=2", "aws/queue=1", "aws/role=1", "aws/rule=1", "kubernetes/pool=1", "kubernetes/class=1")
	s.reconcile()
	s.objects(3)

	delete(s.aws.refused, "role")
	s.drift(at("aws", "role"))
	s.objects(4)

	delete(s.aws.unknown, "rule")
	s.clock.Step(time.Minute)
	s.reconcile()
	s.objects(5)
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")

	delete(s.cluster.live, "pool")
	s.cluster.refused["pool"] = "no"
	s.drift(at("kubernetes", "pool"))
	s.objects(4)
	delete(s.cluster.refused, "pool")
	s.drift(at("kubernetes", "pool"))
	s.objects(5)

	s.commit("aws/version=1.34", "aws/addon=2", "aws/queue=1", "aws/role=1", "aws/rule=1", "kubernetes/pool=1")
	s.later()
	s.objects(5 - 1)
	// What was ours and cannot be observed is still ours.
	s.aws.unknown["rule"] = denied
	s.drift(at("aws", "rule"))
	s.objects(4)
}

func TestOnlyARevisionThatChangedSomethingSucceedsAloud(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/a=1", "kubernetes/b=1")
	s.reconcile()
	aloud := func() int {
		n := 0
		for len(s.events.Events) > 0 {
			if strings.Contains(<-s.events.Events, "ReconciliationSucceeded") {
				n++
			}
		}
		return n
	}
	if n := aloud(); n != 1 {
		t.Errorf("%d events of the first revision", n)
	}
	s.cluster.live["a"] = "edited"
	s.clock.Step(resync)
	s.reconcile()
	if n := aloud(); n != 0 || s.cluster.live["a"] != "1" {
		t.Errorf("%d events of success for drift, a is %q", n, s.cluster.live["a"])
	}
}

func TestAChangeIsCountedByItsCause(t *testing.T) {
	s := newStage(t, nil)
	s.aws.live["version"], s.aws.compared["version"] = "1.33", byHand
	s.commit("aws/version=1.34", "kubernetes/pool=1")
	s.reconcile()
	s.cluster.live["pool"] = "edited"
	s.drift(at("kubernetes", "pool"))
	for cause, labels := range map[string]map[string]string{
		"read_only": {"action": "update", "result": "skipped"}, "revision": {"action": "create", "result": "applied"}, "drift": {"action": "update", "result": "applied"},
	} {
		labels["cause"], labels["sync"] = cause, "dev"
		if got := s.counter("poolwright_changes_total", labels); got != 1 {
			t.Errorf("cause %s: %v, want 1", cause, got)
		}
	}
	// Each combination of labels was there before its first change, so that increase() counts that one.
	if n, err := testutil.GatherAndCount(s.registry, "poolwright_changes_total"); n != 54 || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
}

func TestADeletionThatWaitsStaysPendingWhenItsObjectIsEdited(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/a=1", "kubernetes/b=1", "aws/queue=1")
	s.reconcile()
	s.aws.unknown["queue"] = denied
	s.commit("aws/queue=1")
	s.later()
	s.expectCondition("Ready", metav1.ConditionFalse, "PruneHeld")
	before := s.pending()
	s.cluster.live["a"] = "edited"
	s.drift(at("kubernetes", "a"))
	if d := cmp.Diff(before, s.pending()); d != "" || len(before) != 2 {
		t.Errorf("pending (-before +after):\n%s", d)
	}
	s.objects(3)
}

// A problem that two of the checks find is one, and the first is the first of the folder: poolwright lint
// lists the same.
func TestProblemsAreCountedAsLintCountsThem(t *testing.T) {
	s := newStage(t, nil)
	first, second := state.Problem{Origin: state.Origin{File: "a.yaml", Line: 3}, Message: "x"}, state.Problem{Origin: state.Origin{File: "b.yaml", Line: 1}, Message: "x"}
	s.problems = []state.Problem{second, first, second}
	s.commit("kubernetes/map=1")
	s.reconcile()
	if message := s.expectCondition("Ready", metav1.ConditionFalse, "InvalidManifests"); !strings.HasPrefix(message, "2 problems, the first: a.yaml:3: x; all other objects are applied") {
		t.Errorf("message %q", message)
	}
	if drifted := s.expectCondition("Drifted", metav1.ConditionUnknown, "PartlyCompared"); !strings.Contains(drifted, "2 problems") {
		t.Errorf("message %q", drifted)
	}
}

// What is read-only is not among status.objects, and no message counts it as applied.
func TestNoMessageCountsWhatIsOnlyCompared(t *testing.T) {
	s := newStage(t, nil)
	s.problems = []state.Problem{{Message: "x"}}
	s.aws.compared["addon"] = "run: aws eks update-addon"
	s.aws.live["addon"] = "1"
	s.commit("kubernetes/map=1", "aws/addon=1")
	s.reconcile()
	s.objects(1)
	if message := s.expectCondition("Ready", metav1.ConditionFalse, "InvalidManifests"); strings.Contains(message, "2 objects") {
		t.Errorf("message %q", message)
	}
}

func TestAnEventHasTheRevisionThatItIsAbout(t *testing.T) {
	s := newStage(t, nil)
	s.r.Recorder = s.events
	s.commit("kubernetes/map=1")
	s.reconcile()
	s.cluster.live["map"] = "edited"
	s.drift(at("kubernetes", "map"))
	s.commit("kubernetes/map=2")
	s.loadError = state.Failf(state.Stalled, "PathNotFound", "gone")
	s.later()
	close(s.events.Events)
	var got []string
	for event := range s.events.Events {
		_, annotations, _ := strings.Cut(event, "map[")
		got = append(got, strings.Fields(event)[1]+" "+annotations)
	}
	want := []string{"ReconciliationSucceeded poolwright.dev/revision:main@sha1:11]", "DriftCorrected poolwright.dev/revision:main@sha1:11]", "PathNotFound poolwright.dev/revision:main@sha1:111]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// One that goes on with an earlier artifact is about the newest, and what it corrects goes by the earlier one.
func TestAnEventHasTheOriginOfTheArtifactThatItIsAbout(t *testing.T) {
	s := newStage(t, nil)
	s.r.Recorder = s.events
	s.origins = map[string]string{"main@sha1:11": "main@sha1:a", "main@sha1:111": "main@sha1:b"}
	s.commit("kubernetes/map=1")
	s.reconcile()
	s.cluster.live["map"] = "edited"
	s.drift(at("kubernetes", "map"))
	s.commit("kubernetes/map=2")
	s.loadError = state.Failf(state.Stalled, "PathNotFound", "gone")
	s.later()
	close(s.events.Events)
	var got []string
	for event := range s.events.Events {
		_, origin, _ := strings.Cut(event, "poolwright.dev/originRevision:")
		origin, _, _ = strings.Cut(origin, " ")
		got = append(got, strings.Fields(event)[1]+" "+origin)
	}
	want := []string{"ReconciliationSucceeded main@sha1:a", "DriftCorrected main@sha1:a", "PathNotFound main@sha1:b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Flux's own recorder sends within the reconciliation, which a receiver that hangs makes wait for half a minute.
func TestAReceiverOfEventsThatHangsDelaysNoCorrection(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	s := newStage(t, nil)
	notifier, err := notification.New(notification.Config{Address: server.URL, Clock: s.clock})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- notifier.Start(ctx) }()
	s.r.Recorder = notifier.Record(record.NewFakeRecorder(1000))
	s.commit("kubernetes/map=1")
	s.reconcile()
	began := time.Now()
	for range 300 { // More than the queue has places for.
		s.cluster.live["map"] = "edited"
		s.drift(at("kubernetes", "map"))
	}
	if took := time.Since(began); took > 5*time.Second || s.cluster.live["map"] != "1" {
		t.Errorf("300 corrections took %s, the live value is %q", took, s.cluster.live["map"])
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
