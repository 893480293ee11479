package aws_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const (
	queueARN    = "arn:aws:sqs:us-east-1:000000000000:sandbox"
	spotRule    = "Karpenter-sandbox-SpotInterruptionRule"
	spotPattern = `{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"]}`
)

func (w *fixture) bridge() *eventbridge.Client { return eventbridge.NewFromConfig(w.cfg) }

func TestTheAccountBeginsWithKarpentersRules(t *testing.T) {
	w := newFixture(t, nil)
	out, err := w.bridge().ListRules(t.Context(), &eventbridge.ListRulesInput{NamePrefix: sdk.String("Karpenter-sandbox-")})
	ok(t, err)
	var kinds []string
	for _, r := range out.Rules {
		var p struct {
			Source     []string
			DetailType []string `json:"detail-type"`
		}
		ok(t, json.Unmarshal([]byte(*r.EventPattern), &p))
		kinds = append(kinds, p.Source[0]+": "+p.DetailType[0])
		targets, err := w.bridge().ListTargetsByRule(t.Context(), &eventbridge.ListTargetsByRuleInput{Rule: r.Name})
		ok(t, err)
		if len(targets.Targets) != 1 || *targets.Targets[0].Arn != queueARN || r.State != "ENABLED" || *r.Arn != "arn:aws:events:us-east-1:000000000000:rule/"+*r.Name {
			t.Errorf("rule %s leads to %+v", *r.Arn, targets.Targets)
		}
	}
	want := []string{"aws.ec2: EC2 Capacity Reservation Instance Interruption Warning", "aws.ec2: EC2 Instance State-change Notification",
		"aws.ec2: EC2 Instance Rebalance Recommendation", "aws.health: AWS Health Event", "aws.ec2: EC2 Spot Instance Interruption Warning"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	names, err := w.bridge().ListRuleNamesByTarget(t.Context(), &eventbridge.ListRuleNamesByTargetInput{TargetArn: sdk.String(queueARN)})
	ok(t, err)
	if len(names.RuleNames) != 5 {
		t.Errorf("%q lead to the queue", names.RuleNames)
	}
	empty := newFixture(t, queueless)
	none, err := empty.bridge().ListRules(t.Context(), &eventbridge.ListRulesInput{})
	ok(t, err)
	if len(none.Rules) != 0 {
		t.Errorf("without queues there are %d rules", len(none.Rules))
	}
}

func TestWhatPutRuleOmitsIsRemoved(t *testing.T) {
	w, ctx, s := newFixture(t, queueless), t.Context(), sdk.String
	const role = "arn:aws:iam::000000000000:role/events"
	put := func(in eventbridge.PutRuleInput) *eventbridge.DescribeRuleOutput {
		t.Helper()
		in.Name, in.EventPattern = s("r"), s(spotPattern)
		ok(t, drop(w.bridge().PutRule(ctx, &in)))
		out, err := w.bridge().DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: s("r")})
		ok(t, err)
		return out
	}
	if r := put(eventbridge.PutRuleInput{RoleArn: s(role), ScheduleExpression: s("rate(1 minute)")}); *r.RoleArn != role || *r.ScheduleExpression != "rate(1 minute)" {
		t.Errorf("as it was put: %+v", r)
	}
	requested := w.cloud.Calls()[0].Authorizations
	if last := requested[len(requested)-1]; last.Action != "iam:PassRole" || last.Resource != role {
		t.Errorf("asked %+v", requested)
	}
	if r := put(eventbridge.PutRuleInput{}); r.RoleArn != nil || r.ScheduleExpression != nil {
		t.Errorf("put again: %+v", r)
	}
}

