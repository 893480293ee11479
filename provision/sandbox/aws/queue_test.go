package aws_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// receive asks as the engine does, but for waiting.
func (w *fixture) receive(t *testing.T, wait int32) []types.Message {
	t.Helper()
	out, err := w.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: w.queueURL(t), MaxNumberOfMessages: 10, VisibilityTimeout: 20,
		WaitTimeSeconds: wait, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"SentTimestamp"}, MessageAttributeNames: []string{"All"}})
	if err != nil {
		t.Error(err)
		return nil
	}
	return out.Messages
}

func (w *fixture) queueURL(t *testing.T) *string {
	t.Helper()
	out, err := w.sqs.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: sdk.String("sandbox")})
	if err != nil {
		t.Error(err)
		return nil
	}
	return out.QueueUrl
}

func TestMessagesHideUntilTheyAreDeleted(t *testing.T) {
	w := newFixture(t, nil)
	ok(t, w.cloud.SendMessage("sandbox", "hello"))
	if err := w.cloud.SendMessage("none", "hello"); err == nil {
		t.Error("a queue that does not exist took a message")
	}
	first := w.receive(t, 0)
	if len(first) != 1 || *first[0].Body != "hello" || first[0].Attributes["SentTimestamp"] != "1795176000000" {
		t.Fatalf("%+v", first)
	}
	if again := w.receive(t, 0); len(again) != 0 {
		t.Error("a received message is visible")
	}
	w.clock.advance(21 * time.Second)
	second := w.receive(t, 0)
	if len(second) != 1 {
		t.Fatal("a message that nobody deleted must come back")
	}
	remove := func(receipt *string) {
		t.Helper()
		_, err := w.sqs.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: w.queueURL(t), ReceiptHandle: receipt})
		ok(t, err)
	}
	remove(first[0].ReceiptHandle) // of an earlier receive: has no effect
	w.clock.advance(21 * time.Second)
	third := w.receive(t, 0)
	if len(third) != 1 {
		t.Fatal("an old receipt deleted the message")
	}
	remove(third[0].ReceiptHandle)
	w.clock.advance(21 * time.Second)
	if left := w.receive(t, 0); len(left) != 0 {
		t.Error("a deleted message came back")
	}
	ok(t, w.cloud.SendMessage("sandbox", "old"))
	w.clock.advance(6 * time.Minute)
	if left := w.receive(t, 0); len(left) != 0 {
		t.Error("a message outlived the queue's retention")
	}
}

func TestALongPollWaits(t *testing.T) {
	w := newFixture(t, nil)
	got := make(chan []types.Message, 1)
	poll := func() { got <- w.receive(t, 20) }
	go poll()
	w.clock.waitTimers(t, 1)
	ok(t, w.cloud.SendMessage("sandbox", "now"))
	if m := <-got; len(m) != 1 {
		t.Errorf("an arrival gave %d messages", len(m))
	}
	go poll() // the message is hidden for 20 s, as long as the poll
	w.clock.waitTimers(t, 1)
	w.clock.advance(20 * time.Second)
	if m := <-got; len(m) != 1 {
		t.Errorf("the end of a poll, when the message is visible again, gave %d messages", len(m))
	}
	go poll()
	w.clock.waitTimers(t, 1)
	w.clock.advance(10 * time.Second)
	select {
	case m := <-got:
		t.Fatalf("a poll ended too early with %v", m)
	default:
	}
	w.clock.waitTimers(t, 1)
	w.clock.advance(11 * time.Second)
	<-got
}

func TestALongPollReceivesAMessageThatComesBack(t *testing.T) {
	w := newFixture(t, nil)
	ok(t, w.cloud.SendMessage("sandbox", "again"))
	w.receive(t, 0) // hides it for 20 s
	w.clock.advance(15 * time.Second)
	got := make(chan []types.Message, 1)
	go func() { got <- w.receive(t, 20) }()
	w.clock.waitTimers(t, 1)
	w.clock.advance(5 * time.Second)
	select {
	case m := <-got:
		if len(m) != 1 {
			t.Errorf("%d messages", len(m))
		}
	case <-time.After(time.Minute):
		t.Error("the poll slept through the message's return")
		w.clock.advance(time.Minute)
		<-got
	}
}

// event is what EventBridge puts on the queue.
type event struct {
	Source     string
	DetailType string `json:"detail-type"`
	Detail     struct {
		InstanceID string `json:"instance-id"`
		State      string
		Action     string `json:"instance-action"`
	}
}

