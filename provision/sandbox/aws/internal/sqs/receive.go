package sqs

import (
	"crypto/md5"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Bounds of SQS's messages; those of its queues are in sqs_queues.go.
const (
	longestVisibility = 12 * time.Hour
	longestPoll       = 20 * time.Second
)

// queuePathForm is the end of a queue's URL: its account and its name.
var queuePathForm = regexp.MustCompile(`/(\d{12})/([^/]+)$`)

// queueAt finds a queue by its URL; only account and name count, since the
// URL's host is not where this server listens.
func (svc *Service) queueAt(url string) (*queue, error) {
	m := queuePathForm.FindStringSubmatch(url)
	switch {
	case m == nil:
		return nil, api.Refuse("InvalidAddress", "The address %s is not valid for this endpoint.", url)
	case m[1] != svc.account.ID:
		return nil, errNoQueue()
	}
	return svc.visibleQueue(m[2])
}

// visibleQueue finds a queue by name. A new one takes its time to be found.
func (svc *Service) visibleQueue(name string) (*queue, error) {
	q := svc.queue(name)
	if q == nil || svc.account.Clock.Now().Before(q.created.Add(svc.account.Delays.Visible)) {
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

// receiveMessage waits for messages for the time that the request gives. It holds the
// lock only while it reads the queue.
func (svc *Service) receiveMessage(in *api.Call) (any, error) {
	var input receiveInput
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	n, err := in.Bound("MaxNumberOfMessages", input.MaxNumberOfMessages, 1, 10, 1)
	if err != nil {
		return nil, err
	}
	hide, err := in.Bound("VisibilityTimeout", input.VisibilityTimeout, 0, int(longestVisibility.Seconds()), asTheQueue)
	if err != nil {
		return nil, err
	}
	wait, err := in.Bound("WaitTimeSeconds", input.WaitTimeSeconds, 0, int(longestPoll.Seconds()), asTheQueue)
	if err != nil {
		return nil, err
	}
	names := append(slices.Clone(input.AttributeNames), input.MessageSystemAttributeNames...)
	if err := checkMessageAttributes(names); err != nil {
		return nil, err
	}
	begin := svc.account.Clock.Now()
	for {
		svc.account.Lock()
		q, err := svc.queueAt(input.QueueUrl)
		if err != nil {
			svc.account.Unlock()
			return nil, err
		}
		now, end := svc.account.Clock.Now(), begin.Add(q.orSeconds(wait, "ReceiveMessageWaitTimeSeconds"))
		found := q.take(n, q.orSeconds(hide, "VisibilityTimeout"), now)
		response := messagesJSON(found, names)
		arrived, next := q.arrived, q.nextVisible(now, end)
		svc.account.Unlock()
		if len(found) > 0 || !now.Before(end) {
			return response, nil
		}
		if svc.rest(in, arrived, next.Sub(now)) {
			return response, nil
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
func (svc *Service) rest(in *api.Call, arrived <-chan struct{}, d time.Duration) bool {
	over := make(chan struct{})
	stop := svc.account.Clock.AfterFunc(d, func() { close(over) })
	defer stop()
	select {
	case <-arrived:
	case <-over:
	case <-in.Gone:
		return true
	}
	return false
}

// checkMessageAttributes refuses names of system attributes that SQS does not have, and the
// sender, which is not emulated. Those that messages here never have are none of that.
func checkMessageAttributes(names []string) error {
	for _, name := range names {
		switch name {
		case "All", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp":
		case "SequenceNumber", "MessageDeduplicationId", "MessageGroupId", "AWSTraceHeader", "DeadLetterQueueSourceArn":
		default:
			return api.Refuse("InvalidAttributeName", "Unknown Attribute %s.", name)
		}
	}
	return nil
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
			"ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.received.UnixMilli(), 10),
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
func (svc *Service) deleteMessage(in *api.Call) (any, error) {
	var input struct{ QueueUrl, ReceiptHandle string }
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	q, err := svc.queueAt(input.QueueUrl)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(input.ReceiptHandle, "message-") {
		return nil, api.Refuse("ReceiptHandleIsInvalid", "The input receipt handle %q is not valid.", input.ReceiptHandle)
	}
	q.messages = slices.DeleteFunc(q.messages, func(m *message) bool { return m.receipt == input.ReceiptHandle })
	return map[string]any{}, nil
}
