package sqs

import (
	"crypto/md5"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// isNoText reports whether SQS takes no message with that character: control characters
// but tab and the ends of lines, and the two of the basic plane that are none.
func isNoText(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
}

// sendMessage puts a message on a queue. Message attributes are not emulated.
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
	if strings.ContainsFunc(input.MessageBody, isNoText) {
		return nil, api.Refuse("InvalidMessageContents", "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF.")
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
