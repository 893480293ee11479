package aws_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

const clusterLogs = "/aws/eks/sandbox/cluster"

func (w *fixture) logGroups() *cloudwatchlogs.Client { return cloudwatchlogs.NewFromConfig(w.cfg) }

func TestALogGroupKeepsItsRetentionAndTags(t *testing.T) {
	w, ctx, name := newFixture(t, nil), t.Context(), sdk.String(clusterLogs)
	l := w.logGroups()
	show := func() (days int32) {
		t.Helper()
		out, err := l.DescribeLogGroups(ctx, &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: name})
		ok(t, err)
		if len(out.LogGroups) != 1 {
			t.Fatalf("%d groups", len(out.LogGroups))
		}
		g := out.LogGroups[0]
		arn := "arn:aws:logs:us-east-1:000000000000:log-group:" + clusterLogs
		if *g.LogGroupArn != arn || *g.Arn != arn+":*" || *g.CreationTime != w.clock.Now().UnixMilli() || *g.StoredBytes != 0 || g.LogGroupClass != "STANDARD" {
			t.Errorf("group %+v", g)
		}
		if g.RetentionInDays == nil {
			return 0
		}
		return *g.RetentionInDays
	}
	ok(t, drop(l.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: name, Tags: map[string]string{"a": "1", "b": "2"}})))
	wantCode(t, drop(l.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: name})), "ResourceAlreadyExistsException")
	if days := show(); days != 0 {
		t.Errorf("a new group is kept %d days", days)
	}
	ok(t, drop(l.PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: name, RetentionInDays: sdk.Int32(30)})))
	wantCode(t, drop(l.PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: name, RetentionInDays: sdk.Int32(31)})), "InvalidParameterException")
	if days := show(); days != 30 {
		t.Errorf("kept %d days, want 30", days)
	}
	ok(t, drop(l.DeleteRetentionPolicy(ctx, &cloudwatchlogs.DeleteRetentionPolicyInput{LogGroupName: name})))
	if days := show(); days != 0 {
		t.Errorf("without a policy kept %d days", days)
	}
	arn := sdk.String("arn:aws:logs:us-east-1:000000000000:log-group:" + clusterLogs)
	ok(t, drop(l.TagResource(ctx, &cloudwatchlogs.TagResourceInput{ResourceArn: arn, Tags: map[string]string{"b": "3", "c": ""}})))
	ok(t, drop(l.UntagResource(ctx, &cloudwatchlogs.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"a"}})))
	tags, err := l.ListTagsForResource(ctx, &cloudwatchlogs.ListTagsForResourceInput{ResourceArn: arn})
	ok(t, err)
	if diff := cmp.Diff(map[string]string{"b": "3", "c": ""}, tags.Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	ok(t, drop(l.DeleteLogGroup(ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: name})))
	wantCode(t, drop(l.DeleteLogGroup(ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: name})), "ResourceNotFoundException")
}

func TestEKSMakesTheLogGroupWhenLoggingBegins(t *testing.T) {
	w := newFixture(t, func(c *sandboxaws.Config) {
		slowUpdates(c)
		c.Cluster.Logging = nil
	})
	ctx, name := t.Context(), sdk.String(clusterLogs)
	groups := func() []logstypes.LogGroup {
		t.Helper()
		out, err := w.logGroups().DescribeLogGroups(ctx, &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: name})
		ok(t, err)
		return out.LogGroups
	}
	ok(t, drop(w.logs(ctx, []ekstypes.LogType{"api"}, nil)))
	if got := groups(); len(got) > 0 {
		t.Errorf("while EKS is at it: %+v", got)
	}
	w.clock.advance(time.Minute)
	if got := groups(); len(got) != 1 || got[0].RetentionInDays != nil {
		t.Errorf("groups %+v", got)
	}
	ok(t, drop(w.logGroups().PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: name, RetentionInDays: sdk.Int32(7)})))
	ok(t, drop(w.logs(ctx, []ekstypes.LogType{"audit"}, nil)))
	w.clock.advance(time.Minute)
	if got := groups(); len(got) != 1 || sdk.ToInt32(got[0].RetentionInDays) != 7 {
		t.Errorf("with another type on: %+v", got)
	}
}

func TestLogGroupsAreListedInPages(t *testing.T) {
	w := newFixture(t, nil)
	for _, n := range []int{3, 1, 2} {
		ok(t, drop(w.logGroups().CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: sdk.String(fmt.Sprintf("/aws/eks/%d", n))})))
	}
	ok(t, drop(w.logGroups().CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: sdk.String("/aws/lambda/x")})))
	var names []string
	turns := 0
	pages := cloudwatchlogs.NewDescribeLogGroupsPaginator(w.logGroups(), &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: sdk.String("/aws/eks/"), Limit: sdk.Int32(2)})
	for ; pages.HasMorePages(); turns++ {
		page, err := pages.NextPage(t.Context())
		ok(t, err)
		for _, g := range page.LogGroups {
			names = append(names, *g.LogGroupName)
		}
	}
	if turns != 2 || !slices.Equal(names, []string{"/aws/eks/1", "/aws/eks/2", "/aws/eks/3"}) {
		t.Errorf("%d pages with %q", turns, names)
	}
}

