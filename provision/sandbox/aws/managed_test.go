package aws_test

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// around is what a reader sees of a rule, a log group and a quota.
type around struct {
	Targets, Rules, RuleTags, Groups, GroupTags int
	State                                       string
	Quota                                       float64
}

func (w *fixture) around(t *testing.T) (out around) {
	t.Helper()
	ctx, name := t.Context(), sdk.String(spotRule)
	rule, err := w.bridge().DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: name})
	ok(t, err)
	targets, err := w.bridge().ListTargetsByRule(ctx, &eventbridge.ListTargetsByRuleInput{Rule: name})
	ok(t, err)
	rules, err := w.bridge().ListRules(ctx, &eventbridge.ListRulesInput{})
	ok(t, err)
	tags, err := w.bridge().ListTagsForResource(ctx, &eventbridge.ListTagsForResourceInput{ResourceARN: rule.Arn})
	ok(t, err)
	groups, err := w.logGroups().DescribeLogGroups(ctx, &cloudwatchlogs.DescribeLogGroupsInput{})
	ok(t, err)
	groupTags, err := w.logGroups().ListTagsForResource(ctx, &cloudwatchlogs.ListTagsForResourceInput{ResourceArn: groups.LogGroups[0].LogGroupArn})
	ok(t, err)
	return around{len(targets.Targets), len(rules.Rules), len(tags.Tags), len(groups.LogGroups), len(groupTags.Tags), string(rule.State), *w.quotas(t)[gpuSpot].Value}
}

func TestStaleReadsShowNothingOfWhatCameAfterThem(t *testing.T) {
	w, ctx, s := newFixture(t, nil), t.Context(), sdk.String
	ok(t, drop(w.logGroups().CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: s("a")})))
	before := w.around(t)
	remove, err := w.cloud.Inject(sandboxaws.Fault{Stale: true})
	ok(t, err)
	ruleARN := "arn:aws:events:us-east-1:000000000000:rule/" + spotRule
	ok(t, drop(w.bridge().PutRule(ctx, &eventbridge.PutRuleInput{Name: s("more"), EventPattern: s(spotPattern)})))
	ok(t, drop(w.bridge().DisableRule(ctx, &eventbridge.DisableRuleInput{Name: s(spotRule)})))
	ok(t, drop(w.bridge().PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: s(spotRule), Targets: []types.Target{{Id: s("more"), Arn: s(queueARN)}}})))
	ok(t, drop(w.bridge().TagResource(ctx, &eventbridge.TagResourceInput{ResourceARN: &ruleARN, Tags: []types.Tag{{Key: s("a"), Value: s("b")}}})))
	ok(t, drop(w.logGroups().TagResource(ctx, &cloudwatchlogs.TagResourceInput{ResourceArn: s("arn:aws:logs:us-east-1:000000000000:log-group:a"), Tags: map[string]string{"a": "b"}})))
	ok(t, drop(w.logGroups().CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: s("b")})))
	ok(t, w.cloud.SetQuota(gpuSpot, 7))
	if diff := cmp.Diff(before, w.around(t)); diff != "" {
		t.Errorf("stale (-want +got):\n%s", diff)
	}
	remove()
	if diff := cmp.Diff(around{Targets: 2, Rules: 6, RuleTags: 1, Groups: 2, GroupTags: 1, State: "DISABLED", Quota: 7}, w.around(t)); diff != "" {
		t.Errorf("present (-want +got):\n%s", diff)
	}
}
