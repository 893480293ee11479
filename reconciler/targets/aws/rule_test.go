package aws

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	sandbox "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

func newRuleLife(t *testing.T, change func(*sandbox.Config)) *life {
	t.Helper()
	return newLife(t, rules{}, change, v1alpha1.ClusterSpec{InterruptionQueue: &v1alpha1.InterruptionQueue{}, Tags: map[string]string{"team": "ml"}})
}

// target aims a rule at something, beside what it has.
func (l *life) target(rule string, t eventstypes.Target) {
	l.Helper()
	put, err := l.c.events.PutTargets(l.Context(), &eventbridge.PutTargetsInput{Rule: &rule, Targets: []eventstypes.Target{t}})
	if err != nil || put.FailedEntryCount > 0 {
		l.Fatalf("%v %+v", err, put)
	}
}

func (l *life) putRule(name, pattern string) {
	l.Helper()
	l.do(l.c.events.PutRule(l.Context(), &eventbridge.PutRuleInput{Name: &name, EventPattern: &pattern, State: eventstypes.RuleStateEnabled}))
}

func TestRulesAreMadeOfNothingAndPutRightWhereTheyAreBroken(t *testing.T) {
	l := newRuleLife(t, nil)
	l.settle()
	want := []string{
		"poolwright-sandbox-SpotInterruption", "poolwright-sandbox-Rebalance", "poolwright-sandbox-StateChange",
		"poolwright-sandbox-ScheduledChange", "poolwright-sandbox-CapacityReservation",
	}
	if diff := cmp.Diff(want, names(l.wanted())); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	spot := l.wanted()[0]
	if seen := l.see(spot); !seen.ours || seen.uid != "arn:aws:events:us-east-1:000000000000:rule/"+spot.Key.Name {
		t.Errorf("ours %v, uid %s", seen.ours, seen.uid)
	}
	l.asks(map[string]int{"ListRules": 1, "ListTargetsByRule": 5, "ListTagsForResource": 5, "ListRuleNamesByTarget": 1})
	l.denied("events", "ListRules", "ListTargetsByRule", "ListTagsForResource")

	name, ctx := &spot.Key.Name, t.Context()
	queue := l.c.place.arn("sqs", "sandbox")
	l.broken("a disabled rule", func() { l.do(l.c.events.DisableRule(ctx, &eventbridge.DisableRuleInput{Name: name})) })
	l.broken("another pattern", func() { l.putRule(*name, `{"source":["aws.ec2"]}`) })
	l.broken("a schedule beside the pattern", func() {
		l.do(l.c.events.PutRule(ctx, &eventbridge.PutRuleInput{
			Name: name, EventPattern: sdk.String(written(spot.Object["pattern"])), ScheduleExpression: sdk.String("rate(1 minute)"),
		}))
	})
	l.broken("no target", func() { l.do(nil, removeTargets(ctx, l.c, *name, []string{ruleTarget})) })
	l.broken("our target elsewhere", func() {
		l.target(*name, eventstypes.Target{Id: sdk.String(ruleTarget), Arn: sdk.String(l.c.place.arn("sqs", "elsewhere"))})
	})
	l.broken("a foreign target", func() {
		l.target(*name, eventstypes.Target{Id: sdk.String("spy"), Arn: sdk.String(l.c.place.arn("sqs", "elsewhere"))})
	})
	l.broken("the queue twice", func() { l.target(*name, eventstypes.Target{Id: sdk.String("again"), Arn: &queue}) })
	l.broken("another form of the event", func() {
		l.target(*name, eventstypes.Target{Id: sdk.String(ruleTarget), Arn: &queue, Input: sdk.String(`{}`)})
	})
	l.broken("a missing tag", func() {
		l.do(l.c.events.UntagResource(ctx, &eventbridge.UntagResourceInput{ResourceARN: sdk.String(l.c.place.arn("events", "rule/"+*name)), TagKeys: []string{"team"}}))
	})
	l.broken("a rule that is gone", func() { l.do(nil, l.remove(ctx, l.c, spot.Key, liveResource{})) })
	l.removed()
}

func TestARuleFullOfForeignTargetsGetsOurs(t *testing.T) {
	l := newRuleLife(t, nil)
	l.settle()
	name := l.wanted()[0].Key.Name
	l.do(l.c.events.RemoveTargets(t.Context(), &eventbridge.RemoveTargetsInput{Rule: &name, Ids: []string{ruleTarget}}))
	for n := range 5 {
		l.target(name, eventstypes.Target{Id: sdk.String(fmt.Sprint("spy", n)), Arn: sdk.String(l.c.place.arn("sqs", "elsewhere"))})
	}
	l.settle()
}

