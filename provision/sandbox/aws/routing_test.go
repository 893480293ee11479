package aws_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// allow is a queue policy with one statement.
func allow(principal, resource, condition string) string {
	return fmt.Sprintf(`{"Statement":[{"Effect":"Allow","Principal":%s,"Action":["SQS:SendMessage"],"Resource":%q,"Condition":%s}]}`, principal, resource, condition)
}

func TestAWarningArrivesOnlyWhereRuleTargetAndPolicyLetIt(t *testing.T) {
	s := sdk.String
	put := func(text string) func(*testing.T, *fixture) {
		return func(t *testing.T, w *fixture) {
			ok(t, drop(w.bridge().PutRule(t.Context(), &eventbridge.PutRuleInput{Name: s(spotRule), EventPattern: &text})))
		}
	}
	policy := func(text string) func(*testing.T, *fixture) {
		return func(t *testing.T, w *fixture) {
			ok(t, drop(w.sqs.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: w.queueURL(t), Attributes: map[string]string{"Policy": text}})))
		}
	}
	const events = `{"Service":"events.amazonaws.com"}`
	ruleARN := "arn:aws:events:us-east-1:000000000000:rule/" + spotRule
	deny := func(condition string) string {
		return strings.TrimSuffix(allow(events, queueARN, `{}`), "]}") + fmt.Sprintf(`,{"Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":%q,"Condition":%s}]}`, queueARN, condition)
	}
	for name, tt := range map[string]struct {
		change func(*testing.T, *fixture)
		want   int
	}{
		"as a getting-started stack leaves it": {func(*testing.T, *fixture) {}, 1},
		"a disabled rule delivers nothing": {func(t *testing.T, w *fixture) {
			ok(t, drop(w.bridge().DisableRule(t.Context(), &eventbridge.DisableRuleInput{Name: s(spotRule)})))
		}, 0},
		"a rule without target delivers nothing": {func(t *testing.T, w *fixture) {
			ok(t, drop(w.bridge().RemoveTargets(t.Context(), &eventbridge.RemoveTargetsInput{Rule: s(spotRule), Ids: []string{"KarpenterInterruptionQueueTarget"}})))
		}, 0},
		"a target in another account gets nothing here": {func(t *testing.T, w *fixture) {
			ok(t, drop(w.bridge().PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: s(spotRule), Targets: []types.Target{
				{Id: s("KarpenterInterruptionQueueTarget"), Arn: s("arn:aws:sqs:us-east-1:111111111111:sandbox")}}})))
		}, 0},
		"two targets get it twice": {func(t *testing.T, w *fixture) {
			ok(t, drop(w.bridge().PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: s(spotRule), Targets: []types.Target{{Id: s("again"), Arn: s(queueARN)}}})))
		}, 2},
		"a rule for other events delivers nothing":              {put(`{"source":["aws.ec2"],"detail-type":["EC2 Instance Rebalance Recommendation"]}`), 0},
		"a rule for the account and the action":                 {put(`{"account":["000000000000"],"detail":{"instance-action":["stop","terminate"]}}`), 1},
		"a rule for another action":                             {put(`{"detail":{"instance-action":["stop"]}}`), 0},
		"a rule for another account":                            {put(`{"source":["aws.ec2"],"account":["111111111111"],"detail-type":[{"prefix":"EC2 Spot"}]}`), 0},
		"a rule by prefix":                                      {put(`{"detail-type":[{"prefix":"EC2 Spot "}]}`), 1},
		"a rule for what the event lacks":                       {put(`{"detail-type":[{"prefix":"EC2 Spot "}],"detail":{"state":[{"exists":false}]}}`), 1},
		"a queue without policy gets nothing":                   {policy(""), 0},
		"a policy for everybody":                                {policy(allow(`"*"`, "*", `{}`)), 1},
		"a policy for another service":                          {policy(allow(`{"Service":["sns.amazonaws.com"]}`, queueARN, `{}`)), 0},
		"a policy for SQS itself lets no EventBridge in":        {policy(allow(`{"Service":["sqs.amazonaws.com"]}`, queueARN, `{}`)), 0},
		"a policy for another queue":                            {policy(allow(events, queueARN+"-2", `{}`)), 0},
		"a policy for this rule":                                {policy(allow(events, queueARN, fmt.Sprintf(`{"ArnEquals":{"aws:SourceArn":%q}}`, ruleARN))), 1},
		"a policy for another rule":                             {policy(allow(events, queueARN, fmt.Sprintf(`{"ArnEquals":{"aws:SourceArn":%q}}`, ruleARN+"-2"))), 0},
		"a policy for rules like this one, of this account":     {policy(allow(events, queueARN, `{"ArnLike":{"aws:SourceArn":"arn:aws:events:*:*:rule/Karpenter-*"},"StringEquals":{"aws:SourceAccount":"000000000000"}}`)), 1},
		"a policy whose condition cannot be evaluated":          {policy(allow(events, queueARN, `{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}`)), 0},
		"a denial for what is not encrypted lets it through":    {policy(deny(`{"Bool":{"aws:SecureTransport":"false"}}`)), 1},
		"a denial for what is encrypted":                        {policy(deny(`{"Bool":{"aws:SecureTransport":"true"}}`)), 0},
		"a denial whose condition cannot be evaluated":          {policy(deny(`{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}`)), 0},
		"a denial that fails in one condition is none":          {policy(deny(`{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"},"Bool":{"aws:SecureTransport":"false"}}`)), 1},
		"a queue that was made again has no policy of its past": {remade, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, zones := ready(t, nil)
			ok(t, drop(w.ec2.CreateFleet(t.Context(), fleet("gpu", "spot", 1, pool{"g5.xlarge", zones["us-east-1a"], 0}))))
			w.clock.advance(5 * time.Second)
			w.reported(t) // pending, running
			tt.change(t, w)
			ok(t, w.cloud.Interrupt(w.cloud.Instances()[0].ID))
			got := w.reported(t)
			if len(got) != tt.want || slices.ContainsFunc(got, func(e string) bool { return e != "EC2 Spot Instance Interruption Warning terminate" }) {
				t.Errorf("the queue got %q, want %d warnings", got, tt.want)
			}
		})
	}
}

