package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// checkedHealth is a health.Checker whose health the test sets.
type checkedHealth struct {
	mu      sync.Mutex
	invalid error
	found   targets.Health
	changed func()
}

func (c *checkedHealth) CheckHealth(v1alpha1.HealthCheckSpec) error { return c.invalid }

func (c *checkedHealth) WatchHealth(ctx context.Context, changed func()) {
	c.mu.Lock()
	c.changed = changed
	c.mu.Unlock()
	<-ctx.Done()
}

func (c *checkedHealth) Health() targets.Health { return c.found }

// become has so many of two objects be unhealthy, and so many of these have failed, as the watch reports it.
func (s *stage) become(unhealthy, failed int) {
	s.Helper()
	s.health.found = targets.Health{Observed: true, Checked: 2, Unhealthy: unhealthy, Failed: failed}
	if unhealthy > 0 {
		s.health.found.First = targets.Unhealthy{Key: state.Key{Target: "kubernetes", Group: "apps", Kind: "Deployment", Namespace: "llm", Name: "serve"}, Reason: "Available: 0/2"}
	}
	if s.r.states.open[stageName] == nil {
		return
	}
	for changed := (func())(nil); changed == nil; {
		s.health.mu.Lock()
		changed = s.health.changed
		s.health.mu.Unlock()
		if changed != nil {
			changed()
		}
	}
}

// expectHealth checks Ready, and that Healthy and what kstatus reads go with it.
func (s *stage) expectHealth(ready metav1.ConditionStatus, reason string) {
	s.Helper()
	message := s.expectCondition(fluxmeta.ReadyCondition, ready, reason)
	conditions := s.sync().Status.Conditions
	healthy, reconciling := meta.FindStatusCondition(conditions, fluxmeta.HealthyCondition), meta.FindStatusCondition(conditions, fluxmeta.ReconcilingCondition)
	want := map[string]metav1.ConditionStatus{
		fluxmeta.ReconciliationSucceededReason: metav1.ConditionTrue, fluxmeta.ProgressingReason: metav1.ConditionUnknown, fluxmeta.HealthCheckFailedReason: metav1.ConditionFalse,
	}[reason]
	if healthy == nil || healthy.Status != want {
		s.Errorf("with %s, Healthy is %+v", reason, healthy)
	}
	if (reconciling != nil) != (ready != metav1.ConditionTrue) {
		s.Errorf("with %s, Reconciling is %+v", reason, reconciling)
	}
	if ready != metav1.ConditionTrue && !strings.Contains(message, "Deployment.apps/llm/serve: Available: 0/2") {
		s.Errorf("Ready does not name the object: %s", message)
	}
	if value := s.gauge("poolwright_sync_ready", map[string]string{"sync": "dev"}); (value == 1) != (ready == metav1.ConditionTrue) {
		s.Errorf("with %s, the metric is %v", reason, value)
	}
}

func waitsForHealth(sync *v1alpha1.Sync) { sync.Spec.Wait = true }

func TestReadyWaitsUntilAllThatWasAppliedIsHealthy(t *testing.T) {
	s := newStage(t, waitsForHealth)
	s.become(1, 0)
	s.commit("kubernetes/serve=1")
	s.reconcile()
	s.expectHealth(metav1.ConditionFalse, fluxmeta.ProgressingReason)
	if got := s.sync().Status; got.LastAppliedRevision != s.revision || got.ObservedGeneration != 1 {
		t.Errorf("what is applied is not recorded: %+v", got)
	}
	if len(s.events.Events) > 0 {
		t.Errorf("success is reported before it is there: %s", <-s.events.Events)
	}
	s.become(0, 0)
	s.reconcile()
	s.expectHealth(metav1.ConditionTrue, fluxmeta.ReconciliationSucceededReason)
	if got := <-s.events.Events; !strings.Contains(got, "ReconciliationSucceeded Applied revision "+s.revision+": 2 of 2 objects are healthy") {
		t.Errorf("the event is %q", got)
	}
}

func TestTheEventOfHealthHasTheOriginOfTheArtifactThatIsApplied(t *testing.T) {
	s := newStage(t, waitsForHealth)
	s.r.Recorder = s.events
	s.origins = map[string]string{"main@sha1:11": "main@sha1:a"}
	s.become(1, 0)
	s.commit("kubernetes/serve=1")
	s.reconcile()
	s.become(0, 0)
	s.reconcile()
	if got := <-s.events.Events; !strings.Contains(got, "poolwright.dev/originRevision:main@sha1:a ") {
		t.Errorf("the event is %q", got)
	}
}

