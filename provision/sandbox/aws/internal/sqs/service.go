// Package sqs is SQS: queues with their attributes, policies, tags and messages.
package sqs

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Service is SQS in one account.
type Service struct {
	account *api.Account
	queues  []*queue             // by creation; clusters have one or two
	deleted map[string]time.Time // names of deleted queues, and when
}

// New has no queues.
func New(account *api.Account) *Service {
	return &Service{account: account, deleted: map[string]time.Time{}}
}

// Clone copies deep enough that nothing later shows in it.
func (svc *Service) Clone() *Service {
	out := *svc
	out.queues = api.Clones(svc.queues)
	for _, q := range out.queues {
		q.attributes, q.tags, q.messages = maps.Clone(q.attributes), maps.Clone(q.tags), api.Clones(q.messages)
	}
	out.deleted = maps.Clone(svc.deleted)
	return &out
}

// Table is what SQS can do here.
func (svc *Service) Table() api.Table {
	return api.Table{Operations: svc.operations(), Authorizations: svc.authorizations(), Required: required()}
}

// Create makes a queue that every caller finds at once.
func (svc *Service) Create(name string, attributes map[string]string) error {
	q := newQueue(name, svc.account.Clock.Now().Add(-svc.account.Delays.Visible)) // it has been there for long
	if err := q.set(attributes); err != nil {
		return err
	}
	svc.queues = append(svc.queues, q)
	return nil
}

// Send puts a message on a queue.
func (svc *Service) Send(queueName, body string) error {
	q := svc.queue(queueName)
	if q == nil {
		return fmt.Errorf("sending to queue %q: there is none", queueName)
	}
	q.put(svc.account.NewID("message"), body, svc.account.Clock.Now())
	return nil
}

// Deliver puts an event on the queue of an ARN, if there is one whose policy lets
// the EventBridge rule do so.
func (svc *Service) Deliver(queueARN, ruleARN, body string, now time.Time) bool {
	n := slices.IndexFunc(svc.queues, func(q *queue) bool { return svc.ARN(q.name) == queueARN })
	if n < 0 {
		return false
	}
	q := svc.queues[n]
	input := sending{service: "events.amazonaws.com", queue: queueARN, keys: map[string]string{
		"aws:securetransport": "true", "aws:sourcearn": ruleARN, "aws:sourceaccount": svc.account.ID,
		"aws:principalisawsservice": "true", "aws:principalservicename": "events.amazonaws.com",
	}}
	if !q.policy.allows(input) {
		return false
	}
	q.put(svc.account.NewID("message"), body, now)
	return true
}

func (svc *Service) operations() map[string]api.Operation {
	return map[string]api.Operation{
		"GetQueueUrl":        {Read: true, Run: svc.getQueueURL},
		"ReceiveMessage":     {Unlocked: true, Run: svc.receiveMessage},
		"SendMessage":        {Run: svc.sendMessage},
		"DeleteMessage":      {Run: svc.deleteMessage},
		"CreateQueue":        {Run: svc.createQueue},
		"DeleteQueue":        {Run: svc.deleteQueue},
		"ListQueues":         {Read: true, Run: svc.listQueues},
		"GetQueueAttributes": {Read: true, Run: svc.getQueueAttributes},
		"SetQueueAttributes": {Run: svc.setQueueAttributes},
		"TagQueue":           {Run: svc.tagQueue},
		"UntagQueue":         {Run: svc.untagQueue},
		"ListQueueTags":      {Read: true, Run: svc.listQueueTags},
	}
}

func (svc *Service) queueURL(name string) string {
	return fmt.Sprintf("https://sqs.%s.amazonaws.com/%s/%s", svc.account.Region, svc.account.ID, name)
}

func errNoQueue() error {
	return api.Refuse("QueueDoesNotExist", "The specified queue does not exist.")
}

// ErrorCode is the code of SQS's older protocol, which clients still get in a
// header and go by.
func ErrorCode(code string) string {
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

func (svc *Service) getQueueURL(in *api.Call) (any, error) {
	var input struct {
		QueueName              string
		QueueOwnerAWSAccountId string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	q, err := svc.visibleQueue(input.QueueName)
	if err != nil || input.QueueOwnerAWSAccountId != "" && input.QueueOwnerAWSAccountId != svc.account.ID {
		return nil, errNoQueue()
	}
	return map[string]string{"QueueUrl": svc.queueURL(q.name)}, nil
}
