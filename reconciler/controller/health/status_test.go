package health

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAConditionIsAsBeforeWheneverItWasSet(t *testing.T) {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Forbidden", Message: "a"}
	for name, tt := range map[string]struct {
		change func(*metav1.Condition)
		same   bool
	}{
		"nothing":          {func(*metav1.Condition) {}, true},
		"its time":         {func(c *metav1.Condition) { c.LastTransitionTime = metav1.NewTime(time.Unix(1, 0)) }, true},
		"its generation":   {func(c *metav1.Condition) { c.ObservedGeneration = 2 }, true},
		"its status":       {func(c *metav1.Condition) { c.Status = metav1.ConditionTrue }, false},
		"its reason":       {func(c *metav1.Condition) { c.Reason = "Throttled" }, false},
		"its message":      {func(c *metav1.Condition) { c.Message = "b" }, false},
		"all but its type": {func(c *metav1.Condition) { *c = metav1.Condition{Type: c.Type} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := ready
			tt.change(&changed)
			if got := SameState(&ready, &changed); got != tt.same {
				t.Errorf("%t: %+v", got, changed)
			}
		})
	}
	if SameState(nil, &ready) || SameState(&ready, nil) || !SameState(nil, nil) {
		t.Error("a condition that is new or gone is as before")
	}
}
