package interruption

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
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

func newRuleLife(t *testing.T, change func(*sandboxaws.Config)) *kindtest.Fixture {
	t.Helper()
	return kindtest.NewFixture(t, Rules{}, change, v1alpha1.ClusterSpec{InterruptionQueue: &v1alpha1.InterruptionQueue{}, Tags: map[string]string{"team": "ml"}})
}

// addTarget aims a rule at something, beside what it has.
func addTarget(l *kindtest.Fixture, rule string, t eventstypes.Target) {
	l.Helper()
	put, err := l.Clients.Events.PutTargets(l.Context(), &eventbridge.PutTargetsInput{Rule: &rule, Targets: []eventstypes.Target{t}})
	if err != nil || put.FailedEntryCount > 0 {
		l.Fatalf("%v %+v", err, put)
	}
}

func putRule(l *kindtest.Fixture, name, pattern string) {
	l.Helper()
	l.Do(l.Clients.Events.PutRule(l.Context(), &eventbridge.PutRuleInput{Name: &name, EventPattern: &pattern, State: eventstypes.RuleStateEnabled}))
}

func TestRulesAreMadeOfNothingAndPutRightWhereTheyAreBroken(t *testing.T) {
	l := newRuleLife(t, nil)
	l.Converge()
	want := []string{
		"poolwright-sandbox-SpotInterruption", "poolwright-sandbox-Rebalance", "poolwright-sandbox-StateChange",
		"poolwright-sandbox-ScheduledChange", "poolwright-sandbox-CapacityReservation",
	}
	if diff := cmp.Diff(want, kindtest.Names(l.Items())); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	spot := l.Items()[0]
	if observed := l.ReadOne(spot); !observed.Ours || observed.UID != "arn:aws:events:us-east-1:000000000000:rule/"+spot.Key.Name {
		t.Errorf("ours %v, uid %s", observed.Ours, observed.UID)
	}
	l.Requests(map[string]int{"ListRules": 1, "ListTargetsByRule": 5, "ListTagsForResource": 5, "ListRuleNamesByTarget": 1})
	l.Deny("events", "ListRules", "ListTargetsByRule", "ListTagsForResource")

	name, ctx := &spot.Key.Name, t.Context()
	queue := l.Clients.Scope.ARN("sqs", "sandbox")
	l.Break("a disabled rule", func() { l.Do(l.Clients.Events.DisableRule(ctx, &eventbridge.DisableRuleInput{Name: name})) })
	l.Break("another pattern", func() { putRule(l, *name, `{"source":["aws.ec2"]}`) })
	l.Break("a schedule beside the pattern", func() {
		l.Do(l.Clients.Events.PutRule(ctx, &eventbridge.PutRuleInput{
			Name: name, EventPattern: sdk.String(written(spot.Object["pattern"])), ScheduleExpression: sdk.String("rate(1 minute)"),
		}))
	})
	l.Break("no target", func() { l.Do(nil, removeTargets(ctx, l.Clients, *name, []string{RuleTarget})) })
	l.Break("our target elsewhere", func() {
		addTarget(l, *name, eventstypes.Target{Id: sdk.String(RuleTarget), Arn: sdk.String(l.Clients.Scope.ARN("sqs", "elsewhere"))})
	})
	l.Break("a foreign target", func() {
		addTarget(l, *name, eventstypes.Target{Id: sdk.String("spy"), Arn: sdk.String(l.Clients.Scope.ARN("sqs", "elsewhere"))})
	})
	l.Break("the queue twice", func() { addTarget(l, *name, eventstypes.Target{Id: sdk.String("again"), Arn: &queue}) })
	l.Break("another form of the event", func() {
		addTarget(l, *name, eventstypes.Target{Id: sdk.String(RuleTarget), Arn: &queue, Input: sdk.String(`{}`)})
	})
	l.Break("a missing tag", func() {
		l.Do(l.Clients.Events.UntagResource(ctx, &eventbridge.UntagResourceInput{ResourceARN: sdk.String(l.Clients.Scope.ARN("events", "rule/"+*name)), TagKeys: []string{"team"}}))
	})
	l.Break("a rule that is gone", func() { l.Do(nil, l.Remove(ctx, l.Clients, spot.Key, resource.Live{})) })
	l.RemoveAll()
}

