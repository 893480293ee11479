package aws

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of SQS's messages; those of its queues are in sqs_queues.go.
const (
	longestVisibility = 12 * time.Hour
	longestPoll       = 20 * time.Second
)

// queue is one SQS queue.
type queue struct {
	name              string
	created, modified time.Time
	attributes        map[string]string // that can be set; every one has its value or default
	policy            *queuePolicy      // the attribute Policy, nil without
	tags              map[string]string
	messages          []*message
	received          int           // for receipt handles
	arrived           chan struct{} // closed and replaced whenever a message may have become visible
}

type message struct {
	id, body string
	sent     time.Time
	hidden   time.Time // invisible until then
	receipt  string    // of the last receive
	receives int
}

// changed lets every waiting receiver look again.
func (q *queue) changed() {
	close(q.arrived)
	q.arrived = make(chan struct{})
}

// put adds a message. The caller holds the lock.
func (q *queue) put(id, body string, now time.Time) {
	q.forget(now)
	q.messages = append(q.messages, &message{id: id, body: body, sent: now, hidden: now.Add(q.seconds("DelaySeconds"))})
	q.changed()
}

// forget drops what is too old, so that a queue without a reader stays small.
func (q *queue) forget(now time.Time) {
	q.messages = slices.DeleteFunc(q.messages, func(m *message) bool { return now.Sub(m.sent) > q.seconds("MessageRetentionPeriod") })
}

// take hands out up to n visible messages and hides them for so long.
func (q *queue) take(n int, hide time.Duration, now time.Time) []*message {
	q.forget(now)
	var out []*message
	for _, m := range q.messages {
		if len(out) < n && !now.Before(m.hidden) {
			q.received++
			m.receipt = fmt.Sprintf("%s-%d", m.id, q.received)
			m.hidden = now.Add(hide)
			m.receives++
			out = append(out, m)
		}
	}
	return out
}

// SendMessage puts a message on a queue.
func (c *Cloud) SendMessage(queueName, body string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.st.queue(queueName)
	if q == nil {
		return fmt.Errorf("sending to queue %q: there is none", queueName)
	}
	q.put(c.st.id("message"), body, c.clock.Now())
	return nil
}

func sqsOperations() map[string]operation {
	return map[string]operation{
		"GetQueueUrl":        {read: true, run: getQueueURL},
		"ReceiveMessage":     {unlocked: true, run: receiveMessage},
		"SendMessage":        {run: sendMessage},
		"DeleteMessage":      {run: deleteMessage},
		"CreateQueue":        {run: createQueue},
		"DeleteQueue":        {run: deleteQueue},
		"ListQueues":         {read: true, run: listQueues},
		"GetQueueAttributes": {read: true, run: getQueueAttributes},
		"SetQueueAttributes": {run: setQueueAttributes},
		"TagQueue":           {run: tagQueue},
		"UntagQueue":         {run: untagQueue},
		"ListQueueTags":      {read: true, run: listQueueTags},
	}
}

func (in *call) queueURL(name string) string {
	return fmt.Sprintf("https://sqs.%s.amazonaws.com/%s/%s", in.cloud.cfg.Region, in.cloud.cfg.Account, name)
}

func errNoQueue() error {
	return refuse("QueueDoesNotExist", "The specified queue does not exist.")
}

// queryCode is the code of SQS's older protocol, which clients still get in a
// header and go by.
func queryCode(code string) string {
	switch code {
	case "QueueDoesNotExist":
		return "AWS.SimpleQueueService.NonExistentQueue"
	case "QueueNameExists":
		return "QueueAlreadyExists"
	case "QueueDeletedRecently":
		return "AWS.SimpleQueueService.QueueDeletedRecently"
	}
	return code
}

