package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// serving takes a ConfigMap for healthy once somebody has written into it that it serves.
func serving(sync *v1alpha1.Sync) {
	sync.Spec.HealthCheckExprs = []v1alpha1.CustomHealthCheck{{APIVersion: "v1", Kind: "ConfigMap", HealthCheckExpressions: v1alpha1.HealthCheckExpressions{
		Current: "has(data.phase) && data.phase == 'Serving'", Failed: "has(data.phase) && data.phase == 'Broken'",
	}}}
}

// isUnhealthy waits until the Sync is not ready for the reason, which is about an object.
func (s *syncFixture) isUnhealthy(reason, name string) {
	s.Helper()
	s.eventually("the Sync is unhealthy: "+reason, func() error {
		ready := meta.FindStatusCondition(s.sync().Status.Conditions, fluxmeta.ReadyCondition)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason || !strings.Contains(ready.Message, "ConfigMap/"+s.apps+"/"+name) {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
}

func TestReadyWaitsForTheHealthOfWhatIsApplied(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "health")
	s.declare("v1", "a", "b")
	s.repo.commit("Begin")
	c := s.start()
	// No interval may help: health is watched.
	s.follow(every("10m"), serving, func(sync *v1alpha1.Sync) { sync.Spec.Wait = true })
	s.isUnhealthy("Progressing", "a")
	s.edit("a", `{"data":{"phase":"Serving"}}`)
	s.edit("b", `{"data":{"phase":"Broken"}}`)
	s.isUnhealthy("HealthCheckFailed", "b")
	if event := s.waitForEvent("HealthCheckFailed"); !strings.Contains(event, "1 of 3 objects failed") {
		t.Errorf("the event is %q", event)
	}

	// What is unhealthy keeps nothing from being corrected, applied and pruned.
	s.edit("b", `{"data":{"value":"by hand"}}`)
	s.holds("b", "v1")
	s.declare("v2", "a")
	s.declare("v1", "c")
	s.repo.remove("config/b.yaml")
	s.repo.commit("Go on")
	s.handled()
	s.holds("a", "v2")
	s.gone("b")
	s.isUnhealthy("Progressing", "c")
	if got := s.sync().Status.LastAppliedRevision; got != s.repo.revision() {
		t.Errorf("the revision that is applied is %s, want %s", got, s.repo.revision())
	}

	c.api.take()
	s.edit("c", `{"data":{"phase":"Serving"}}`)
	s.ready()
	if writes := beyond(c.api.take(), routine(s.name)); len(writes) > 0 {
		t.Errorf("becoming healthy costs further writes: %v", writes)
	}
	if healthy := meta.FindStatusCondition(s.sync().Status.Conditions, fluxmeta.HealthyCondition); healthy == nil || healthy.Status != metav1.ConditionTrue {
		t.Errorf("Healthy is %+v", healthy)
	}
	s.uproot("c")
	s.holds("c", "v1") // Made anew, it does not serve yet.
	s.isUnhealthy("Progressing", "c")
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Timeout = &metav1.Duration{Duration: time.Second} })
	s.isUnhealthy("HealthCheckFailed", "c")
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.HealthCheckSpec = v1alpha1.HealthCheckSpec{} })
	s.ready()
}

func TestNamedObjectsHaveToBeHealthy(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "healthchecks")
	s.declare("v1", "a", "b")
	s.repo.commit("Begin")
	s.start()
	s.follow(every("10m"), serving, func(sync *v1alpha1.Sync) {
		sync.Spec.HealthChecks = []v1alpha1.NamespacedObjectKindReference{
			{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.apps, Name: "elsewhere"}, {Kind: "Namespace", Name: s.apps, Namespace: "ignored"},
		}
	})
	s.isUnhealthy("Progressing", "elsewhere")
	other := s.live("a")
	other.ObjectMeta = metav1.ObjectMeta{Namespace: s.apps, Name: "elsewhere"}
	other.Data = map[string]string{"phase": "Serving"}
	if err := s.hand.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	s.ready()
	s.uproot("elsewhere")
	s.isUnhealthy("Progressing", "elsewhere")
	s.change(func(sync *v1alpha1.Sync) {
		sync.Spec.HealthChecks = []v1alpha1.NamespacedObjectKindReference{{APIVersion: "example.com/v1", Kind: "Model", Name: "m"}}
	})
	s.eventually("a kind that is not served is reported", func() error {
		ready := meta.FindStatusCondition(s.sync().Status.Conditions, fluxmeta.ReadyCondition)
		if !strings.Contains(ready.Message, "the cluster does not serve example.com/v1 Model") {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
}

func TestInvalidHealthChecksAreRefusedOrReported(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "healthinvalid")
	s.declare("v1", "a")
	s.repo.commit("Begin")
	s.start()
	s.follow(func(sync *v1alpha1.Sync) {
		sync.Spec.Wait = true
		sync.Spec.HealthCheckExprs = []v1alpha1.CustomHealthCheck{{APIVersion: "v1", HealthCheckExpressions: v1alpha1.HealthCheckExpressions{Current: "data."}}}
	})
	s.waitForNotReady("InvalidCELExpression")
	s.holds("a", "v1")
	for name, edit := range map[string]func(*v1alpha1.Sync){
		"healthCheckExprs needs wait": func(sync *v1alpha1.Sync) { sync.Spec.Wait = false },
		"timeout must be at least 1s": func(sync *v1alpha1.Sync) { sync.Spec.Timeout = &metav1.Duration{} },
		"spec.healthChecks[0].kind": func(sync *v1alpha1.Sync) {
			sync.Spec.HealthChecks = []v1alpha1.NamespacedObjectKindReference{{Name: "a"}}
		},
		"spec.healthCheckExprs[0].curr": func(sync *v1alpha1.Sync) { sync.Spec.HealthCheckExprs[0].Current = "" },
	} {
		sync := s.sync()
		edit(sync)
		if err := s.hand.Update(t.Context(), sync); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
