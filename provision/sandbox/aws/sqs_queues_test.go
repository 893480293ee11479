package aws_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// queueless is an account without queues and rules.
func queueless(c *sandboxaws.Config) { c.Queues = nil }

func (w *fixture) createQueue(t *testing.T, name string, attributes map[string]string) *string {
	t.Helper()
	out, err := w.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	ok(t, err)
	return out.QueueUrl
}

func (w *fixture) attributes(t *testing.T, url *string, names ...types.QueueAttributeName) map[string]string {
	t.Helper()
	out, err := w.sqs.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: names})
	ok(t, err)
	return out.Attributes
}

const encryptedByItself = "SqsManagedSseEnabled"

func TestAQueueIsMadeOnceAndItsNameRests(t *testing.T) {
	w := newFixture(t, queueless)
	name, attributes := "jobs", map[string]string{"MessageRetentionPeriod": "300", encryptedByItself: "true"}
	again := func(change map[string]string) error {
		next := maps.Clone(attributes)
		maps.Copy(next, change)
		return drop(w.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: next}))
	}
	url := w.createQueue(t, name, attributes)
	if same := w.createQueue(t, name, attributes); *same != *url || *url != "https://sqs.us-east-1.amazonaws.com/000000000000/jobs" {
		t.Errorf("the same queue is at %s and %s", *url, *same)
	}
	wantCode(t, again(map[string]string{"MessageRetentionPeriod": "301"}), "QueueAlreadyExists")
	wantCode(t, again(map[string]string{"VisibilityTimeout": "31"}), "QueueAlreadyExists")
	wantCode(t, again(map[string]string{"VisibilityTimeout": "30"}), "")
	born := w.attributes(t, url, "CreatedTimestamp")["CreatedTimestamp"]

	w.clock.advance(10 * time.Second)
	ok(t, drop(w.sqs.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: url})))
	wantCode(t, drop(w.sqs.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})), "AWS.SimpleQueueService.NonExistentQueue")
	wantCode(t, drop(w.sqs.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: url})), "AWS.SimpleQueueService.NonExistentQueue")
	w.clock.advance(59 * time.Second)
	wantCode(t, again(nil), "AWS.SimpleQueueService.QueueDeletedRecently")
	w.clock.advance(time.Second)
	ok(t, again(map[string]string{"MessageRetentionPeriod": "301"}))
	got := w.attributes(t, url, "CreatedTimestamp", "MessageRetentionPeriod")
	want := map[string]string{"CreatedTimestamp": strconv.FormatInt(w.clock.Now().Unix(), 10), "MessageRetentionPeriod": "301"}
	if diff := cmp.Diff(want, got); diff != "" || got["CreatedTimestamp"] == born {
		t.Errorf("the second queue of that name (-want +got):\n%s", diff)
	}
}

