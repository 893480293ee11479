package aws

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// What AWS answered, and what somebody wrote into a field there, may hold a token or move a terminal's cursor.
func TestTheStatusOfAWSIsSanitized(t *testing.T) {
	const hostile, clean = "x\x1b[2K ghp_0123456789abcdefABCDEF", `x\x1b[2K (masked)`
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	queue, role := state.Key{Target: "aws", Group: "sqs", Kind: "Queue", Name: "q"}, state.Key{Target: "aws", Group: "iam", Kind: "Role", Name: "r"}
	reporter := newStatusReporter(clocktesting.NewFakeClock(now))
	reporter.observed(desiredState{object: "dev"}, plan.Plan{
		Changes: []plan.Change{{Key: queue, Action: plan.Update, Fields: []plan.FieldChange{{Path: "policy", Before: hostile, After: "y"}}}},
		Unknown: []plan.Unknown{{Key: role, Reason: hostile}},
	}, map[state.Key]resource.Live{queue: {}}, true)
	got, ok := reporter.next()
	want := v1alpha1.AWSStatus{
		ObservedAt:  metav1.Time{Time: now},
		Differences: []v1alpha1.Difference{{Resource: queue.String(), Message: "policy is " + clean + ", declared is y"}},
		Unknown:     []v1alpha1.UnknownResource{{Resource: role.String(), Reason: clean, Since: metav1.NewTime(now)}},
	}
	if d := cmp.Diff(want, got.AWS); d != "" || !ok {
		t.Errorf("reported %v (-want +got):\n%s", ok, d)
	}
}