func TestARuleIsReplacedButForItsTagsAndTargets(t *testing.T) {
	w, ctx, s := newFixture(t, queueless), t.Context(), sdk.String
	e := w.bridge()
	pairs := func(k, v string) []types.Tag { return []types.Tag{{Key: &k, Value: &v}} }
	made, err := e.PutRule(ctx, &eventbridge.PutRuleInput{Name: s("r"), EventPattern: s(spotPattern), Description: s("why"), State: "DISABLED", Tags: pairs("a", "1")})
	ok(t, err)
	ok(t, drop(e.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: s("r"), Targets: []types.Target{{Id: s("q"), Arn: s(queueARN)}}})))
	show := func() *eventbridge.DescribeRuleOutput {
		t.Helper()
		out, err := e.DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: s("r"), EventBusName: s("default")})
		ok(t, err)
		return out
	}
	if r := show(); r.State != "DISABLED" || *r.Description != "why" || *r.EventPattern != spotPattern || *r.EventBusName != "default" || *r.Arn != *made.RuleArn {
		t.Errorf("as it was made: %+v", r)
	}
	ok(t, drop(e.PutRule(ctx, &eventbridge.PutRuleInput{Name: s("r"), EventPattern: s(`{"source": ["x"]}`), Tags: pairs("a", "2")})))
	if r := show(); r.State != "ENABLED" || r.Description != nil || *r.EventPattern != `{"source": ["x"]}` {
		t.Errorf("as it was replaced: %+v", r)
	}
	tags := func() map[string]string {
		t.Helper()
		out, err := e.ListTagsForResource(ctx, &eventbridge.ListTagsForResourceInput{ResourceARN: made.RuleArn})
		ok(t, err)
		got := map[string]string{}
		for _, p := range out.Tags {
			got[*p.Key] = *p.Value
		}
		return got
	}
	if diff := cmp.Diff(map[string]string{"a": "1"}, tags()); diff != "" {
		t.Errorf("tags of a rule that was there count (-want +got):\n%s", diff)
	}
	ok(t, drop(e.TagResource(ctx, &eventbridge.TagResourceInput{ResourceARN: made.RuleArn, Tags: append(pairs("a", "3"), pairs("b", "")...)})))
	ok(t, drop(e.UntagResource(ctx, &eventbridge.UntagResourceInput{ResourceARN: made.RuleArn, TagKeys: []string{"b", "c"}})))
	if diff := cmp.Diff(map[string]string{"a": "3"}, tags()); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	ok(t, drop(e.DisableRule(ctx, &eventbridge.DisableRuleInput{Name: s("r")})))
	if r := show(); r.State != "DISABLED" {
		t.Errorf("disabled, it is %s", r.State)
	}
	ok(t, drop(e.EnableRule(ctx, &eventbridge.EnableRuleInput{Name: s("r")})))
	if r := show(); r.State != "ENABLED" {
		t.Errorf("enabled, it is %s", r.State)
	}
	wantCode(t, drop(e.DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: s("r")})), "ValidationException")
	ok(t, drop(e.RemoveTargets(ctx, &eventbridge.RemoveTargetsInput{Rule: s("r"), Ids: []string{"q"}})))
	ok(t, drop(e.DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: s("r")})))
	ok(t, drop(e.DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: s("r")})))
	wantCode(t, drop(e.DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: s("r")})), "ResourceNotFoundException")
}

func TestTargetsFailOneByOne(t *testing.T) {
	w, ctx, s := newFixture(t, nil), t.Context(), sdk.String
	e := w.bridge()
	put, err := e.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: s(spotRule), Targets: []types.Target{
		{Id: s("good"), Arn: s(queueARN + "-2")}, {Id: s("bad-arn"), Arn: s("sandbox")},
		{Id: s("bad-input"), Arn: s(queueARN), Input: s("{")}, {Id: s("two-inputs"), Arn: s(queueARN), Input: s("{}"), InputPath: s("$")}, {Id: s("bad-path"), Arn: s(queueARN), InputPath: s("detail")}}})
	ok(t, err)
	removed, err := e.RemoveTargets(ctx, &eventbridge.RemoveTargetsInput{Rule: s(spotRule), Ids: []string{"KarpenterInterruptionQueueTarget", "never"}})
	ok(t, err)
	got := fmt.Sprint(put.FailedEntryCount, *put.FailedEntries[0].TargetId, *put.FailedEntries[0].ErrorCode,
		removed.FailedEntryCount, *removed.FailedEntries[0].TargetId, *removed.FailedEntries[0].ErrorCode)
	if want := fmt.Sprint(4, "bad-arn", "ValidationException", 1, "never", "ResourceNotFoundException"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	left, err := e.ListTargetsByRule(ctx, &eventbridge.ListTargetsByRuleInput{Rule: s(spotRule)})
	ok(t, err)
	want := []types.Target{{Id: s("good"), Arn: s(queueARN + "-2")}}
	if diff := cmp.Diff(want, left.Targets, cmpopts.IgnoreUnexported(types.Target{})); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	var many []types.Target
	for n := range 5 {
		many = append(many, types.Target{Id: s(fmt.Sprint(n)), Arn: s(queueARN)})
	}
	wantCode(t, drop(e.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: s(spotRule), Targets: many})), "LimitExceededException")
}

