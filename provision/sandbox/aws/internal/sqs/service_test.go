package sqs

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// clock stands until it is set.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }
func (*clock) AfterFunc(time.Duration, func()) (stop func() bool) {
	return func() bool { return true }
}

const (
	account  = "111122223333"
	queueURL = "https://sqs.us-east-1.amazonaws.com/" + account + "/q"
	queueARN = "arn:aws:sqs:us-east-1:" + account + ":q"
)

// fixture is a service with a queue q of the given attributes.
type fixture struct {
	*Service
	clock *clock
}

func newFixture(t *testing.T, attributes map[string]string) fixture {
	t.Helper()
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	svc := New(&api.Account{ID: account, Region: "us-east-1", Clock: c})
	if err := svc.Create("q", attributes); err != nil {
		t.Fatal(err)
	}
	return fixture{svc, c}
}

// members are those of a request.
type members map[string]any

// do runs an operation and decodes what it returns into answer, unless that is nil;
// code is that of the error, "" without one. The queue is q where none is given.
func (f fixture) do(t *testing.T, op string, input members, response any) (code string) {
	t.Helper()
	if _, given := input["QueueUrl"]; !given && op != "CreateQueue" && op != "ListQueues" && op != "GetQueueUrl" {
		if input == nil {
			input = members{}
		}
		input["QueueUrl"] = queueURL
	}
	body, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.Table().Operations[op].Run(&api.Call{Op: op, Body: body, Now: f.clock.now})
	var failed *api.Error
	switch {
	case errors.As(err, &failed):
		return failed.Code
	case err != nil:
		t.Fatal(err)
	case response == nil:
		return ""
	}
	if body, err = json.Marshal(out); err == nil {
		err = json.Unmarshal(body, response)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}

// received is a message as ReceiveMessage returns it.
type received struct {
	MessageID     string `json:"MessageId"`
	ReceiptHandle string
	Body          string
	MD5OfBody     string
	Attributes    map[string]string
}

func (f fixture) receive(t *testing.T, input members) []received {
	t.Helper()
	var response struct{ Messages []received }
	if code := f.do(t, "ReceiveMessage", input, &response); code != "" {
		t.Fatalf("receiving fails with %s", code)
	}
	return response.Messages
}

func (f fixture) send(t *testing.T, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		if err := f.Send("q", body); err != nil {
			t.Fatal(err)
		}
	}
}