func TestATargetOfAnotherNameIsAsGood(t *testing.T) {
	l := newRuleLife(t, nil)
	l.settle()
	name := l.wanted()[0].Key.Name
	l.do(l.c.events.RemoveTargets(t.Context(), &eventbridge.RemoveTargetsInput{Rule: &name, Ids: []string{ruleTarget}}))
	l.target(name, eventstypes.Target{Id: sdk.String("by-hand"), Arn: sdk.String(l.c.place.arn("sqs", "sandbox"))})
	if bad := l.differences(); len(bad) > 0 {
		t.Errorf("%v differ", bad)
	}
	l.putRule(name, `{ "detail-type" : [ "EC2 Spot Instance Interruption Warning" ], "source": ["aws.ec2"] }`)
	if bad := l.differences(); len(bad) > 0 {
		t.Errorf("in another order %v differ", bad)
	}
}

func TestRulesOfOthersAreNotOurs(t *testing.T) {
	l := newRuleLife(t, nil)
	spot := l.wanted()[0]
	l.putRule(spot.Key.Name, `{"source":["aws.ec2"]}`)
	l.target(spot.Key.Name, eventstypes.Target{Id: sdk.String("theirs"), Arn: sdk.String(l.c.place.arn("sqs", "theirs"))})
	if seen := l.see(spot); seen.ours || seen.object == nil {
		t.Errorf("ours %v, object %v", seen.ours, seen.object)
	}
	l.declare(func(c *v1alpha1.ClusterSpec) { c.InterruptionQueue.Adopt = true })
	l.settle()
	if seen := l.see(spot); !seen.ours || seen.tags[policyTag] != "" {
		t.Errorf("after adoption: ours %v, tags %v", seen.ours, seen.tags)
	}
}

func TestARuleThatIsPutRightKeepsItsRoleAndDescription(t *testing.T) {
	l := newRuleLife(t, nil)
	l.declare(func(c *v1alpha1.ClusterSpec) { c.InterruptionQueue.Adopt = true })
	spot := l.wanted()[0]
	role := l.c.place.iamARN("role/events")
	l.do(l.c.events.PutRule(t.Context(), &eventbridge.PutRuleInput{
		Name: &spot.Key.Name, EventPattern: sdk.String(`{"source":["aws.ec2"]}`), Description: sdk.String("theirs"), RoleArn: &role,
		ScheduleExpression: sdk.String("rate(1 minute)"), State: eventstypes.RuleStateDisabled,
	}))
	l.settle()
	got, err := l.c.events.DescribeRule(t.Context(), &eventbridge.DescribeRuleInput{Name: &spot.Key.Name})
	if err != nil {
		t.Fatal(err)
	}
	if *got.Description != "theirs" || sdk.ToString(got.RoleArn) != role || got.ScheduleExpression != nil || got.State != eventstypes.RuleStateEnabled {
		t.Errorf("it is %q, role %q, schedule %q, %s", *got.Description, sdk.ToString(got.RoleArn), sdk.ToString(got.ScheduleExpression), got.State)
	}
}

func TestRulesOfOthersThatFillTheQueueAreNoted(t *testing.T) {
	l := newRuleLife(t, func(c *sandbox.Config) { c.Queues = []string{"sandbox"} })
	notes := func() string {
		var out []string
		for _, item := range l.wanted() {
			out = append(out, l.look()[item.Key].notes...)
		}
		return strings.Join(out, "; ")
	}
	if got := notes(); got != "" {
		t.Errorf("before ours are made: %q", got)
	}
	l.settle()
	const want = "the queue is also filled by Karpenter-sandbox-CapacityReservationInterruptionRule, Karpenter-sandbox-InstanceStateChangeRule, "
	if got := notes(); !strings.HasPrefix(got, want) || strings.Contains(got, "poolwright-sandbox") || strings.Contains(got, "more") {
		t.Errorf("noted: %q", got)
	}
	for n := range 4 {
		name := fmt.Sprint("their-", n)
		l.putRule(name, `{"source":["aws.ec2"]}`)
		l.target(name, eventstypes.Target{Id: sdk.String("x"), Arn: sdk.String(l.c.place.arn("sqs", "sandbox"))})
	}
	if got := notes(); !strings.Contains(got, " and 1 more, so that") {
		t.Errorf("of many: %q", got)
	}
	stop, err := l.cloud.Inject(sandbox.Fault{Service: "events", Operation: "ListRuleNamesByTarget", Code: "AccessDenied", Status: http.StatusForbidden})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if got, bad := notes(), l.differences(); got != "" || len(bad) > 0 {
		t.Errorf("where AWS does not tell: %q, %v", got, bad)
	}
}

func TestARuleThatEventBridgeHasNotHeardOfYetIsWaitedFor(t *testing.T) {
	for _, op := range []string{"ListTargetsByRule", "PutTargets"} {
		newRuleLife(t, nil).late("events", op)
	}
}