func TestATargetGetsItsInputForm(t *testing.T) {
	s := sdk.String
	for name, tt := range map[string]struct {
		target types.Target
		queue  string
		want   string // text that is the message, or in it
	}{
		"the whole event":                {types.Target{Arn: s(queueARN)}, "sandbox", `"detail-type":"EC2 Instance Rebalance Recommendation"`},
		"a constant":                     {types.Target{Arn: s(queueARN), Input: s(`{"a":1}`)}, "sandbox", `{"a":1}`},
		"a part":                         {types.Target{Arn: s(queueARN), InputPath: s("$.detail-type")}, "sandbox", `"EC2 Instance Rebalance Recommendation"`},
		"a part of a part":               {types.Target{Arn: s(queueARN), InputPath: s("$.detail.state")}, "sandbox", `null`},
		"all of it":                      {types.Target{Arn: s(queueARN), InputPath: s("$")}, "sandbox", `"source":"aws.ec2"`},
		"a dead letter":                  {types.Target{Arn: s(queueARN + "-gone"), DeadLetterConfig: &types.DeadLetterConfig{Arn: s(queueARN)}}, "sandbox", `"source":"aws.ec2"`},
		"a dead letter that nobody lets": {types.Target{Arn: s(queueARN + "-gone"), DeadLetterConfig: &types.DeadLetterConfig{Arn: s(queueARN + "-2")}}, "sandbox-2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, zones := ready(t, nil)
			url := w.createQueue(t, "sandbox-2", nil)
			if tt.queue == "sandbox" {
				url = w.queueURL(t)
			}
			const rule = "Karpenter-sandbox-RebalanceRule"
			tt.target.Id = s("KarpenterInterruptionQueueTarget")
			tt.target.RetryPolicy = &types.RetryPolicy{MaximumRetryAttempts: sdk.Int32(3)}
			put, err := w.bridge().PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: s(rule), Targets: []types.Target{tt.target}})
			ok(t, err)
			displayed, err := w.bridge().ListTargetsByRule(t.Context(), &eventbridge.ListTargetsByRuleInput{Rule: s(rule)})
			ok(t, err)
			if diff := cmp.Diff([]types.Target{tt.target}, displayed.Targets, cmpopts.IgnoreUnexported(types.Target{}, types.RetryPolicy{}, types.DeadLetterConfig{})); diff != "" || put.FailedEntryCount != 0 {
				t.Errorf("target (-want +got):\n%s", diff)
			}
			ok(t, drop(w.ec2.CreateFleet(t.Context(), fleet("gpu", "spot", 1, pool{"g5.xlarge", zones["us-east-1a"], 0}))))
			w.reported(t)
			ok(t, w.cloud.RecommendRebalance(w.cloud.Instances()[0].ID))
			got, err := w.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url})
			ok(t, err)
			switch {
			case tt.want == "" && len(got.Messages) != 0:
				t.Errorf("it got %s", *got.Messages[0].Body)
			case tt.want != "" && (len(got.Messages) != 1 || !strings.Contains(*got.Messages[0].Body, tt.want) || tt.want[0] == '{' && *got.Messages[0].Body != tt.want):
				t.Errorf("it got %+v, want %s", got.Messages, tt.want)
			}
		})
	}
}