func TestEventBridgeRefuses(t *testing.T) {
	s := sdk.String
	pattern := func(text string) func(*eventbridge.Client) error {
		return func(e *eventbridge.Client) error {
			return drop(e.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: s("r"), EventPattern: &text}))
		}
	}
	for name, tt := range map[string]struct {
		call func(*eventbridge.Client) error
		code string
	}{
		"a pattern that is no JSON":             {pattern(`{`), "InvalidEventPatternException"},
		"a pattern and something behind":        {pattern(`{"source":["a"]} x`), "InvalidEventPatternException"},
		"a pattern of a list":                   {pattern(`["a"]`), "InvalidEventPatternException"},
		"an empty pattern":                      {pattern(`{}`), "InvalidEventPatternException"},
		"a pattern with a bare value":           {pattern(`{"source":"aws.ec2"}`), "InvalidEventPatternException"},
		"a pattern with an empty list":          {pattern(`{"source":[]}`), "InvalidEventPatternException"},
		"a pattern with an empty object":        {pattern(`{"detail":{}}`), "InvalidEventPatternException"},
		"a pattern with a list in a list":       {pattern(`{"source":[["a"]]}`), "InvalidEventPatternException"},
		"a matcher that is not emulated":        {pattern(`{"source":[{"wildcard":"a*"}]}`), "InvalidEventPatternException"},
		"a matcher that does not exist":         {pattern(`{"source":[{"mood":"good"}]}`), "InvalidEventPatternException"},
		"two matchers in one":                   {pattern(`{"source":[{"prefix":"a","exists":true}]}`), "InvalidEventPatternException"},
		"a prefix that is a number":             {pattern(`{"source":[{"prefix":1}]}`), "InvalidEventPatternException"},
		"an existence that is a text":           {pattern(`{"source":[{"exists":"yes"}]}`), "InvalidEventPatternException"},
		"anything but a matcher":                {pattern(`{"source":[{"anything-but":{"prefix":"a"}}]}`), "InvalidEventPatternException"},
		"an alternative, which is not emulated": {pattern(`{"$or":[{"source":["a"]}]}`), "InvalidEventPatternException"},
		"a rule of no pattern":                  {pattern(``), "ValidationException"},
		"a rule by the clock, without a player": {func(e *eventbridge.Client) error {
			return drop(e.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: s("r"), ScheduleExpression: s("rate(1 minute)")}))
		}, "ValidationException"},
		"a rule with blanks in its name": {func(e *eventbridge.Client) error {
			return drop(e.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: s("a b"), EventPattern: s(spotPattern)}))
		}, "ValidationException"},
		"a rule in a state of its own": {func(e *eventbridge.Client) error {
			return drop(e.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: s("r"), EventPattern: s(spotPattern), State: "ASLEEP"}))
		}, "ValidationException"},
		"a rule on another bus": {func(e *eventbridge.Client) error {
			return drop(e.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: s("r"), EventPattern: s(spotPattern), EventBusName: s("mine")}))
		}, "ResourceNotFoundException"},
		"the list of another bus": {func(e *eventbridge.Client) error {
			return drop(e.ListRules(t.Context(), &eventbridge.ListRulesInput{EventBusName: s("mine")}))
		}, "ResourceNotFoundException"},
		"a list without end": {func(e *eventbridge.Client) error {
			return drop(e.ListRules(t.Context(), &eventbridge.ListRulesInput{Limit: sdk.Int32(101)}))
		}, "ValidationException"},
		"a page that nobody gave": {func(e *eventbridge.Client) error {
			return drop(e.ListRules(t.Context(), &eventbridge.ListRulesInput{NextToken: s("x")}))
		}, "ValidationException"},
		"enabling a rule that is not there": {func(e *eventbridge.Client) error {
			return drop(e.EnableRule(t.Context(), &eventbridge.EnableRuleInput{Name: s("none")}))
		}, "ResourceNotFoundException"},
		"disabling a rule that is not there": {func(e *eventbridge.Client) error {
			return drop(e.DisableRule(t.Context(), &eventbridge.DisableRuleInput{Name: s("none")}))
		}, "ResourceNotFoundException"},
		"targets of a rule that is not there": {func(e *eventbridge.Client) error {
			return drop(e.ListTargetsByRule(t.Context(), &eventbridge.ListTargetsByRuleInput{Rule: s("none")}))
		}, "ResourceNotFoundException"},
		"tags of a rule that is not there": {func(e *eventbridge.Client) error {
			return drop(e.ListTagsForResource(t.Context(), &eventbridge.ListTagsForResourceInput{ResourceARN: s("arn:aws:events:us-east-1:000000000000:rule/none")}))
		}, "ResourceNotFoundException"},
		"tags of what is no rule": {func(e *eventbridge.Client) error {
			return drop(e.ListTagsForResource(t.Context(), &eventbridge.ListTagsForResourceInput{ResourceARN: s("arn:aws:s3:::b")}))
		}, "ValidationException"},
		"a setting of a target, without a player": {func(e *eventbridge.Client) error {
			return drop(e.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: s(spotRule), Targets: []types.Target{{Id: s("q"), Arn: s(queueARN), InputTransformer: &types.InputTransformer{InputTemplate: s("x")}}}}))
		}, "ValidationException"},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, tt.call(newFixture(t, nil).bridge()), tt.code) })
	}
}

func TestRulesAreListedInPages(t *testing.T) {
	w := newFixture(t, nil)
	var names []string
	in := &eventbridge.ListRulesInput{Limit: sdk.Int32(2)}
	turns := 0
	for {
		turns++
		out, err := w.bridge().ListRules(t.Context(), in)
		ok(t, err)
		for _, r := range out.Rules {
			names = append(names, *r.Name)
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			break
		}
	}
	if turns != 3 || len(names) != 5 || !slices.IsSorted(names) {
		t.Errorf("%d pages with %q", turns, names)
	}
}