func TestATargetThatEventBridgeDoesNotTakeIsAnError(t *testing.T) {
	l := newRuleLife(t, nil)
	l.settle()
	name := l.wanted()[0].Key.Name
	answers := doing(func(*http.Request) (*http.Response, error) {
		const body = `{"FailedEntryCount":1,"FailedEntries":[{"TargetId":"a","ErrorCode":"ConcurrentModification","ErrorMessage":"later"}],"Targets":[{"Id":"a","Arn":"arn:aws:sqs:us-east-1:000000000000:b"}]}`
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{"Content-Type": {"application/x-amz-json-1.1"}}}, nil
	})
	half := *l.c
	half.events = eventbridge.New(l.c.events.Options(), func(o *eventbridge.Options) { o.HTTPClient = answers })
	if err := writeTargets(t.Context(), &half, name, l.wanted()[0].Object["targets"]); err == nil || !strings.Contains(err.Error(), "ConcurrentModification") {
		t.Errorf("setting: %v", err)
	}
	if err := l.remove(t.Context(), &half, l.wanted()[0].Key, liveResource{}); err == nil || !strings.Contains(err.Error(), "ConcurrentModification") {
		t.Errorf("removing: %v", err)
	}
}

func TestRulesSurviveTheDeathOfTheirMaker(t *testing.T) {
	survives(t, func(t *testing.T) *life { return newRuleLife(t, nil) })
}

func TestRulesSurviveTheDeathOfTheirRemover(t *testing.T) {
	for n := int64(1); n < 4; n++ {
		for _, late := range []bool{false, true} {
			l := newRuleLife(t, nil)
			l.settle()
			spot := l.wanted()[0]
			_ = l.remove(t.Context(), l.mortal(n, late), spot.Key, l.see(spot))
			if err := l.remove(t.Context(), l.c, spot.Key, liveResource{}); err != nil {
				t.Errorf("after a death at request %d: %v", n, err)
			}
			if l.see(spot).object != nil {
				t.Errorf("after a death at request %d it is still there", n)
			}
		}
	}
}

func TestRulesAndTargetsAreFoundOnLaterPages(t *testing.T) {
	l := newRuleLife(t, nil)
	for n := range 130 {
		l.putRule(fmt.Sprintf("poolwright-sandbox-%03d", n), `{"source":["aws.ec2"]}`)
	}
	l.settle()
	before := len(l.cloud.Calls())
	l.look()
	if got := l.calls(before)["ListRules"]; got < 2 {
		t.Errorf("%d pages: nothing was paged", got)
	}
}

func TestRuleNamesFitAndStayApart(t *testing.T) {
	seen := map[string]string{}
	for _, cluster := range []string{"a", "sandbox", strings.Repeat("x", 33), strings.Repeat("x", 34), strings.Repeat("x", 99), strings.Repeat("x", 99) + "y"} {
		var keys []state.Key
		for _, name := range ruleNames(cluster) {
			if len(name) > longestRuleName {
				t.Errorf("%s has %d characters", name, len(name))
			}
			if other := seen[name]; other != "" {
				t.Errorf("%s and %s share %s", cluster, other, name)
			}
			seen[name] = cluster
			keys = append(keys, state.Key{Name: name})
		}
		if prefix := commonPrefix(keys); !strings.HasPrefix(prefix, "poolwright-") || !strings.HasSuffix(prefix, "-") {
			t.Errorf("the names of %s share only %q", cluster, prefix)
		}
	}
	if commonPrefix(nil) != "" || commonPrefix([]state.Key{{Name: "a"}, {Name: "b"}}) != "" {
		t.Error("what shares nothing has a prefix")
	}
}

// TestARuleBringsASpotWarningToTheQueue is what all of this is for.
func TestARuleBringsASpotWarningToTheQueue(t *testing.T) {
	l := newRuleLife(t, func(c *sandbox.Config) { c.Delays.Running, c.Delays.Interrupt = 0, time.Hour })
	queue := &life{T: t, kind: queues{}, c: l.c, cloud: l.cloud, scope: l.scope}
	queue.settle()
	l.settle()
	id := l.spotInstance()
	if err := l.cloud.Interrupt(id); err != nil {
		t.Fatal(err)
	}
	if got := queue.messages(); !slices.Contains(got, "EC2 Spot Instance Interruption Warning") {
		t.Errorf("the queue has %q", got)
	}
	name := l.wanted()[0].Key.Name
	l.do(l.c.events.DisableRule(t.Context(), &eventbridge.DisableRuleInput{Name: &name}))
	if err := l.cloud.Interrupt(l.spotInstance()); err != nil {
		t.Fatal(err)
	}
	if got := queue.messages(); slices.Contains(got, "EC2 Spot Instance Interruption Warning") {
		t.Errorf("a disabled rule delivers: %q", got)
	}
	l.settle()
	if err := l.cloud.Interrupt(l.spotInstance()); err != nil {
		t.Fatal(err)
	}
	if got := queue.messages(); !slices.Contains(got, "EC2 Spot Instance Interruption Warning") {
		t.Errorf("after the rule was put right the queue has %q", got)
	}
	if err := l.cloud.RecommendRebalance(l.spotInstance()); err != nil {
		t.Fatal(err)
	}
	if got := queue.messages(); !slices.Contains(got, "EC2 Instance Rebalance Recommendation") {
		t.Errorf("the queue has %q", got)
	}
}

