package sqs

import (
	"crypto/md5"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// sendMessage puts a message on a queue. Message attributes are not played.
func (svc *Service) sendMessage(in *api.Call) (any, error) {
	var input struct {
		QueueUrl, MessageBody string
		DelaySeconds          *int
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	q, err := svc.queueAt(input.QueueUrl)
	if err != nil {
		return nil, err
	}
	if most, _ := strconv.Atoi(q.attributes["MaximumMessageSize"]); len(input.MessageBody) > most {
		return nil, api.Refuse("InvalidParameterValue", "One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", most)
	}
	delay, err := in.Bound("DelaySeconds", input.DelaySeconds, 0, 900, asTheQueue)
	if err != nil {
		return nil, err
	}
	id := svc.account.NewID("message")
	q.put(id, input.MessageBody, in.Now)
	if delay != asTheQueue {
		q.messages[len(q.messages)-1].hidden = in.Now.Add(time.Duration(delay) * time.Second)
	}
	sum := md5.Sum([]byte(input.MessageBody))
	return map[string]any{"MessageId": id, "MD5OfMessageBody": hex.EncodeToString(sum[:])}, nil
}
