package logs

import (
	"fmt"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

func newLogGroupLife(t *testing.T, adopt bool) *kindtest.Fixture {
	t.Helper()
	return kindtest.NewFixture(t, LogGroups{}, nil, v1alpha1.ClusterSpec{Logging: &v1alpha1.Logging{Adopt: adopt, RetentionDays: 30}})
}

func createLogGroup(l *kindtest.Fixture, name string) {
	l.Helper()
	l.Do(l.Clients.Logs.CreateLogGroup(l.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name}))
}

const controlPlaneLogs = "/aws/eks/sandbox/cluster"

func TestALogGroupIsMadeOfNothingAndPutRightWhereItIsBroken(t *testing.T) {
	l := newLogGroupLife(t, true)
	l.Change(func(c *v1alpha1.ClusterSpec) { c.Tags = map[string]string{"team": "ml"} })
	l.Converge()
	observed := l.ReadOne(l.Items()[0])
	if diff := cmp.Diff(map[string]string{"team": "ml", tag.Cluster: "us-east-1/sandbox"}, observed.Tags); diff != "" || !observed.Ours {
		t.Errorf("ours %v, tags (-want +got):\n%s", observed.Ours, diff)
	}
	if !strings.HasPrefix(observed.UID, "arn:aws:logs:us-east-1:000000000000:log-group:"+controlPlaneLogs+"#") || strings.HasSuffix(observed.UID, "#0") {
		t.Errorf("uid %s", observed.UID)
	}
	l.Requests(map[string]int{"DescribeLogGroups": 1, "ListTagsForResource": 1})
	l.Deny("logs", "DescribeLogGroups", "ListTagsForResource")
	name := sdk.String(controlPlaneLogs)
	l.Break("another retention", func() {
		l.Do(l.Clients.Logs.PutRetentionPolicy(t.Context(), &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: name, RetentionInDays: sdk.Int32(7)}))
	})
	l.Break("no retention", func() {
		l.Do(l.Clients.Logs.DeleteRetentionPolicy(t.Context(), &cloudwatchlogs.DeleteRetentionPolicyInput{LogGroupName: name}))
	})
	l.Break("a group that is gone", func() {
		l.Do(l.Clients.Logs.DeleteLogGroup(t.Context(), &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: name}))
	})
}

func TestALogGroupOfEKSIsNotOursAndKeepsItsTags(t *testing.T) {
	l := newLogGroupLife(t, false)
	createLogGroup(l, controlPlaneLogs)
	arn := l.Clients.Scope.ARN("logs", "log-group:"+controlPlaneLogs)
	l.Do(l.Clients.Logs.TagResource(t.Context(), &cloudwatchlogs.TagResourceInput{ResourceArn: &arn, Tags: map[string]string{"owner": "eks"}}))
	if observed := l.ReadOne(l.Items()[0]); observed.Ours || observed.Object == nil {
		t.Errorf("ours %v, object %v", observed.Ours, observed.Object)
	}
	l.Change(func(c *v1alpha1.ClusterSpec) { c.Logging.Adopt = true })
	l.Converge()
	observed := l.ReadOne(l.Items()[0])
	if diff := cmp.Diff(map[string]string{"owner": "eks", tag.Cluster: "us-east-1/sandbox"}, observed.Tags); diff != "" || !observed.Ours {
		t.Errorf("after adoption: ours %v, tags (-want +got):\n%s", observed.Ours, diff)
	}
	l.Break("a missing tag", func() {
		l.Do(l.Clients.Logs.UntagResource(t.Context(), &cloudwatchlogs.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{tag.Cluster}}))
	})
}

func TestALogGroupThatAppearsMeanwhileIsNotTakenForOurs(t *testing.T) {
	l := newLogGroupLife(t, true)
	createLogGroup(l, controlPlaneLogs)
	item := l.Items()[0]
	if err := l.Write(t.Context(), l.Clients, item, resource.Live{}); !awserr.Exists(err) {
		t.Errorf("writing over it: %v", err)
	}
	if _, kept := l.ReadOne(item).Object["retentionDays"]; kept {
		t.Error("its retention was set")
	}
}

func TestALogGroupSurvivesACrashDuringItsCreation(t *testing.T) {
	kindtest.Survives(t, func(t *testing.T) *kindtest.Fixture { return newLogGroupLife(t, true) })
}

func TestALogGroupThatCloudWatchDoesNotFindYetIsWaitedFor(t *testing.T) {
	newLogGroupLife(t, true).Delay("logs", "PutRetentionPolicy")
}

func TestALogGroupIsFoundOnALaterPage(t *testing.T) {
	l := newLogGroupLife(t, true)
	for n := range 60 {
		// Each of them begins as ours and sorts before it would, were it longer.
		createLogGroup(l, fmt.Sprintf("%s-%02d", controlPlaneLogs, n))
	}
	l.Converge()
	found, err := findLogGroup(t.Context(), l.Clients, controlPlaneLogs+"-59")
	if err != nil || found == nil {
		t.Errorf("the last of them: %v, %v", found, err)
	}
	l.Change(func(c *v1alpha1.ClusterSpec) { c.Name = "sand" })
	if group, err := findLogGroup(t.Context(), l.Clients, "/aws/eks/sand"); err != nil || group != nil {
		t.Errorf("one that only begins so: %v, %v", group, err)
	}
}

func TestALogGroupIsNeverDeleted(t *testing.T) {
	l := newLogGroupLife(t, true)
	l.Converge()
	item := l.Items()[0]
	if err := l.Remove(t.Context(), l.Clients, item.Key, l.ReadOne(item)); err == nil {
		t.Error("it was removed")
	}
	if l.ReadOne(item).Object == nil {
		t.Error("it is gone")
	}
}