// remade deletes the queue and makes it again, so that EventBridge's rule leads
// to it and may not enter.
func remade(t *testing.T, w *fixture) {
	url := w.queueURL(t)
	ok(t, drop(w.sqs.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: url})))
	w.clock.advance(time.Minute)
	w.createQueue(t, "sandbox", nil)
}

func TestEveryKindOfEventIsSent(t *testing.T) {
	w, zones := ready(t, nil)
	ok(t, drop(w.ec2.CreateFleet(t.Context(), fleet("gpu", "spot", 1, pool{"g5.xlarge", zones["us-east-1a"], 0}))))
	w.clock.advance(5 * time.Second)
	id := w.cloud.Instances()[0].ID
	step := func(what string, do func() error, want ...string) {
		t.Helper()
		ok(t, do())
		if got := w.reported(t); !slices.Equal(got, want) {
			t.Errorf("%s is told as %q, want %q", what, got, want)
		}
	}
	step("a launch", func() error { return nil }, "EC2 Instance State-change Notification pending", "EC2 Instance State-change Notification running")
	step("a recommendation", func() error { return w.cloud.RecommendRebalance(id) }, "EC2 Instance Rebalance Recommendation")
	step("a scheduled event", func() error { return w.cloud.Impair(id, "instance-retirement") }, "AWS Health Event AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED "+id)
	step("one that only AWS Health announces", func() error { return w.cloud.AnnounceScheduledEvent(id, "instance-stop") }, "AWS Health Event AWS_EC2_INSTANCE_STOP_SCHEDULED "+id)
	step("a failing check", func() error { return w.cloud.Impair(id, "system") })
	step("an end", func() error { return w.cloud.Terminate(id) }, "EC2 Instance State-change Notification shutting-down")
	w.clock.advance(5 * time.Second)
	step("the end of the end", func() error { return nil }, "EC2 Instance State-change Notification terminated")
	if w.cloud.RecommendRebalance(id) == nil || w.cloud.RecommendRebalance("i-1") == nil {
		t.Error("what is no living spot instance was recommended to rebalance")
	}
}

func TestAnInterruptibleReservationWarnsThenEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		reservation  sandboxaws.Reservation
		capacityType string
		want         []string
	}{
		"bought as reserved capacity":          {sandboxaws.Reservation{Interruptible: true}, "reserved-capacity", []string{"EC2 Capacity Reservation Instance Interruption Warning terminate"}},
		"used by an on-demand launch":          {sandboxaws.Reservation{Interruptible: true}, "on-demand", []string{"EC2 Capacity Reservation Instance Interruption Warning terminate"}},
		"a reservation that AWS does not take": {sandboxaws.Reservation{}, "on-demand", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, zones := ready(t, nil)
			r := tt.reservation
			r.ID, r.Type, r.Zone, r.Total = "cr-1", "g5.xlarge", "us-east-1b", 1
			ok(t, drop(w.cloud.AddReservation(r)))
			ok(t, drop(w.ec2.CreateFleet(t.Context(), fleet("gpu", tt.capacityType, 1, pool{"g5.xlarge", zones["us-east-1b"], 0}))))
			w.clock.advance(5 * time.Second)
			w.reported(t)
			id := w.cloud.Instances()[0].ID
			if err := w.cloud.Interrupt(id); (err == nil) != (tt.want != nil) {
				t.Errorf("interrupting: %v", err)
			}
			if got := w.reported(t); !slices.Equal(got, tt.want) {
				t.Errorf("told as %q, want %q", got, tt.want)
			}
			w.clock.advance(2 * time.Minute)
			if s := w.cloud.Instances()[0].State; (s == sandboxaws.ShuttingDown) != (tt.want != nil) {
				t.Errorf("two minutes later it is %s", s)
			}
		})
	}
}

// reported reads and deletes what is on the queue.
func (w *fixture) reported(t *testing.T) (out []string) {
	t.Helper()
	for _, m := range w.receive(t, 0) {
		var e struct {
			event
			Account, Region, Version, ID string
			Resources                    []string
			Detail                       struct {
				State, EventTypeCode, EventTypeCategory, Service string
				Action                                           string `json:"instance-action"`
				AffectedEntities                                 []struct{ EntityValue string }
			}
		}
		ok(t, json.Unmarshal([]byte(*m.Body), &e))
		if e.Account != "000000000000" || e.Region != "us-east-1" || e.Version != "0" || e.ID == "" || len(e.Resources) != 1 {
			t.Errorf("the envelope is %s", *m.Body)
		}
		text := strings.TrimSpace(e.DetailType + " " + e.Detail.State + e.Detail.Action + e.Detail.EventTypeCode)
		for _, a := range e.Detail.AffectedEntities {
			text += " " + a.EntityValue
		}
		out = append(out, text)
		ok(t, drop(w.sqs.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: w.queueURL(t), ReceiptHandle: m.ReceiptHandle})))
	}
	return out
}
