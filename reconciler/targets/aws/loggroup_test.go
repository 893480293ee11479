package aws

import (
	"fmt"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/google/go-cmp/cmp"

	sandbox "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
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
	l := newLogGroupLife(t, true)
	l.declare(func(c *v1alpha1.ClusterSpec) { c.Tags = map[string]string{"team": "ml"} })
	l.settle()
	seen := l.see(l.wanted()[0])
	if diff := cmp.Diff(map[string]string{"team": "ml", clusterTag: "us-east-1/sandbox"}, seen.tags); diff != "" || !seen.ours {
		t.Errorf("ours %v, tags (-want +got):\n%s", seen.ours, diff)
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
	arn := l.c.place.arn("logs", "log-group:"+controlPlaneLogs)
	l.do(l.c.logs.TagResource(t.Context(), &cloudwatchlogs.TagResourceInput{ResourceArn: &arn, Tags: map[string]string{"owner": "eks"}}))
	if seen := l.see(l.wanted()[0]); seen.ours || seen.object == nil {
		t.Errorf("ours %v, object %v", seen.ours, seen.object)
	}
	l.declare(func(c *v1alpha1.ClusterSpec) { c.Logging.Adopt = true })
	l.settle()
	seen := l.see(l.wanted()[0])
	if diff := cmp.Diff(map[string]string{"owner": "eks", clusterTag: "us-east-1/sandbox"}, seen.tags); diff != "" || !seen.ours {
		t.Errorf("after adoption: ours %v, tags (-want +got):\n%s", seen.ours, diff)
	}
	l.broken("a missing tag", func() {
		l.do(l.c.logs.UntagResource(t.Context(), &cloudwatchlogs.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{clusterTag}}))
	})
}

func TestWithoutAdoptALogGroupIsNeitherMadeNorChanged(t *testing.T) {
	for name, is := range map[string]bool{"where there is none": false, "where EKS made one": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *sandbox.Config) {
				if is {
					c.Cluster.Logging = []string{"api"}
				}
			})
			logs := func(adopt bool) state.Set {
				return b.declare(func(s *v1alpha1.ClusterSpec) { s.Logging = &v1alpha1.Logging{Adopt: adopt, RetentionDays: 30} })
			}
			p := b.reconcile(logs(false))
			if len(p.Changes) != 1 || !p.Changes[0].Standing() || !strings.Contains(p.Changes[0].Hold.String(), "set adopt: true in spec.logging") {
				t.Errorf("without adopt:\n%s", show(p))
			}
			if got := b.writes(); len(got) > 0 {
				t.Errorf("it wrote %v", got)
			}
			b.reconcile(logs(true))
			b.settled(logs(true))
		})
	}
}

func TestALogGroupThatAppearsMeanwhileIsNotTakenForOurs(t *testing.T) {
	l := newLogGroupLife(t, true)
	l.createLogGroup(controlPlaneLogs)
	item := l.wanted()[0]
	if err := l.write(t.Context(), l.c, item, liveResource{}); !exists(err) {
		t.Errorf("writing over it: %v", err)
	}
	if _, kept := l.see(item).object["retentionDays"]; kept {
		t.Error("its retention was set")
	}
}

func TestALogGroupSurvivesTheDeathOfItsMaker(t *testing.T) {
	survives(t, func(t *testing.T) *life { return newLogGroupLife(t, true) })
}

func TestALogGroupThatCloudWatchHasNotHeardOfYetIsWaitedFor(t *testing.T) {
	newLogGroupLife(t, true).late("logs", "PutRetentionPolicy")
}

func TestALogGroupIsFoundOnALaterPage(t *testing.T) {
	l := newLogGroupLife(t, true)
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
	l := newLogGroupLife(t, true)
	l.settle()
	item := l.wanted()[0]
	if err := l.remove(t.Context(), l.c, item.Key, l.see(item)); err == nil {
		t.Error("it was removed")
	}
	if l.see(item).object == nil {
		t.Error("it is gone")
	}
}