func getQueueURL(in *call) (any, error) {
	var ask struct {
		QueueName              string
		QueueOwnerAWSAccountId string
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	q, err := in.visibleQueue(ask.QueueName)
	if err != nil || ask.QueueOwnerAWSAccountId != "" && ask.QueueOwnerAWSAccountId != in.cloud.cfg.Account {
		return nil, errNoQueue()
	}
	return map[string]string{"QueueUrl": in.queueURL(q.name)}, nil
}

// queuePathForm is the end of a queue's URL: its account and its name.
var queuePathForm = regexp.MustCompile(`/(\d{12})/([^/]+)$`)

// queueAt finds a queue by its URL; only account and name count, since the
// URL's host is not where this server listens.
func (in *call) queueAt(url string) (*queue, error) {
	m := queuePathForm.FindStringSubmatch(url)
	switch {
	case m == nil:
		return nil, refuse("InvalidAddress", "The address %s is not valid for this endpoint.", url)
	case m[1] != in.cloud.cfg.Account:
		return nil, errNoQueue()
	}
	return in.visibleQueue(m[2])
}

// visibleQueue finds a queue by name. A new one takes its time to be found.
func (in *call) visibleQueue(name string) (*queue, error) {
	q := in.st.queue(name)
	if q == nil || in.cloud.clock.Now().Before(q.created.Add(in.cloud.cfg.Delays.Visible)) {
		return nil, errNoQueue()
	}
	return q, nil
}

type receiveInput struct {
	QueueUrl                    string
	MaxNumberOfMessages         *int
	VisibilityTimeout           *int
	WaitTimeSeconds             *int
	AttributeNames              []string
	MessageSystemAttributeNames []string
	MessageAttributeNames       []string
	ReceiveRequestAttemptId     string
}

// bound reads an optional number and checks its range.
func bound(name string, v *int, least, most, otherwise int) (int, error) {
	if v == nil {
		return otherwise, nil
	}
	if *v < least || *v > most {
		return 0, refuse("InvalidParameterValue", "Value %d for parameter %s is invalid. Reason: Must be between %d and %d.", *v, name, least, most)
	}
	return *v, nil
}

// receiveMessage waits for messages as long as it was asked to. It holds the
// lock only to look.
func receiveMessage(in *call) (any, error) {
	var ask receiveInput
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	n, err := bound("MaxNumberOfMessages", ask.MaxNumberOfMessages, 1, 10, 1)
	if err != nil {
		return nil, err
	}
	hide, err := bound("VisibilityTimeout", ask.VisibilityTimeout, 0, int(longestVisibility.Seconds()), asTheQueue)
	if err != nil {
		return nil, err
	}
	wait, err := bound("WaitTimeSeconds", ask.WaitTimeSeconds, 0, int(longestPoll.Seconds()), asTheQueue)
	if err != nil {
		return nil, err
	}
	names := append(slices.Clone(ask.AttributeNames), ask.MessageSystemAttributeNames...)
	c := in.cloud
	begin := c.clock.Now()
	for {
		c.mu.Lock()
		q, err := in.queueAt(ask.QueueUrl)
		if err != nil {
			c.mu.Unlock()
			return nil, err
		}
		now, end := c.clock.Now(), begin.Add(q.orSeconds(wait, "ReceiveMessageWaitTimeSeconds"))
		found := q.take(n, q.orSeconds(hide, "VisibilityTimeout"), now)
		answer := messagesJSON(found, names)
		arrived, next := q.arrived, q.nextVisible(now, end)
		c.mu.Unlock()
		if len(found) > 0 || !now.Before(end) {
			return answer, nil
		}
		if in.rest(arrived, next.Sub(now)) {
			return answer, nil
		}
	}
}

// asTheQueue stands for a number that the request leaves to the queue.
const asTheQueue = -1

// orSeconds is a number of seconds, or the queue's attribute.
func (q *queue) orSeconds(n int, attribute string) time.Duration {
	if n == asTheQueue {
		return q.seconds(attribute)
	}
	return time.Duration(n) * time.Second
}

// nextVisible is when a hidden message comes back, at the latest end.
func (q *queue) nextVisible(now, end time.Time) time.Time {
	for _, m := range q.messages {
		if m.hidden.After(now) && m.hidden.Before(end) {
			end = m.hidden
		}
	}
	return end
}

// rest waits for an arrival or for d; true means that the caller is gone.
func (in *call) rest(arrived <-chan struct{}, d time.Duration) bool {
	over := make(chan struct{})
	stop := in.cloud.clock.AfterFunc(d, func() { close(over) })
	defer stop()
	select {
	case <-arrived:
	case <-over:
	case <-in.gone:
		return true
	}
	return false
}

func messagesJSON(found []*message, names []string) map[string]any {
	out := map[string]any{}
	if len(found) == 0 {
		return out
	}
	var list []map[string]any
	for _, m := range found {
		sum := md5.Sum([]byte(m.body))
		attributes := map[string]string{}
		for name, value := range map[string]string{
			"SentTimestamp": strconv.FormatInt(m.sent.UnixMilli(), 10), "ApproximateReceiveCount": strconv.Itoa(m.receives),
		} {
			if slices.Contains(names, name) || slices.Contains(names, "All") {
				attributes[name] = value
			}
		}
		list = append(list, map[string]any{
			"MessageId": m.id, "ReceiptHandle": m.receipt, "Body": m.body, "MD5OfBody": hex.EncodeToString(sum[:]), "Attributes": attributes,
		})
	}
	out["Messages"] = list
	return out
}

// deleteMessage takes a message away by the receipt of its last receive. One
// that is gone already is no error, as in SQS.
func deleteMessage(in *call) (any, error) {
	var ask struct{ QueueUrl, ReceiptHandle string }
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	q, err := in.queueAt(ask.QueueUrl)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(ask.ReceiptHandle, "message-") {
		return nil, refuse("ReceiptHandleIsInvalid", "The input receipt handle %q is not valid.", ask.ReceiptHandle)
	}
	q.messages = slices.DeleteFunc(q.messages, func(m *message) bool { return m.receipt == ask.ReceiptHandle })
	return map[string]any{}, nil
}