func TestQueueAttributesAreSetAllOrNone(t *testing.T) {
	const policy = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"sqs:SendMessage","Resource":"*"}}`
	for name, tt := range map[string]struct {
		set  map[string]string
		code string
		want map[string]string // beside the defaults
	}{
		"nothing more than the defaults": {set: map[string]string{"DelaySeconds": "0"}},
		"a retention":                    {set: map[string]string{"MessageRetentionPeriod": "300"}, want: map[string]string{"MessageRetentionPeriod": "300"}},
		"a retention that is too short":  {set: map[string]string{"MessageRetentionPeriod": "59"}, code: "InvalidAttributeValue"},
		"a retention that is no number":  {set: map[string]string{"MessageRetentionPeriod": "5m"}, code: "InvalidAttributeValue"},
		"one right and one wrong":        {set: map[string]string{"DelaySeconds": "1", "VisibilityTimeout": "-1"}, code: "InvalidAttributeValue"},
		"a key switches SQS's own encryption off": {set: map[string]string{"KmsMasterKeyId": "alias/q"},
			want: map[string]string{"KmsMasterKeyId": "alias/q", "KmsDataKeyReusePeriodSeconds": "300", encryptedByItself: "false"}},
		"no encryption at all":             {set: map[string]string{encryptedByItself: "false"}, want: map[string]string{encryptedByItself: "false"}},
		"both kinds of encryption":         {set: map[string]string{"KmsMasterKeyId": "alias/q", encryptedByItself: "true"}, code: "InvalidAttributeValue"},
		"an encryption that is no boolean": {set: map[string]string{encryptedByItself: "yes"}, code: "InvalidAttributeValue"},
		"a policy":                         {set: map[string]string{"Policy": policy}, want: map[string]string{"Policy": policy}},
		"an empty policy is none":          {set: map[string]string{"Policy": ""}},
		"a policy that is no JSON":         {set: map[string]string{"Policy": "{"}, code: "InvalidAttributeValue"},
		"a policy and something behind":    {set: map[string]string{"Policy": policy + "{}"}, code: "InvalidAttributeValue"},
		"a policy without statement":       {set: map[string]string{"Policy": `{"Version":"2012-10-17"}`}, code: "InvalidAttributeValue"},
		"a policy without principal": {set: map[string]string{"Policy": `{"Statement":[{"Effect":"Allow","Action":"sqs:*","Resource":"*"}]}`},
			code: "InvalidAttributeValue"},
		"a policy of another service": {set: map[string]string{"Policy": `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"*"}]}`},
			code: "InvalidAttributeValue"},
		"a policy that hopes": {set: map[string]string{"Policy": `{"Statement":[{"Effect":"Maybe","Principal":"*","Action":"sqs:*","Resource":"*"}]}`},
			code: "InvalidAttributeValue"},
		"a policy with an element that is not emulated": {set: map[string]string{"Policy": `{"Statement":[{"Effect":"Allow","NotPrincipal":"*","Action":"sqs:*","Resource":"*"}]}`},
			code: "InvalidAttributeValue"},
		"an attribute that there is not":      {set: map[string]string{"Colour": "red"}, code: "InvalidAttributeName"},
		"an attribute that cannot be set":     {set: map[string]string{"QueueArn": "arn"}, code: "InvalidAttributeName"},
		"an order, which queues do not have":  {set: map[string]string{"FifoQueue": "true"}, code: "InvalidAttributeName"},
		"no attribute, which is a bad demand": {set: map[string]string{}, code: "MissingParameter"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, queueless)
			url := w.createQueue(t, "jobs", nil)
			born := strconv.FormatInt(w.clock.Now().Unix(), 10)
			want := map[string]string{
				"QueueArn": "arn:aws:sqs:us-east-1:000000000000:jobs", "CreatedTimestamp": born, "LastModifiedTimestamp": born, encryptedByItself: "true",
				"DelaySeconds": "0", "MaximumMessageSize": "1048576", "MessageRetentionPeriod": "345600", "ReceiveMessageWaitTimeSeconds": "0", "VisibilityTimeout": "30",
				"ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesNotVisible": "0", "ApproximateNumberOfMessagesDelayed": "0",
			}
			w.clock.advance(time.Minute)
			_, err := w.sqs.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: url, Attributes: tt.set})
			wantCode(t, err, tt.code)
			if tt.code == "" {
				want["LastModifiedTimestamp"] = strconv.FormatInt(w.clock.Now().Unix(), 10)
			}
			maps.Copy(want, tt.want)
			if diff := cmp.Diff(want, w.attributes(t, url, "All")); diff != "" {
				t.Errorf("attributes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAKeyGivesWayToSQSsOwnEncryptionOnlyWhenItIsTakenAway(t *testing.T) {
	w := newFixture(t, queueless)
	url := w.createQueue(t, "jobs", map[string]string{"KmsMasterKeyId": "alias/q"})
	set := func(a map[string]string) error {
		return drop(w.sqs.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: url, Attributes: a}))
	}
	wantCode(t, set(map[string]string{encryptedByItself: "true"}), "InvalidAttributeValue")
	ok(t, set(map[string]string{encryptedByItself: "true", "KmsMasterKeyId": ""}))
	got := w.attributes(t, url, "KmsMasterKeyId", encryptedByItself)
	if diff := cmp.Diff(map[string]string{encryptedByItself: "true"}, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if some := w.attributes(t, url); len(some) != 0 {
		t.Errorf("without a name it shows %v", some)
	}
	wantCode(t, drop(w.sqs.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []types.QueueAttributeName{"Colour"}})), "InvalidAttributeName")
}

func TestAQueueObeysItsAttributes(t *testing.T) {
	w := newFixture(t, queueless)
	url := w.createQueue(t, "jobs", map[string]string{"MessageRetentionPeriod": "60", "VisibilityTimeout": "5", "DelaySeconds": "2"})
	take := func(wait int32) int {
		t.Helper()
		out, err := w.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: wait})
		ok(t, err)
		return len(out.Messages)
	}
	ok(t, w.cloud.SendMessage("jobs", "hello"))
	counts := func(visible, hidden, delayed string) {
		t.Helper()
		want := map[string]string{"ApproximateNumberOfMessages": visible, "ApproximateNumberOfMessagesNotVisible": hidden, "ApproximateNumberOfMessagesDelayed": delayed}
		if diff := cmp.Diff(want, w.attributes(t, url, "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed")); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	}
	counts("0", "0", "1")
	if n := take(0); n != 0 {
		t.Error("a delayed message was handed out")
	}
	w.clock.advance(2 * time.Second)
	counts("1", "0", "0")
	if n := take(0); n != 1 {
		t.Error("after its delay there is no message")
	}
	counts("0", "1", "0")
	w.clock.advance(5 * time.Second)
	if n := take(0); n != 1 {
		t.Error("after the queue's own timeout the message did not come back")
	}
	w.clock.advance(54 * time.Second)
	counts("0", "0", "0")
	if n := take(0); n != 0 {
		t.Error("a message outlived the retention")
	}
}

func TestAPollUsesTheQueuesWaitTimeAndEndsWithTheQueue(t *testing.T) {
	w := newFixture(t, queueless)
	url := w.createQueue(t, "jobs", map[string]string{"ReceiveMessageWaitTimeSeconds": "20"})
	got := make(chan error, 1)
	go func() { got <- drop(w.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url})) }()
	w.clock.waitTimers(t, 1) // the poll waits, although the request did not say so
	ok(t, drop(w.sqs.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: url})))
	wantCode(t, <-got, "AWS.SimpleQueueService.NonExistentQueue")
}

func TestQueueTagsAndLists(t *testing.T) {
	w := newFixture(t, queueless)
	ctx, tagsOf := t.Context(), func(url *string) map[string]string {
		t.Helper()
		out, err := w.sqs.ListQueueTags(t.Context(), &sqs.ListQueueTagsInput{QueueUrl: url})
		ok(t, err)
		return out.Tags
	}
	made, err := w.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: sdk.String("b-2"), Tags: map[string]string{"team": "ml", "old": "1"}})
	ok(t, err)
	ok(t, drop(w.sqs.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: made.QueueUrl, Tags: map[string]string{"team": "data", "new": ""}})))
	ok(t, drop(w.sqs.UntagQueue(ctx, &sqs.UntagQueueInput{QueueUrl: made.QueueUrl, TagKeys: []string{"old", "never"}})))
	if diff := cmp.Diff(map[string]string{"team": "data", "new": ""}, tagsOf(made.QueueUrl)); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	wantCode(t, drop(w.sqs.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: made.QueueUrl, Tags: map[string]string{"aws:x": "1"}})), "InvalidParameterValue")
	wantCode(t, drop(w.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: sdk.String("b.2")})), "InvalidParameterValue")

	bare := w.createQueue(t, "b-1", nil)
	if tags := tagsOf(bare); len(tags) != 0 {
		t.Errorf("a queue without tags has %v", tags)
	}
	w.createQueue(t, "a", nil)
	w.createQueue(t, "b-3", nil)
	var names []string
	pages := sqs.NewListQueuesPaginator(w.sqs, &sqs.ListQueuesInput{QueueNamePrefix: sdk.String("b-"), MaxResults: sdk.Int32(2)})
	turns := 0
	for ; pages.HasMorePages(); turns++ {
		page, err := pages.NextPage(ctx)
		ok(t, err)
		for _, url := range page.QueueUrls {
			names = append(names, url[len("https://sqs.us-east-1.amazonaws.com/000000000000/"):])
		}
	}
	if turns != 2 || !slices.Equal(names, []string{"b-1", "b-2", "b-3"}) {
		t.Errorf("%d pages with %q", turns, names)
	}
	wantCode(t, drop(w.sqs.ListQueues(ctx, &sqs.ListQueuesInput{NextToken: sdk.String("x")})), "InvalidParameterValue")
}

func TestANewQueueIsFoundLater(t *testing.T) {
	w := newFixture(t, func(c *sandboxaws.Config) { c.Delays.Visible = 3 * time.Second })
	w.queueURL(t) // one of the config has been there for long
	name := "jobs"
	url := w.createQueue(t, name, nil)
	wantCode(t, drop(w.sqs.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})), "AWS.SimpleQueueService.NonExistentQueue")
	wantCode(t, drop(w.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})), "")
	w.clock.advance(3 * time.Second)
	if got := w.attributes(t, url, "QueueArn"); len(got) != 1 {
		t.Errorf("three seconds later it shows %v", got)
	}
}

func TestAStaleQueueIsTheOldOne(t *testing.T) {
	w := newFixture(t, nil)
	url := w.queueURL(t)
	remove, err := w.cloud.Inject(sandboxaws.Fault{Service: "sqs", Stale: true})
	ok(t, err)
	ok(t, drop(w.sqs.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: url, Attributes: map[string]string{"MessageRetentionPeriod": "600"}})))
	ok(t, drop(w.sqs.TagQueue(t.Context(), &sqs.TagQueueInput{QueueUrl: url, Tags: map[string]string{"a": "b"}})))
	for _, want := range []struct {
		retention string
		tags      int
	}{{"300", 0}, {"600", 1}} {
		tags, err := w.sqs.ListQueueTags(t.Context(), &sqs.ListQueueTagsInput{QueueUrl: url})
		ok(t, err)
		if got := w.attributes(t, url, "MessageRetentionPeriod")["MessageRetentionPeriod"]; got != want.retention || len(tags.Tags) != want.tags {
			t.Errorf("retention %s and %d tags, want %+v", got, len(tags.Tags), want)
		}
		remove()
	}
}
