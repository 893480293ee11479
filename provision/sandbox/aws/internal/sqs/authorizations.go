package sqs

import (
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

func (svc *Service) authorizations() map[string]api.Authorization {
	out := map[string]api.Authorization{"ListQueues": api.Anything("sqs:ListQueues"), "CreateQueue": svc.createQueueRequests}
	for _, op := range []string{
		"GetQueueUrl", "SendMessage", "ReceiveMessage", "DeleteMessage", "DeleteQueue", "GetQueueAttributes", "SetQueueAttributes",
		"TagQueue", "UntagQueue", "ListQueueTags",
	} {
		out[op] = func(in *api.Call) []api.AuthorizationRequest { return []api.AuthorizationRequest{svc.ofQueue(in)} }
	}
	return out
}

// ofQueue is a request for the queue that the request names, by name or by URL.
func (svc *Service) ofQueue(in *api.Call) api.AuthorizationRequest {
	var input struct {
		QueueName, QueueUrl string
		Tags                map[string]string
		TagKeys             []string
	}
	in.Peek(&input)
	name := input.QueueName
	if name == "" {
		name = input.QueueUrl[strings.LastIndexByte(input.QueueUrl, '/')+1:]
	}
	q := api.AuthorizationRequest{Action: "sqs:" + in.Op, Resource: svc.ARN(name), RequestTags: input.Tags, Keys: input.TagKeys}
	if have := svc.queue(name); have != nil {
		q.Tags = have.tags
	}
	return q
}

func (svc *Service) createQueueRequests(in *api.Call) []api.AuthorizationRequest {
	return svc.ofQueue(in).AlsoTags("sqs:TagQueue")
}

// required are the members that the model requires.
func required() map[string][]string {
	out := map[string][]string{
		"CreateQueue": {"QueueName"}, "GetQueueUrl": {"QueueName"}, "DeleteMessage": {"QueueUrl", "ReceiptHandle"},
		"SetQueueAttributes": {"QueueUrl", "Attributes"}, "TagQueue": {"QueueUrl", "Tags"}, "UntagQueue": {"QueueUrl", "TagKeys"},
		"SendMessage": {"QueueUrl", "MessageBody"},
	}
	for _, op := range []string{"DeleteQueue", "GetQueueAttributes", "ListQueueTags", "ReceiveMessage"} {
		out[op] = []string{"QueueUrl"}
	}
	return out
}
