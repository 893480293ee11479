package health

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

func object(apiVersion, kind, name, version string, more map[string]any) *unstructured.Unstructured {
	o := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": "llm", "name": name, "resourceVersion": version, "generation": int64(1)}}
	maps.Copy(o, more)
	return &unstructured.Unstructured{Object: o}
}

func deployment(version string, available int64) *unstructured.Unstructured {
	return object("apps/v1", "Deployment", "serve", version, map[string]any{
		"spec": map[string]any{"replicas": int64(2)},
		"status": map[string]any{"observedGeneration": int64(1), "replicas": int64(2), "updatedReplicas": int64(2), "readyReplicas": available, "availableReplicas": available,
			"conditions": []any{map[string]any{"type": "Available", "status": map[bool]string{true: "True", false: "False"}[available == 2]}}},
	})
}

func keyOfObject(o *unstructured.Unstructured) state.Key {
	gvk := o.GroupVersionKind()
	return state.Key{Target: kinds.Target, Group: gvk.Group, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

func TestTheHealthOfAnObject(t *testing.T) {
	ready := func(value string) map[string]any { return map[string]any{"status": map[string]any{"phase": value}} }
	exprs := []v1alpha1.CustomHealthCheck{
		{APIVersion: "example.com/v1", Kind: "Model", HealthCheckExpressions: v1alpha1.HealthCheckExpressions{Current: "status.phase == 'Serving'", Failed: "status.phase == 'Broken'", InProgress: "status.phase == 'Loading'"}},
		{APIVersion: "example.com/v1", HealthCheckExpressions: v1alpha1.HealthCheckExpressions{Current: "true"}},
		{APIVersion: "slow.example.com/v1", HealthCheckExpressions: v1alpha1.HealthCheckExpressions{Current: "status.many.all(a, status.many.all(b, status.many.all(c, status.many.all(d, true))))"}},
	}
	many := make([]any, 1000)
	for name, c := range map[string]struct {
		live            *unstructured.Unstructured
		healthy, failed bool
	}{
		"a Deployment whose pods are available":             {deployment("1", 2), true, false},
		"a Deployment that lacks a pod":                     {deployment("1", 1), false, false},
		"an object without a status":                        {object("v1", "ConfigMap", "a", "1", nil), true, false},
		"a Job that runs":                                   {object("batch/v1", "Job", "a", "1", map[string]any{"status": map[string]any{"startTime": "2026-01-01T00:00:00Z", "active": int64(1)}}), false, false},
		"a resource that its expression takes for healthy":  {object("example.com/v1", "Model", "a", "1", ready("Serving")), true, false},
		"a resource of another version than the expression": {object("example.com/v2", "Model", "a", "1", ready("Serving")), true, false},
		"a resource that its expression takes for failed":   {object("example.com/v1", "Model", "a", "1", ready("Broken")), false, true},
		"a resource that its expression takes for unready":  {object("example.com/v1", "Model", "a", "1", ready("Loading")), false, false},
		"a resource for which no expression is true":        {object("example.com/v1", "Model", "a", "1", ready("?")), false, false},
		"a resource that lacks what the expression reads":   {object("example.com/v1", "Model", "a", "1", nil), false, false},
		"a resource of a group with an expression":          {object("example.com/v1", "Other", "a", "1", nil), true, false},
		"a resource with an expression that takes too long": {object("slow.example.com/v1", "Any", "a", "1", map[string]any{"status": map[string]any{"many": many}}), false, false},
		"a resource of a generation that is not observed":   {object("example.com/v1", "Model", "a", "1", map[string]any{"status": map[string]any{"phase": "Serving", "observedGeneration": int64(0)}}), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := newEvaluator(exprs)
			if err != nil {
				t.Fatal(err)
			}
			got := e.of(context.Background(), c.live)
			if got.healthy != c.healthy || got.failed != c.failed {
				t.Errorf("%+v", got)
			}
			if !got.healthy && got.reason == "" {
				t.Error("it has no reason")
			}
		})
	}
}

func TestNoErrorOfAnExpressionHasAValueOfASecret(t *testing.T) {
	const password = "0nly-in-the-Secret"
	secret := object("v1", "Secret", "a", "1", map[string]any{"data": map[string]any{"password": password}})
	for name, expr := range map[string]string{
		"a value as a missing key":                 "data[data.password] == ''",
		"a value in an invalid regular expression": "data.password.matches(data.password + '(')",
	} {
		t.Run(name, func(t *testing.T) {
			e, err := newEvaluator([]v1alpha1.CustomHealthCheck{{APIVersion: "v1", Kind: "Secret", HealthCheckExpressions: v1alpha1.HealthCheckExpressions{Current: expr}}})
			if err != nil {
				t.Fatal(err)
			}
			if got := e.of(context.Background(), secret); got.healthy || got.reason == "" || strings.Contains(got.reason, password) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestInvalidExpressionsAreRefused(t *testing.T) {
	for name, exprs := range map[string][]v1alpha1.CustomHealthCheck{
		"a problem in an expression": {{APIVersion: "v1", Kind: "A", HealthCheckExpressions: v1alpha1.HealthCheckExpressions{Current: "a ="}}},
		"two for the same kind": {
			{APIVersion: "v1", Kind: "A", HealthCheckExpressions: v1alpha1.HealthCheckExpressions{Current: "true"}},
			{APIVersion: "v1", Kind: "A", HealthCheckExpressions: v1alpha1.HealthCheckExpressions{Current: "false"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(Config{})
			for range 2 { // Also where the spec has not changed since.
				if err := c.Set(v1alpha1.HealthCheckSpec{Wait: true, HealthCheckExprs: exprs}); err == nil || !strings.Contains(err.Error(), "healthCheckExprs") {
					t.Errorf("got %v", err)
				}
			}
			if got := c.Health(); got.Observed {
				t.Errorf("it counts as observed: %+v", got)
			}
		})
	}
}

// waiting is a Checker of a Sync that waits for a Deployment and a ConfigMap.
func waiting(t *testing.T) (*Checker, map[string]*applied) {
	t.Helper()
	c := New(Config{Sync: "dev", Namespace: "poolwright-system"})
	if err := c.Set(v1alpha1.HealthCheckSpec{Wait: true}); err != nil {
		t.Fatal(err)
	}
	c.Require([]state.Item{
		{Key: keyOfObject(deployment("1", 1))}, {Key: keyOfObject(object("v1", "ConfigMap", "a", "1", nil))},
		{Key: state.Key{Target: kinds.Target, Group: "poolwright.dev", Kind: "Sync", Namespace: "poolwright-system", Name: "dev"}},
	})
	return c, map[string]*applied{
		"Deployment": {c, kinds.Kind{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}}},
		"ConfigMap":  {c, kinds.Kind{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}},
	}
}

func TestWhatIsRequiredIsUnhealthyUntilItIsObserved(t *testing.T) {
	c, of := waiting(t)
	serve, a := deployment("5", 1), object("v1", "ConfigMap", "a", "1", nil)
	steps := []struct {
		name string
		do   func()
		want targets.Health
	}{
		{"nothing is observed", func() {}, targets.Health{Observed: true, Checked: 2, Unhealthy: 2, First: targets.Unhealthy{Key: keyOfObject(a), Reason: "its status is not read yet"}}},
		{"the ConfigMap is there", func() { of["ConfigMap"].Updated(a) }, targets.Health{Observed: true, Checked: 2, Unhealthy: 1, First: targets.Unhealthy{Key: keyOfObject(serve), Reason: "its status is not read yet"}}},
		{"a pod is missing", func() { of["Deployment"].Updated(serve) }, targets.Health{Observed: true, Checked: 2, Unhealthy: 1, First: targets.Unhealthy{Key: keyOfObject(serve), Reason: "Available: 1/2"}}},
		{"it runs", func() { of["Deployment"].Updated(deployment("7", 2)) }, targets.Health{Observed: true, Checked: 2}},
		{"an older state of it comes later", func() { c.Applied(keyOfObject(serve), deployment("6", 1)) }, targets.Health{Observed: true, Checked: 2}},
		{"an object of nobody comes", func() { of["Deployment"].Updated(object("apps/v1", "Deployment", "other", "8", nil)) }, targets.Health{Observed: true, Checked: 2}},
		{"it is deleted", func() { of["Deployment"].Deleted(deployment("9", 2)) }, targets.Health{Observed: true, Checked: 2, Unhealthy: 1, First: targets.Unhealthy{Key: keyOfObject(serve), Reason: "it does not exist"}}},
		{"it is made anew", func() { of["Deployment"].Updated(deployment("10", 2)) }, targets.Health{Observed: true, Checked: 2}},
		{"it is not listed after a gap", func() { of["Deployment"].Listed(nil) }, targets.Health{Observed: true, Checked: 2, Unhealthy: 1, First: targets.Unhealthy{Key: keyOfObject(serve), Reason: "it does not exist"}}},
		{"it is declared no more", func() { c.Require([]state.Item{{Key: keyOfObject(a)}}) }, targets.Health{Observed: true, Checked: 1}},
	}
	for _, s := range steps {
		s.do()
		if diff := cmp.Diff(s.want, c.Health()); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", s.name, diff)
		}
	}
}

func TestTheWatchReportsWhenTheHealthOfAllFlips(t *testing.T) {
	c, of := waiting(t)
	flips := make(chan struct{})
	go c.Watch(t.Context(), func() { flips <- struct{}{} })
	of["ConfigMap"].Updated(object("v1", "ConfigMap", "a", "1", nil))
	of["Deployment"].Updated(deployment("2", 2))
	<-flips
	of["Deployment"].Updated(deployment("3", 1))
	<-flips
	of["Deployment"].Updated(deployment("4", 0)) // As unhealthy as before.
	of["Deployment"].Updated(deployment("5", 2))
	<-flips
	if got := c.Health(); got.Unhealthy != 0 {
		t.Errorf("%+v", got)
	}
}

func TestASyncThatRequiresNothingKeepsNothing(t *testing.T) {
	c, of := waiting(t)
	of["Deployment"].Updated(deployment("2", 1))
	if err := c.Set(v1alpha1.HealthCheckSpec{}); err != nil {
		t.Fatal(err)
	}
	c.Require([]state.Item{{Key: keyOfObject(deployment("1", 1))}})
	of["Deployment"].Updated(deployment("3", 1))
	of["Deployment"].Deleted(deployment("4", 1))
	of["Deployment"].Listed(nil)
	if got := c.Health(); got != (targets.Health{}) || len(c.found)+len(c.required) > 0 {
		t.Errorf("%+v, %v, %v", got, c.found, c.required)
	}
}

func TestAnObjectIsCurrentWhereItsHealthIsOfThatVersion(t *testing.T) {
	live := deployment("5", 2)
	k := keyOfObject(live)
	for name, c := range map[string]struct {
		spec     v1alpha1.HealthCheckSpec
		requires bool
		observed bool
		want     bool
	}{
		"nothing has to be healthy":               {want: true},
		"the object need not be":                  {spec: v1alpha1.HealthCheckSpec{Wait: true}, want: true},
		"it has to be, and was not observed":      {spec: v1alpha1.HealthCheckSpec{Wait: true}, requires: true},
		"it has to be, and was observed as it is": {spec: v1alpha1.HealthCheckSpec{Wait: true}, requires: true, observed: true, want: true},
		"another version of it than was observed": {spec: v1alpha1.HealthCheckSpec{Wait: true}, requires: true, observed: true},
	} {
		t.Run(name, func(t *testing.T) {
			checker := New(Config{})
			if err := checker.Set(c.spec); err != nil {
				t.Fatal(err)
			}
			if c.requires {
				checker.Require([]state.Item{{Key: k}})
			}
			if c.observed {
				checker.Applied(k, live)
			}
			version := "5"
			if c.observed && !c.want {
				version = "6"
			}
			if got := checker.Current(k, version); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