func TestWhatIsHealthyAtOnceIsReportedOnce(t *testing.T) {
	s := newStage(t, waitsForHealth)
	s.become(0, 0)
	s.commit("kubernetes/serve=1")
	s.reconcile()
	s.expectHealth(metav1.ConditionTrue, fluxmeta.ReconciliationSucceededReason)
	if n := len(s.events.Events); n != 1 {
		t.Errorf("%d events", n)
	}
}

func TestAHealthCheckFailsAfterItsTimeoutAndRecovers(t *testing.T) {
	s := newStage(t, func(sync *v1alpha1.Sync) {
		waitsForHealth(sync)
		sync.Spec.Timeout = &metav1.Duration{Duration: 20 * time.Second}
	})
	s.become(1, 0)
	s.commit("kubernetes/serve=1")
	if after := s.reconcile(); after != 20*time.Second {
		t.Errorf("the next reconciliation is after %s", after)
	}
	s.clock.Step(20 * time.Second)
	s.reconcile()
	s.expectHealth(metav1.ConditionFalse, fluxmeta.HealthCheckFailedReason)
	s.reconcile()
	want := []string{"Warning HealthCheckFailed 1 of 2 objects are not healthy, the first: Deployment.apps/llm/serve: Available: 0/2"}
	if diff := cmp.Diff(want, s.takeEvents()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if n := s.counter("poolwright_sync_failures_total", map[string]string{"sync": "dev", "reason": "HealthCheckFailed"}); n != 1 {
		t.Errorf("%v failures are counted", n)
	}
	s.become(0, 0)
	s.reconcile()
	s.expectHealth(metav1.ConditionTrue, fluxmeta.ReconciliationSucceededReason)
}

func TestTheTimeoutOfAHealthCheck(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*stage)
		want string
	}{
		"an object that has failed is not awaited": {func(s *stage) { s.become(1, 1); s.reconcile() }, fluxmeta.HealthCheckFailedReason},
		"it counts on over a restart of the controller": {func(s *stage) {
			s.clock.Step(50 * time.Second)
			s.restart()
			s.reconcile()
		}, fluxmeta.HealthCheckFailedReason},
		"a new revision has the whole of it": {func(s *stage) {
			s.clock.Step(30 * time.Second)
			s.commit("kubernetes/serve=2")
			s.edit(func(sync *v1alpha1.Sync) {
				sync.Annotations = map[string]string{fluxmeta.ReconcileRequestAnnotation: "now"}
			})
			s.reconcile()
			s.clock.Step(30 * time.Second)
			s.reconcile()
		}, fluxmeta.ProgressingReason},
		"a failed check begins again with a new revision": {func(s *stage) {
			s.clock.Step(50 * time.Second)
			s.reconcile()
			s.commit("kubernetes/serve=2")
			s.clock.Step(70 * time.Second)
			s.reconcile()
		}, fluxmeta.ProgressingReason},
		"a changed spec has the whole of it": {func(s *stage) {
			s.clock.Step(50 * time.Second)
			s.edit(func(sync *v1alpha1.Sync) { sync.Generation = 2 })
			s.reconcile()
		}, fluxmeta.ProgressingReason},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, func(sync *v1alpha1.Sync) {
				waitsForHealth(sync)
				sync.Spec.Timeout = &metav1.Duration{Duration: 45 * time.Second}
			})
			s.become(1, 0)
			s.commit("kubernetes/serve=1")
			s.reconcile()
			c.then(s)
			s.expectHealth(metav1.ConditionFalse, c.want)
		})
	}
}

// What is unhealthy must change nothing of what a run does.
func TestAnUnhealthyObjectStopsNeitherDriftCorrectionNorPruning(t *testing.T) {
	s := newStage(t, waitsForHealth)
	s.become(2, 2)
	s.commit("kubernetes/serve=1", "kubernetes/old=1")
	s.reconcile()
	s.expectHealth(metav1.ConditionFalse, fluxmeta.HealthCheckFailedReason)
	s.cluster.live["serve"] = "by hand"
	s.drift(at("kubernetes", "serve"))
	if got := s.cluster.live["serve"]; got != "1" {
		t.Errorf("drift is not corrected: %v", got)
	}
	s.expectHealth(metav1.ConditionFalse, fluxmeta.HealthCheckFailedReason)
	s.commit("kubernetes/serve=2")
	s.later()
	if diff := cmp.Diff(map[string]string{"serve": "2"}, s.cluster.live); diff != "" {
		t.Errorf("after the next revision (-want +got):\n%s", diff)
	}
	if after := s.later(); after < 50*time.Second {
		t.Errorf("an unhealthy object has the Sync retried after %s", after)
	}
}