func TestARuleFullOfForeignTargetsGetsOurs(t *testing.T) {
	l := newRuleLife(t, nil)
	l.Converge()
	name := l.Items()[0].Key.Name
	l.Do(l.Clients.Events.RemoveTargets(t.Context(), &eventbridge.RemoveTargetsInput{Rule: &name, Ids: []string{RuleTarget}}))
	for n := range 5 {
		addTarget(l, name, eventstypes.Target{Id: sdk.String(fmt.Sprint("spy", n)), Arn: sdk.String(l.Clients.Scope.ARN("sqs", "elsewhere"))})
	}
	l.Converge()
}

func TestATargetOfAnotherNameIsAsGood(t *testing.T) {
	l := newRuleLife(t, nil)
	l.Converge()
	name := l.Items()[0].Key.Name
	l.Do(l.Clients.Events.RemoveTargets(t.Context(), &eventbridge.RemoveTargetsInput{Rule: &name, Ids: []string{RuleTarget}}))
	addTarget(l, name, eventstypes.Target{Id: sdk.String("by-hand"), Arn: sdk.String(l.Clients.Scope.ARN("sqs", "sandbox"))})
	if bad := l.Differences(); len(bad) > 0 {
		t.Errorf("%v differ", bad)
	}
	putRule(l, name, `{ "detail-type" : [ "EC2 Spot Instance Interruption Warning" ], "source": ["aws.ec2"] }`)
	if bad := l.Differences(); len(bad) > 0 {
		t.Errorf("in another order %v differ", bad)
	}
}

func TestRulesOfOthersAreNotOurs(t *testing.T) {
	l := newRuleLife(t, nil)
	spot := l.Items()[0]
	putRule(l, spot.Key.Name, `{"source":["aws.ec2"]}`)
	addTarget(l, spot.Key.Name, eventstypes.Target{Id: sdk.String("theirs"), Arn: sdk.String(l.Clients.Scope.ARN("sqs", "theirs"))})
	if observed := l.ReadOne(spot); observed.Ours || observed.Object == nil {
		t.Errorf("ours %v, object %v", observed.Ours, observed.Object)
	}
	l.Change(func(c *v1alpha1.ClusterSpec) { c.InterruptionQueue.Adopt = true })
	l.Converge()
	if observed := l.ReadOne(spot); !observed.Ours || observed.Tags[tag.DeletionPolicy] != "" {
		t.Errorf("after adoption: ours %v, tags %v", observed.Ours, observed.Tags)
	}
}

func TestARuleThatIsPutRightKeepsItsRoleAndDescription(t *testing.T) {
	l := newRuleLife(t, nil)
	l.Change(func(c *v1alpha1.ClusterSpec) { c.InterruptionQueue.Adopt = true })
	spot := l.Items()[0]
	role := l.Clients.Scope.IAMARN("role/events")
	l.Do(l.Clients.Events.PutRule(t.Context(), &eventbridge.PutRuleInput{
		Name: &spot.Key.Name, EventPattern: sdk.String(`{"source":["aws.ec2"]}`), Description: sdk.String("theirs"), RoleArn: &role,
		ScheduleExpression: sdk.String("rate(1 minute)"), State: eventstypes.RuleStateDisabled,
	}))
	l.Converge()
	got, err := l.Clients.Events.DescribeRule(t.Context(), &eventbridge.DescribeRuleInput{Name: &spot.Key.Name})
	if err != nil {
		t.Fatal(err)
	}
	if *got.Description != "theirs" || sdk.ToString(got.RoleArn) != role || got.ScheduleExpression != nil || got.State != eventstypes.RuleStateEnabled {
		t.Errorf("it is %q, role %q, schedule %q, %s", *got.Description, sdk.ToString(got.RoleArn), sdk.ToString(got.ScheduleExpression), got.State)
	}
}

