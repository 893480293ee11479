package planning

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func TestAPlanHasTheStateOfItsSync(t *testing.T) {
	stalled := func(reason string, is metav1.ConditionStatus) *v1alpha1.Sync {
		sync := &v1alpha1.Sync{}
		sync.Status.Conditions = []metav1.Condition{{Type: "Stalled", Status: is, Reason: reason}}
		return sync
	}
	suspended := stalled("NotFastForward", metav1.ConditionTrue)
	suspended.Spec.Suspend = true
	rolledBack := stalled("NotFastForward", metav1.ConditionTrue)
	rolledBack.Annotations = map[string]string{v1alpha1.RollbackAnnotation: "0123456789012345678901234567890123456789"}
	deleted := suspended.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for name, c := range map[string]struct {
		sync *v1alpha1.Sync
		want string
	}{
		"a new one":                      {&v1alpha1.Sync{}, ""},
		"being deleted, whatever else":   {deleted, "Terminating"},
		"suspended, whatever else":       {suspended, "Suspended"},
		"rolled back":                    {rolledBack, "RolledBack"},
		"its branch was moved":           {stalled("NotFastForward", metav1.ConditionTrue), "NotFastForward"},
		"its branch was put back":        {stalled("NotFastForward", metav1.ConditionFalse), ""},
		"beyond a limit":                 {stalled("LimitExceeded", metav1.ConditionTrue), "LimitExceeded"},
		"what waits is held in the plan": {stalled("PruneHeld", metav1.ConditionTrue), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := syncState(c.sync); got != c.want {
				t.Errorf("it is %q", got)
			}
		})
	}
}

func TestAConfirmationIsShownOnceTheControllerWaitsForIt(t *testing.T) {
	for name, c := range map[string]struct {
		waits, plan string
		want        bool
	}{
		"the same":                   {"a-1-aa,b-1-bb", "b-1-bb,a-1-aa", true},
		"one of them":                {"a-1-aa,b-1-bb", "b-1-bb", true},
		"more, before it is pushed":  {"a-1-aa", "a-1-aa,b-1-bb", false},
		"nothing waits yet":          {"", "a-1-aa", false},
		"nothing is to be confirmed": {"a-1-aa", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.Sync{}
			sync.Status.ConfirmationToken = c.waits
			if got := waitsFor(sync, c.plan); got != c.want {
				t.Errorf("shown: %t", got)
			}
		})
	}
}
