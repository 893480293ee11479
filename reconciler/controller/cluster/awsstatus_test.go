package cluster

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
)

func awsStatus(cluster string, second int64, differences, unknown int) aws.Status {
	s := aws.Status{Cluster: cluster}
	if second > 0 {
		s.AWS.ObservedAt = metav1.Unix(second, 0)
	}
	for range differences {
		s.AWS.Differences = append(s.AWS.Differences, v1alpha1.Difference{Resource: "Queue.sqs/q", Message: "retention differs"})
	}
	for range unknown {
		s.AWS.Unknown = append(s.AWS.Unknown, v1alpha1.UnknownResource{Resource: "Role.iam/r", Reason: "denied", Since: metav1.NewTime(time.Unix(0, 0))})
	}
	return s
}

func report(n *AWSStatuses, sync string, s aws.Status) { n.Report(sync, s.Cluster, s.AWS) }

func TestPendingStatusOfOneSyncDoesNotHideThatOfAnother(t *testing.T) {
	n := newAWSStatuses()
	c := reconcilertest.Cluster(nil)
	now := func() string {
		n.setOn(c)
		if got := meta.FindStatusCondition(c.Status.Conditions, "AWSInSync"); got != nil && c.Status.AWS != nil {
			return got.Reason
		}
		return ""
	}
	for i, step := range []struct {
		events func()
		want   string
	}{
		{func() { report(n, "other", awsStatus("", 0, 0, 0)) }, ""},
		{func() { report(n, "dev", awsStatus(c.Name, 1, 1, 0)) }, "Drifted"},
		{func() { report(n, "apps", awsStatus("elsewhere", 2, 0, 0)) }, "Drifted"},
		{func() { report(n, "other", awsStatus(c.Name, 0, 0, 0)) }, "Drifted"},
		{func() { report(n, "dev", awsStatus(c.Name, 3, 0, 0)) }, "InSync"},
		{func() { report(n, "second", awsStatus(c.Name, 4, 0, 1)) }, "PartlyUnknown"},
		{func() { n.drop("second") }, "InSync"},
		{func() { n.drop("dev") }, ""},
	} {
		step.events()
		if got := now(); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

func TestTheConditionCountsBothSidesAndAdmitsItsLimit(t *testing.T) {
	for name, c := range map[string]struct {
		differences, unknown int
		reason               string
		want                 string
	}{
		"all as declared":           {0, 0, "InSync", "all declared resources are in sync"},
		"one unknown":               {0, 1, "PartlyUnknown", "1 resource not readable since"},
		"as many as can be":         {0, 50, "PartlyUnknown", "at least 50 resources not readable since"},
		"one different":             {1, 0, "Drifted", "1 resource drifted, the first: Queue.sqs/q: retention differs"},
		"both":                      {2, 3, "Drifted", "2 resources drifted, 3 resources unknown, the first: Queue"},
		"more than can be reported": {50, 50, "Drifted", "at least 50 resources drifted, at least 50 resources unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			s := awsStatus("c", 1, c.differences, c.unknown).AWS
			if got := awsCondition(&s); got.Reason != c.reason || !strings.HasPrefix(got.Message, c.want) {
				t.Errorf("%s: %s", got.Reason, got.Message)
			}
		})
	}
}

// A Sync may be deleted before it looks at AWS: it was suspended, or its repository is
// out of reach, since this process began or another one leads.
func TestADeletedSyncRemovesWhatAnEarlierOneReported(t *testing.T) {
	for name, c := range map[string]struct {
		label    string
		reported func(*AWSStatuses)
		want     string
	}{
		"nothing was reported yet":          {"dev", func(*AWSStatuses) {}, ""},
		"it reported something else itself": {"dev", func(n *AWSStatuses) { report(n, "dev", awsStatus("before", 1, 1, 0)) }, ""},
		"another one reported the Cluster":  {"dev", func(n *AWSStatuses) { report(n, "other", awsStatus("cluster", 3, 1, 0)) }, "Drifted"},
		"the Cluster is another one's":      {"other", func(*AWSStatuses) {}, "InSync"},
	} {
		t.Run(name, func(t *testing.T) {
			live := reconcilertest.Cluster(func(e *v1alpha1.Cluster) {
				e.Labels = map[string]string{v1alpha1.SyncLabel: c.label}
				before := newAWSStatuses()
				report(before, "dev", awsStatus(e.Name, 2, 0, 0))
				before.setOn(e)
			})
			s := New(Config{Live: reconcilertest.Client(t, live)}, Desired{}, time.Time{})
			c.reported(s.AWS)
			if err := s.RemoveAWSStatus(t.Context(), "dev"); err != nil {
				t.Fatal(err)
			}
			s.AWS.setOn(live)
			got := ""
			if condition := meta.FindStatusCondition(live.Status.Conditions, "AWSInSync"); condition != nil {
				got = condition.Reason
			}
			if got != c.want || (live.Status.AWS != nil) != (c.want != "") {
				t.Errorf("AWSInSync is %q, want %q; status %+v", got, c.want, live.Status.AWS)
			}
			if len(s.AWS.changed) == 0 {
				t.Error("nobody is woken to write it")
			}
		})
	}
}