func TestRulesOfOthersThatFillTheQueueAreNoted(t *testing.T) {
	l := newRuleLife(t, func(c *sandboxaws.Config) { c.Queues = []string{"sandbox"} })
	notes := func() string {
		var out []string
		for _, item := range l.Items() {
			out = append(out, kindtest.Texts(l.ReadAll()[item.Key].Notes)...)
		}
		return strings.Join(out, "; ")
	}
	if got := notes(); got != "" {
		t.Errorf("before ours are made: %q", got)
	}
	l.Converge()
	const want = "the queue is also filled by Karpenter-sandbox-CapacityReservationInterruptionRule, Karpenter-sandbox-InstanceStateChangeRule, "
	if got := notes(); !strings.HasPrefix(got, want) || strings.Contains(got, "poolwright-sandbox") || strings.Contains(got, "more") {
		t.Errorf("noted: %q", got)
	}
	for n := range 4 {
		name := fmt.Sprint("their-", n)
		putRule(l, name, `{"source":["aws.ec2"]}`)
		addTarget(l, name, eventstypes.Target{Id: sdk.String("x"), Arn: sdk.String(l.Clients.Scope.ARN("sqs", "sandbox"))})
	}
	if got := notes(); !strings.Contains(got, " and 1 more, so that") {
		t.Errorf("of many: %q", got)
	}
	stop, err := l.Cloud.Inject(sandboxaws.Fault{Service: "events", Operation: "ListRuleNamesByTarget", Code: "AccessDenied", Status: http.StatusForbidden})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if got, bad := notes(), l.Differences(); got != "" || len(bad) > 0 {
		t.Errorf("where AWS does not tell: %q, %v", got, bad)
	}
}

func TestARuleThatEventBridgeDoesNotFindYetIsWaitedFor(t *testing.T) {
	for _, op := range []string{"ListTargetsByRule", "PutTargets"} {
		newRuleLife(t, nil).Delay("events", op)
	}
}

func TestATargetThatEventBridgeDoesNotTakeIsAnError(t *testing.T) {
	l := newRuleLife(t, nil)
	l.Converge()
	name := l.Items()[0].Key.Name
	responses := kindtest.Doer(func(*http.Request) (*http.Response, error) {
		const body = `{"FailedEntryCount":1,"FailedEntries":[{"TargetId":"a","ErrorCode":"ConcurrentModification","ErrorMessage":"later"}],"Targets":[{"Id":"a","Arn":"arn:aws:sqs:us-east-1:000000000000:b"}]}`
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{"Content-Type": {"application/x-amz-json-1.1"}}}, nil
	})
	half := *l.Clients
	half.Events = eventbridge.New(l.Clients.Events.Options(), func(o *eventbridge.Options) { o.HTTPClient = responses })
	if err := writeTargets(t.Context(), &half, name, l.Items()[0].Object["targets"]); err == nil || !strings.Contains(err.Error(), "ConcurrentModification") {
		t.Errorf("setting: %v", err)
	}
	if err := l.Remove(t.Context(), &half, l.Items()[0].Key, resource.Live{}); err == nil || !strings.Contains(err.Error(), "ConcurrentModification") {
		t.Errorf("removing: %v", err)
	}
}

func TestRulesSurviveACrashDuringTheirCreation(t *testing.T) {
	kindtest.Survives(t, func(t *testing.T) *kindtest.Fixture { return newRuleLife(t, nil) })
}