func (w *fixture) events(t *testing.T) (out []string) {
	t.Helper()
	for _, m := range w.receive(t, 0) {
		var e event
		ok(t, json.Unmarshal([]byte(*m.Body), &e))
		out = append(out, strings.TrimSpace(e.DetailType+" "+e.Detail.State+e.Detail.Action))
		_, err := w.sqs.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: w.queueURL(t), ReceiptHandle: m.ReceiptHandle})
		ok(t, err)
	}
	return out
}

func TestASpotInterruptionWarnsThenEnds(t *testing.T) {
	w, zones := ready(t, nil)
	_, err := w.ec2.CreateFleet(t.Context(), fleet("gpu", "spot", 1, pool{"g5.xlarge", zones["us-east-1a"], 0}))
	ok(t, err)
	_, err = w.ec2.CreateFleet(t.Context(), fleet("gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1b"], 0}))
	ok(t, err)
	w.clock.advance(5 * time.Second)
	spot, onDemand := w.cloud.Instances()[0], w.cloud.Instances()[1]
	w.events(t) // pending, running
	ok(t, w.cloud.Interrupt(spot.ID))
	if got := w.events(t); len(got) != 1 || got[0] != "EC2 Spot Instance Interruption Warning terminate" {
		t.Errorf("the warning is %q", got)
	}
	w.clock.advance(2*time.Minute - time.Second)
	if s := w.cloud.Instances()[0].State; s != sandboxaws.Running {
		t.Errorf("a second before its time it is %s", s)
	}
	w.clock.advance(time.Second)
	if got := w.events(t); len(got) != 1 || got[0] != "EC2 Instance State-change Notification shutting-down" {
		t.Errorf("the end is told by %q", got)
	}
	out, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{spot.ID}})
	ok(t, err)
	if i := out.Reservations[0].Instances[0]; *i.StateReason.Code != "Server.SpotInstanceTermination" || i.SpotInstanceRequestId == nil || i.InstanceLifecycle != "spot" {
		t.Errorf("instance %+v", i)
	}
	if w.cloud.Interrupt(onDemand.ID) == nil || w.cloud.Interrupt("i-1") == nil || w.cloud.Interrupt(spot.ID) == nil {
		t.Error("what is no living spot instance was interrupted")
	}
}

func TestImpairedInstances(t *testing.T) {
	w, zones := ready(t, nil)
	_, err := w.ec2.CreateFleet(t.Context(), fleet("gpu", "on-demand", 2, pool{"g5.xlarge", zones["us-east-1a"], 0}))
	ok(t, err)
	ids := []string{w.cloud.Instances()[0].ID, w.cloud.Instances()[1].ID}
	status := func(filter, value string) int {
		t.Helper()
		out, err := w.ec2.DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{Filters: filters(filter, value)})
		ok(t, err)
		return len(out.InstanceStatuses)
	}
	if n := status("instance-status.status", "ok"); n != 0 {
		t.Errorf("%d pending instances have a status", n)
	}
	w.clock.advance(5 * time.Second)
	since := w.clock.Now()
	ok(t, w.cloud.AnnounceScheduledEvent(ids[0], "instance-stop"))
	if n := status("event.code", "instance-stop"); n != 0 {
		t.Error("EC2 returns an event that only AWS Health announced")
	}
	ok(t, w.cloud.Impair(ids[0], "instance"))
	ok(t, w.cloud.Impair(ids[1], "instance-retirement"))
	if a, b, c := status("instance-status.status", "impaired"), status("system-status.status", "impaired"), status("event.code", "instance-stop,instance-retirement"); a != 1 || b != 0 || c != 1 {
		t.Errorf("%d, %d and %d impaired; want 1, 0 and 1", a, b, c)
	}
	out, err := w.ec2.DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{InstanceIds: ids})
	ok(t, err)
	if d := out.InstanceStatuses[0].InstanceStatus.Details[0]; d.Status != "failed" || !d.ImpairedSince.Equal(since) {
		t.Errorf("detail %+v", d)
	}
	if e := out.InstanceStatuses[1].Events[0]; e.Code != "instance-retirement" {
		t.Errorf("event %+v", e)
	}
	ok(t, w.cloud.Impair(ids[0], ""))
	if n := status("instance-status.status", "impaired"); n != 0 {
		t.Error("healing had no effect")
	}
	if w.cloud.Impair(ids[0], "mood") == nil || w.cloud.Impair("i-1", "instance") == nil {
		t.Error("an unknown check or instance was accepted")
	}
	if w.cloud.AnnounceScheduledEvent(ids[0], "instance") == nil || w.cloud.AnnounceScheduledEvent("i-1", "instance-stop") == nil {
		t.Error("no scheduled event, or one of no instance, was announced")
	}
}
