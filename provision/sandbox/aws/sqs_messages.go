package aws

import (
	"crypto/md5"
	"encoding/hex"
	"strconv"
	"time"
)

// sendMessage puts a message on a queue. Message attributes are not played.
func sendMessage(in *call) (any, error) {
	var ask struct {
		QueueUrl, MessageBody string
		DelaySeconds          *int
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	q, err := in.queueAt(ask.QueueUrl)
	if err != nil {
		return nil, err
	}
	if most, _ := strconv.Atoi(q.attributes["MaximumMessageSize"]); len(ask.MessageBody) > most {
		return nil, refuse("InvalidParameterValue", "One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", most)
	}
	delay, err := bound("DelaySeconds", ask.DelaySeconds, 0, 900, asTheQueue)
	if err != nil {
		return nil, err
	}
	id := in.st.id("message")
	q.put(id, ask.MessageBody, in.now)
	if delay != asTheQueue {
		q.messages[len(q.messages)-1].hidden = in.now.Add(time.Duration(delay) * time.Second)
	}
	sum := md5.Sum([]byte(ask.MessageBody))
	return map[string]any{"MessageId": id, "MD5OfMessageBody": hex.EncodeToString(sum[:])}, nil
}