func TestRulesSurviveTheDeathOfTheirRemover(t *testing.T) {
	for n := int64(1); n < 4; n++ {
		for _, late := range []bool{false, true} {
			l := newRuleLife(t, nil)
			l.Converge()
			spot := l.Items()[0]
			_ = l.Remove(t.Context(), l.CrashingAfter(n, late), spot.Key, l.ReadOne(spot))
			if err := l.Remove(t.Context(), l.Clients, spot.Key, resource.Live{}); err != nil {
				t.Errorf("after a death at request %d: %v", n, err)
			}
			if l.ReadOne(spot).Object != nil {
				t.Errorf("after a death at request %d it is still there", n)
			}
		}
	}
}

func TestRulesAndTargetsAreFoundOnLaterPages(t *testing.T) {
	l := newRuleLife(t, nil)
	for n := range 130 {
		putRule(l, fmt.Sprintf("poolwright-sandbox-%03d", n), `{"source":["aws.ec2"]}`)
	}
	l.Converge()
	before := len(l.Cloud.Calls())
	l.ReadAll()
	if got := l.Calls(before)["ListRules"]; got < 2 {
		t.Errorf("%d pages: nothing was paged", got)
	}
}

func TestRuleNamesFitAndStayApart(t *testing.T) {
	observed := map[string]string{}
	for _, cluster := range []string{"a", "sandbox", strings.Repeat("x", 33), strings.Repeat("x", 34), strings.Repeat("x", 99), strings.Repeat("x", 99) + "y"} {
		var keys []state.Key
		for _, name := range RuleNames(cluster) {
			if len(name) > longestRuleName {
				t.Errorf("%s has %d characters", name, len(name))
			}
			if other := observed[name]; other != "" {
				t.Errorf("%s and %s share %s", cluster, other, name)
			}
			observed[name] = cluster
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
	l := newRuleLife(t, func(c *sandboxaws.Config) { c.Delays.Running, c.Delays.Interrupt = 0, time.Hour })
	queue := &kindtest.Fixture{T: t, Kind: Queues{}, Clients: l.Clients, Cloud: l.Cloud, Declared: l.Declared}
	queue.Converge()
	l.Converge()
	id := kindtest.SpotInstance(l)
	if err := l.Cloud.Interrupt(id); err != nil {
		t.Fatal(err)
	}
	if got := queueMessages(queue); !slices.Contains(got, "EC2 Spot Instance Interruption Warning") {
		t.Errorf("the queue has %q", got)
	}
	name := l.Items()[0].Key.Name
	l.Do(l.Clients.Events.DisableRule(t.Context(), &eventbridge.DisableRuleInput{Name: &name}))
	if err := l.Cloud.Interrupt(kindtest.SpotInstance(l)); err != nil {
		t.Fatal(err)
	}
	if got := queueMessages(queue); slices.Contains(got, "EC2 Spot Instance Interruption Warning") {
		t.Errorf("a disabled rule delivers: %q", got)
	}
	l.Converge()
	if err := l.Cloud.Interrupt(kindtest.SpotInstance(l)); err != nil {
		t.Fatal(err)
	}
	if got := queueMessages(queue); !slices.Contains(got, "EC2 Spot Instance Interruption Warning") {
		t.Errorf("after the rule was put right the queue has %q", got)
	}
	if err := l.Cloud.RecommendRebalance(kindtest.SpotInstance(l)); err != nil {
		t.Fatal(err)
	}
	if got := queueMessages(queue); !slices.Contains(got, "EC2 Instance Rebalance Recommendation") {
		t.Errorf("the queue has %q", got)
	}
}

// queueMessages takes all messages off the queue and names their detail types.
func queueMessages(l *kindtest.Fixture) []string {
	l.Helper()
	var out []string
	for {
		got, err := l.Clients.SQS.ReceiveMessage(l.Context(), &sqs.ReceiveMessageInput{QueueUrl: queueURL(l), MaxNumberOfMessages: 10, VisibilityTimeout: 600})
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