func TestAChangeOfHealthCostsNoFetchAndNoComparison(t *testing.T) {
	s := newStage(t, waitsForHealth)
	s.become(1, 0)
	s.commit("kubernetes/serve=1")
	s.reconcile()
	before := s.cluster.fullComparisons
	s.unread = errors.New("nobody may fetch")
	s.clock.Step(10 * time.Second)
	s.become(0, 0)
	if after := s.reconcile(); after > 60*time.Second || after < 40*time.Second {
		t.Errorf("the next reconciliation is after %s", after)
	}
	s.expectHealth(metav1.ConditionTrue, fluxmeta.ReconciliationSucceededReason)
	if s.cluster.fullComparisons != before {
		t.Errorf("the cluster was observed %d times more", s.cluster.fullComparisons-before)
	}
}

func TestWhatComesWithAChangeOfHealthIsNotLost(t *testing.T) {
	for name, then := range map[string]func(*stage){
		"drift":                  func(s *stage) { s.r.states.open[stageName].putBack([]state.Key{at("kubernetes", "serve")}) },
		"a changed variable":     func(s *stage) { s.r.states.open[stageName].putBack(nil) },
		"the time for a fetch":   func(s *stage) { s.clock.Step(70 * time.Second) },
		"a request for a run":    func(s *stage) { s.annotate(fluxmeta.ReconcileRequestAnnotation) },
		"a request for new AMIs": func(s *stage) { s.annotate(v1alpha1.UpdateParametersAnnotation) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, waitsForHealth)
			s.become(1, 0)
			s.commit("kubernetes/serve=1")
			s.reconcile()
			s.cluster.live["serve"] = "by hand"
			s.commit("kubernetes/serve=1", "kubernetes/more=1")
			then(s)
			s.become(0, 0)
			s.reconcile()
			if s.cluster.live["serve"] != "1" && s.cluster.live["more"] != "1" {
				t.Errorf("nothing was done: %v", s.cluster.live)
			}
		})
	}
}

func (s *stage) annotate(name string) {
	s.edit(func(sync *v1alpha1.Sync) { sync.Annotations = map[string]string{name: "now"} })
}

func TestAnInvalidExpressionIsReportedAndStopsNothing(t *testing.T) {
	s := newStage(t, waitsForHealth)
	s.health.invalid = errors.New("no such function")
	s.commit("kubernetes/serve=1")
	s.reconcile()
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionFalse, fluxmeta.InvalidCELExpressionReason)
	s.expectCondition(fluxmeta.StalledCondition, metav1.ConditionTrue, fluxmeta.InvalidCELExpressionReason)
	if s.cluster.live["serve"] != "1" {
		t.Error("the revision is not applied")
	}
}

func TestAnotherFailureComesBeforeHealth(t *testing.T) {
	s := newStage(t, waitsForHealth)
	s.become(1, 1)
	s.commit("kubernetes/serve=1")
	s.reconcile()
	s.loadError = errors.New("a problem")
	s.commit("kubernetes/serve=2")
	s.later()
	if c := meta.FindStatusCondition(s.sync().Status.Conditions, fluxmeta.ReadyCondition); c.Reason == fluxmeta.HealthCheckFailedReason {
		t.Errorf("Ready has %s", c.Reason)
	}
	s.become(0, 0)
	s.reconcile()
	if c := meta.FindStatusCondition(s.sync().Status.Conditions, fluxmeta.ReadyCondition); c.Status != metav1.ConditionFalse {
		t.Errorf("a Sync with a problem is ready once its objects are healthy: %+v", c)
	}
}

func TestHealthIsInNoConditionOnceNothingHasToBeHealthy(t *testing.T) {
	s := newStage(t, waitsForHealth)
	s.become(1, 1)
	s.commit("kubernetes/serve=1")
	s.reconcile()
	s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Wait, sync.Generation = false, 2 })
	s.reconcile()
	s.expectCondition(fluxmeta.ReadyCondition, metav1.ConditionTrue, fluxmeta.ReconciliationSucceededReason)
	if slices.ContainsFunc(s.sync().Status.Conditions, func(c metav1.Condition) bool { return c.Type == fluxmeta.HealthyCondition }) {
		t.Error("Healthy is still there")
	}
}

// What stays as it is must not be written again, or each write would bring another reconciliation.
func TestAnUnchangedHealthIsNotWrittenAgain(t *testing.T) {
	s := newStage(t, waitsForHealth)
	s.become(1, 1)
	s.commit("kubernetes/serve=1")
	s.reconcile()
	s.later()
	before := s.sync().ResourceVersion
	s.become(1, 1)
	s.reconcile()
	s.later()
	if after := s.sync().ResourceVersion; after != before {
		t.Errorf("the status was written again: %+v", s.sync().Status.Conditions)
	}
}