// messages takes all messages off the queue and names their detail types.
func (l *life) messages() []string {
	l.Helper()
	var out []string
	for {
		got, err := l.c.sqs.ReceiveMessage(l.Context(), &sqs.ReceiveMessageInput{QueueUrl: l.queueURL(), MaxNumberOfMessages: 10, VisibilityTimeout: 600})
		if err != nil {
			l.Fatal(err)
		}
		if len(got.Messages) == 0 {
			return out
		}
		for _, m := range got.Messages {
			var event struct {
				Kind string `json:"detail-type"`
			}
			if err := json.Unmarshal([]byte(*m.Body), &event); err != nil {
				l.Fatal(err)
			}
			out = append(out, event.Kind)
		}
	}
}

func (l *life) spotInstance() string {
	l.Helper()
	ctx := l.Context()
	images, err := l.c.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{})
	if err != nil || len(images.Images) == 0 {
		l.Fatalf("images: %v", err)
	}
	nets, err := l.c.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	if err != nil || len(nets.Subnets) == 0 {
		l.Fatalf("subnets: %v", err)
	}
	image := slices.IndexFunc(images.Images, func(i ec2types.Image) bool { return i.Architecture == ec2types.ArchitectureValuesX8664 })
	template := sdk.String("t-" + fmt.Sprint(len(l.cloud.Calls())))
	l.do(l.c.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: template, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: images.Images[image].ImageId},
	}))
	fleet, err := l.c.ec2.CreateFleet(ctx, &ec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant,
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: sdk.Int32(1), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeSpot,
		},
		SpotOptions: &ec2types.SpotOptionsRequest{AllocationStrategy: ec2types.SpotAllocationStrategyPriceCapacityOptimized},
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: template, Version: sdk.String("$Latest")},
			Overrides: []ec2types.FleetLaunchTemplateOverridesRequest{{
				InstanceType: ec2types.InstanceTypeM5Large, SubnetId: nets.Subnets[0].SubnetId, AvailabilityZone: nets.Subnets[0].AvailabilityZone,
			}},
		}},
	})
	if err != nil || len(fleet.Instances) == 0 {
		l.Fatalf("fleet: %v %+v", err, fleet)
	}
	return fleet.Instances[0].InstanceIds[0]
}

func TestPatternsInAnotherOrderAreEqual(t *testing.T) {
	for name, tt := range map[string]struct {
		a, b  string
		equal bool
	}{
		"the same":                   {`{"a":["x"]}`, `{ "a" : [ "x" ] }`, true},
		"alternatives turned round":  {`{"a":["x","y"],"b":{"c":[1,{"exists":true}]}}`, `{"b":{"c":[{"exists":true},1]},"a":["y","x"]}`, true},
		"another alternative":        {`{"a":["x"]}`, `{"a":["y"]}`, false},
		"one more alternative":       {`{"a":["x"]}`, `{"a":["x","y"]}`, false},
		"one more field":             {`{"a":["x"]}`, `{"a":["x"],"b":["y"]}`, false},
		"a number and its text":      {`{"a":[1]}`, `{"a":["1"]}`, false},
		"no JSON":                    {`{`, `{}`, false},
		"null and an empty document": {`null`, `{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := state.Equal(canonicalPattern(tt.a), canonicalPattern(tt.b)); got != tt.equal {
				t.Errorf("equal: %v", got)
			}
		})
	}
}

func FuzzCanonicalPattern(f *testing.F) {
	f.Add(`{"source":["aws.ec2"],"detail-type":["EC2 Instance State-change Notification"],"detail":{"state":[{"anything-but":["running","pending"]}]}}`)
	f.Add(`[[["`)
	f.Add(`{"a":[1e400,{"b":[null,false]}]}`)
	f.Fuzz(func(t *testing.T, pattern string) {
		got := canonicalPattern(pattern)
		m, ok := got.(map[string]any)
		if !ok {
			if got != pattern {
				t.Fatalf("what is no pattern became %v", got)
			}
			return
		}
		again := canonicalPattern(written(m))
		if !state.Equal(got, again) {
			t.Fatalf("read again, %v became %v", got, again)
		}
	})
}