func TestCloudWatchLogsRefuses(t *testing.T) {
	s, ctx := sdk.String, t.Context()
	l := newFixture(t, nil).logGroups()
	for name, tt := range map[string]struct {
		err  error
		code string
	}{
		"a group with blanks in its name":        {drop(l.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: s("a b")})), "InvalidParameterException"},
		"a tag of AWS's own":                     {drop(l.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: s("a"), Tags: map[string]string{"aws:a": ""}})), "InvalidParameterException"},
		"a key, which is not emulated":           {drop(l.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: s("a"), KmsKeyId: s("k")})), "ValidationException"},
		"a retention of a group that is gone":    {drop(l.PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: s("a"), RetentionInDays: sdk.Int32(1)})), "ResourceNotFoundException"},
		"no retention of a group that is gone":   {drop(l.DeleteRetentionPolicy(ctx, &cloudwatchlogs.DeleteRetentionPolicyInput{LogGroupName: s("a")})), "ResourceNotFoundException"},
		"a list that is too long":                {drop(l.DescribeLogGroups(ctx, &cloudwatchlogs.DescribeLogGroupsInput{Limit: sdk.Int32(51)})), "InvalidParameterException"},
		"a page that nobody gave":                {drop(l.DescribeLogGroups(ctx, &cloudwatchlogs.DescribeLogGroupsInput{NextToken: s("x")})), "InvalidParameterException"},
		"tags of a group that is gone":           {drop(l.ListTagsForResource(ctx, &cloudwatchlogs.ListTagsForResourceInput{ResourceArn: s("arn:aws:logs:us-east-1:000000000000:log-group:a")})), "ResourceNotFoundException"},
		"tags by the ARN that ends with a colon": {drop(l.ListTagsForResource(ctx, &cloudwatchlogs.ListTagsForResourceInput{ResourceArn: s("arn:aws:logs:us-east-1:000000000000:log-group:a:*")})), "InvalidParameterException"},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, tt.err, tt.code) })
	}
}

func TestFaultsAndTheJournalCoverAllServices(t *testing.T) {
	w := newFixture(t, nil)
	_, err := w.cloud.Inject(sandboxaws.Fault{Service: "logs", Throttle: true, Times: 1})
	ok(t, err)
	_, err = w.cloud.Inject(sandboxaws.Fault{Service: "events", Operation: "PutTargets", Code: "ConcurrentModificationException", Match: spotRule, Lost: true, Times: 1})
	ok(t, err)
	remove, err := w.cloud.Inject(sandboxaws.Fault{Service: "logs", Stale: true})
	ok(t, err)
	name := sdk.String(clusterLogs)
	wantCode(t, drop(w.logGroups().CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: name})), "ThrottlingException")
	ok(t, drop(w.logGroups().CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: name})))
	count := func() int {
		t.Helper()
		out, err := w.logGroups().DescribeLogGroups(t.Context(), &cloudwatchlogs.DescribeLogGroupsInput{})
		ok(t, err)
		return len(out.LogGroups)
	}
	if n := count(); n != 0 {
		t.Errorf("a stale list shows %d groups", n)
	}
	remove()
	if n := count(); n != 1 {
		t.Errorf("the list shows %d groups", n)
	}
	calls := w.cloud.Calls()
	got := calls[len(calls)-3] // before both lists
	want := sandboxaws.Call{ID: got.ID, Time: w.clock.Now(), Service: "logs", Operation: "CreateLogGroup", Key: "EMULATED", Params: `{"logGroupName":"` + clusterLogs + `"}`, Done: true, Authorizations: got.Authorizations}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("call (-want +got):\n%s", diff)
	}
	put := &eventbridge.PutTargetsInput{Rule: sdk.String(spotRule), Targets: []types.Target{{Id: sdk.String("lost"), Arn: sdk.String(queueARN)}}}
	wantCode(t, drop(w.bridge().PutTargets(t.Context(), put)), "ConcurrentModificationException")
	left, err := w.bridge().ListTargetsByRule(t.Context(), &eventbridge.ListTargetsByRuleInput{Rule: sdk.String(spotRule)})
	ok(t, err)
	if len(left.Targets) != 2 {
		t.Errorf("the answer was lost, and so was its effect: %d targets", len(left.Targets))
	}
}
