package aws

import (
	"fmt"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func newLogGroupLife(t *testing.T, adopt bool) *life {
	t.Helper()
	return newLife(t, logGroups{}, nil, v1alpha1.ClusterSpec{Logging: &v1alpha1.Logging{Adopt: adopt, RetentionDays: 30}})
}

func (l *life) createLogGroup(name string) {
	l.Helper()
	l.do(l.c.logs.CreateLogGroup(l.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name}))
}

const controlPlaneLogs = "/aws/eks/sandbox/cluster"

func TestALogGroupIsMadeOfNothingAndPutRightWhereItIsBroken(t *testing.T) {
	l := newLogGroupLife(t, false)
	l.settle()
	seen := l.see(l.wanted()[0])
	if !seen.ours || seen.tags[policyTag] != "Orphan" {
		t.Errorf("ours %v, tags %v", seen.ours, seen.tags)
	}
	if !strings.HasPrefix(seen.uid, "arn:aws:logs:us-east-1:000000000000:log-group:"+controlPlaneLogs+"#") || strings.HasSuffix(seen.uid, "#0") {
		t.Errorf("uid %s", seen.uid)
	}
	l.asks(map[string]int{"DescribeLogGroups": 1, "ListTagsForResource": 1})
	l.denied("logs", "DescribeLogGroups", "ListTagsForResource")
	name := sdk.String(controlPlaneLogs)
	l.broken("another retention", func() {
		l.do(l.c.logs.PutRetentionPolicy(t.Context(), &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: name, RetentionInDays: sdk.Int32(7)}))
	})
	l.broken("no retention", func() {
		l.do(l.c.logs.DeleteRetentionPolicy(t.Context(), &cloudwatchlogs.DeleteRetentionPolicyInput{LogGroupName: name}))
	})
	l.broken("a group that is gone", func() {
		l.do(l.c.logs.DeleteLogGroup(t.Context(), &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: name}))
	})
}

func TestALogGroupOfEKSIsNotOursAndKeepsItsTags(t *testing.T) {
	l := newLogGroupLife(t, false)
	l.createLogGroup(controlPlaneLogs)
	if seen := l.see(l.wanted()[0]); seen.ours || seen.object == nil {
		t.Errorf("ours %v, object %v", seen.ours, seen.object)
	}
	l.declare(func(c *v1alpha1.ClusterSpec) { c.Logging.Adopt = true })
	l.settle()
	if seen := l.see(l.wanted()[0]); seen.ours || len(seen.tags) > 0 {
		t.Errorf("after adoption: ours %v, tags %v", seen.ours, seen.tags)
	}
}

func TestALogGroupThatAppearsMeanwhileIsNotTakenForOurs(t *testing.T) {
	l := newLogGroupLife(t, false)
	l.createLogGroup(controlPlaneLogs)
	item := l.wanted()[0]
	if err := l.write(t.Context(), l.c, item, sighting{}); !exists(err) {
		t.Errorf("writing over it: %v", err)
	}
	if _, kept := l.see(item).object["retentionDays"]; kept {
		t.Error("its retention was set")
	}
}

func TestALogGroupSurvivesTheDeathOfItsMaker(t *testing.T) {
	survives(t, func(t *testing.T) *life { return newLogGroupLife(t, false) })
}

func TestALogGroupThatCloudWatchHasNotHeardOfYetIsWaitedFor(t *testing.T) {
	newLogGroupLife(t, false).late("logs", "PutRetentionPolicy")
}

func TestALogGroupIsFoundOnALaterPage(t *testing.T) {
	l := newLogGroupLife(t, false)
	for n := range 60 {
		// Each of them begins as ours and sorts before it would, were it longer.
		l.createLogGroup(fmt.Sprintf("%s-%02d", controlPlaneLogs, n))
	}
	l.settle()
	found, err := findLogGroup(t.Context(), l.c, controlPlaneLogs+"-59")
	if err != nil || found == nil {
		t.Errorf("the last of them: %v, %v", found, err)
	}
	l.declare(func(c *v1alpha1.ClusterSpec) { c.Name = "sand" })
	if group, err := findLogGroup(t.Context(), l.c, "/aws/eks/sand"); err != nil || group != nil {
		t.Errorf("one that only begins so: %v, %v", group, err)
	}
}

func TestALogGroupIsNeverDeleted(t *testing.T) {
	l := newLogGroupLife(t, false)
	l.settle()
	item := l.wanted()[0]
	if err := l.remove(t.Context(), l.c, item.Key, l.see(item)); err == nil {
		t.Error("it was removed")
	}
	if l.see(item).object == nil {
		t.Error("it is gone")
	}
}
