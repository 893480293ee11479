package sqs

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAMessageIsVisibleAfterItsDelay(t *testing.T) {
	for name, tt := range map[string]struct {
		queue, message string // seconds of delay; "" gives none
		at             time.Duration
		visible        bool
	}{
		"at once on a queue without a delay":           {"", "", 0, true},
		"not before the queue's delay is over":         {"10", "", 10*time.Second - 1, false},
		"once the queue's delay is over":               {"10", "", 10 * time.Second, true},
		"not before its own delay is over":             {"", "900", 15*time.Minute - 1, false},
		"once its own delay, the longest, is over":     {"", "900", 15 * time.Minute, true},
		"at once where its own delay of 0 counts":      {"900", "0", 0, true},
		"after its own delay, which the queue's bound": {"5", "20", 19 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			given := map[string]string{}
			if tt.queue != "" {
				given["DelaySeconds"] = tt.queue
			}
			f, input := newFixture(t, given), members{"MessageBody": "hello"}
			if tt.message != "" {
				input["DelaySeconds"], _ = strconv.Atoi(tt.message)
			}
			if code := f.do(t, "SendMessage", input, nil); code != "" {
				t.Fatal(code)
			}
			f.clock.now = f.clock.now.Add(tt.at)
			if got := f.receive(t, nil); (len(got) == 1) != tt.visible {
				t.Errorf("%d messages, visible: %t", len(got), tt.visible)
			}
		})
	}
}

func TestAReceiveTakesAsManyMessagesAsItNames(t *testing.T) {
	for name, tt := range map[string]struct {
		input members
		want  int
		code  string
	}{
		"one where it names no number": {members{}, 1, ""},
		"ten, the most":                {members{"MaxNumberOfMessages": 10}, 10, ""},
		"none by the number 0":         {members{"MaxNumberOfMessages": 0}, 0, "InvalidParameterValue"},
		"none by more than ten":        {members{"MaxNumberOfMessages": 11}, 0, "InvalidParameterValue"},
		"none by a poll over 20 s":     {members{"WaitTimeSeconds": 21}, 0, "InvalidParameterValue"},
		"none by a poll below 0":       {members{"WaitTimeSeconds": -1}, 0, "InvalidParameterValue"},
		"none by a timeout over 12 h":  {members{"VisibilityTimeout": 43201}, 0, "InvalidParameterValue"},
		"one by a timeout of 12 h":     {members{"VisibilityTimeout": 43200}, 1, ""},
		"none by a timeout below 0":    {members{"VisibilityTimeout": -1}, 0, "InvalidParameterValue"},
		"none by a number in a string": {members{"MaxNumberOfMessages": "10"}, 0, "ValidationException"},
		"none by a misspelt parameter": {members{"MaxMessages": 10}, 0, "ValidationException"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			for n := range 12 {
				f.send(t, fmt.Sprint(n))
			}
			var response struct{ Messages []received }
			if code := f.do(t, "ReceiveMessage", tt.input, &response); code != tt.code || len(response.Messages) != tt.want {
				t.Errorf("%d messages and the code %q, want %d and %q", len(response.Messages), code, tt.want, tt.code)
			}
			for n, m := range response.Messages {
				if m.Body != strconv.Itoa(n) {
					t.Errorf("message %d is %q", n, m.Body)
				}
			}
			if hidden := len(f.receive(t, members{"MaxNumberOfMessages": 10})); hidden != min(12-tt.want, 10) {
				t.Errorf("%d are left to receive after %d were taken", hidden, tt.want)
			}
		})
	}
}

func TestAReceivedMessageIsHiddenForItsTimeout(t *testing.T) {
	for name, tt := range map[string]struct {
		queue   string
		input   members
		at      time.Duration
		visible bool
	}{
		"for 30 s where neither names a timeout": {"", nil, 30*time.Second - 1, false},
		"no longer than these 30 s":              {"", nil, 30 * time.Second, true},
		"for the queue's timeout":                {"60", nil, time.Minute - 1, false},
		"no longer than the queue's timeout":     {"60", nil, time.Minute, true},
		"for the timeout of the receive":         {"60", members{"VisibilityTimeout": 90}, 90*time.Second - 1, false},
		"no longer than the receive's timeout":   {"60", members{"VisibilityTimeout": 5}, 5 * time.Second, true},
		"not at all by a timeout of 0":           {"60", members{"VisibilityTimeout": 0}, 0, true},
		"not at all by the queue's timeout of 0": {"0", nil, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			given := map[string]string{}
			if tt.queue != "" {
				given["VisibilityTimeout"] = tt.queue
			}
			f := newFixture(t, given)
			f.send(t, "hello")
			if first := f.receive(t, tt.input); len(first) != 1 {
				t.Fatalf("the first receive takes %d messages", len(first))
			}
			f.clock.now = f.clock.now.Add(tt.at)
			if second := f.receive(t, nil); (len(second) == 1) != tt.visible {
				t.Errorf("the second receive takes %d messages, visible: %t", len(second), tt.visible)
			}
		})
	}
}

func TestAReceiptHandleIsOfOneReceive(t *testing.T) {
	const at0 = 0
	for name, tt := range map[string]struct {
		handle func(first, second string) string
		code   string
		left   int
	}{
		"the last one deletes the message":           {func(_, second string) string { return second }, "", 0},
		"an earlier one deletes nothing":             {func(first, _ string) string { return first }, "", 1},
		"one that was cut is none":                   {func(_, second string) string { return second[1:] }, "ReceiptHandleIsInvalid", 1},
		"an id is none":                              {func(_, second string) string { return "i-" + second }, "ReceiptHandleIsInvalid", 1},
		"one that no receive gave deletes nothing":   {func(_, second string) string { return second + "0" }, "", 1},
		"one in capitals is not that of the message": {func(_, second string) string { return strings.ToUpper(second) }, "ReceiptHandleIsInvalid", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.send(t, "hello")
			first := f.receive(t, members{"VisibilityTimeout": at0})
			second := f.receive(t, members{"VisibilityTimeout": at0})
			if first[0].ReceiptHandle == second[0].ReceiptHandle || first[0].MessageID != second[0].MessageID {
				t.Fatalf("two receives of one message: %+v and %+v", first[0], second[0])
			}
			handle := tt.handle(first[0].ReceiptHandle, second[0].ReceiptHandle)
			for _, turn := range []string{"once", "twice"} {
				if code := f.do(t, "DeleteMessage", members{"ReceiptHandle": handle}, nil); code != tt.code {
					t.Errorf("deleting %s: %q, want %q", turn, code, tt.code)
				}
			}
			if left := f.receive(t, nil); len(left) != tt.left {
				t.Errorf("%d messages are left, want %d", len(left), tt.left)
			}
		})
	}
}

func TestAnExpiredHandleDeletesUntilTheNextReceive(t *testing.T) {
	f := newFixture(t, nil)
	f.send(t, "a", "b")
	handles := f.receive(t, members{"MaxNumberOfMessages": 10, "VisibilityTimeout": 5})
	f.clock.now = f.clock.now.Add(time.Hour)
	if code := f.do(t, "DeleteMessage", members{"ReceiptHandle": handles[0].ReceiptHandle}, nil); code != "" {
		t.Fatal(code)
	}
	left := f.receive(t, members{"MaxNumberOfMessages": 10})
	if len(left) != 1 || left[0].Body != "b" {
		t.Errorf("left are %+v", left)
	}
}

func TestAMessageShowsTheSystemAttributesThatAReceiveNames(t *testing.T) {
	sent := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	stamp := func(d time.Duration) string { return strconv.FormatInt(sent.Add(d).UnixMilli(), 10) }
	all := map[string]string{"SentTimestamp": stamp(0), "ApproximateReceiveCount": "3", "ApproximateFirstReceiveTimestamp": stamp(time.Second)}
	for name, tt := range map[string]struct {
		input members
		want  map[string]string
		code  string
	}{
		"none where it names none":                   {members{}, nil, ""},
		"one by its name":                            {members{"MessageSystemAttributeNames": []string{"SentTimestamp"}}, map[string]string{"SentTimestamp": all["SentTimestamp"]}, ""},
		"one by the older parameter":                 {members{"AttributeNames": []string{"ApproximateReceiveCount"}}, map[string]string{"ApproximateReceiveCount": "3"}, ""},
		"when it was received first":                 {members{"MessageSystemAttributeNames": []string{"ApproximateFirstReceiveTimestamp"}}, map[string]string{"ApproximateFirstReceiveTimestamp": all["ApproximateFirstReceiveTimestamp"]}, ""},
		"all of them":                                {members{"MessageSystemAttributeNames": []string{"All"}}, all, ""},
		"those of both parameters":                   {members{"MessageSystemAttributeNames": []string{"SentTimestamp"}, "AttributeNames": []string{"ApproximateReceiveCount"}}, map[string]string{"SentTimestamp": all["SentTimestamp"], "ApproximateReceiveCount": "3"}, ""},
		"none of a queue in order, which it lacks":   {members{"MessageSystemAttributeNames": []string{"SequenceNumber", "MessageGroupId"}}, nil, ""},
		"not one that SQS does not have":             {members{"MessageSystemAttributeNames": []string{"Colour"}}, nil, "InvalidAttributeName"},
		"not the sender, which is not emulated":      {members{"AttributeNames": []string{"SenderId"}}, nil, "InvalidAttributeName"},
		"no attributes of messages, which have none": {members{"MessageAttributeNames": []string{"All"}}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.send(t, "hello")
			for range 2 {
				f.clock.now = f.clock.now.Add(time.Second)
				f.receive(t, members{"VisibilityTimeout": 0})
			}
			var response struct{ Messages []received }
			if code := f.do(t, "ReceiveMessage", tt.input, &response); code != tt.code {
				t.Fatalf("code %q, want %q", code, tt.code)
			}
			if tt.code != "" {
				return
			}
			got := response.Messages[0].Attributes
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("attributes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestABodyIsOfTheCharactersThatSQSTakes(t *testing.T) {
	for name, tt := range map[string]struct{ body, code string }{
		"letters":                           {"hello", ""},
		"white space of XML":                {"a\tb\nc\rd", ""},
		"letters of all scripts":            {"é 世界 😀", ""},
		"the last of the basic plane":       {"\ufffd", ""},
		"a null":                            {"a\x00", "InvalidMessageContents"},
		"a vertical tab":                    {"a\vb", "InvalidMessageContents"},
		"an escape":                         {"\x1b[0m", "InvalidMessageContents"},
		"a code point that is no character": {"a\ufffe", "InvalidMessageContents"},
		"another one of these":              {"\uffff", "InvalidMessageContents"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			if code := f.do(t, "SendMessage", members{"MessageBody": tt.body}, nil); code != tt.code {
				t.Fatalf("code %q, want %q", code, tt.code)
			}
			if got := f.receive(t, nil); (len(got) == 1) != (tt.code == "") || len(got) == 1 && got[0].Body != tt.body {
				t.Errorf("received %+v", got)
			}
		})
	}
}

func TestASentMessageIsBoundedAndHasADigest(t *testing.T) {
	f := newFixture(t, map[string]string{"MaximumMessageSize": "1024"})
	for body, code := range map[string]string{
		strings.Repeat("a", 1024): "", strings.Repeat("a", 1025): "InvalidParameterValue",
		strings.Repeat("é", 512): "", strings.Repeat("é", 513): "InvalidParameterValue", // its size is in bytes
	} {
		if got := f.do(t, "SendMessage", members{"MessageBody": body}, nil); got != code {
			t.Errorf("%d bytes: %q, want %q", len(body), got, code)
		}
	}
	for _, delay := range []int{-1, 901} {
		if got := f.do(t, "SendMessage", members{"MessageBody": "a", "DelaySeconds": delay}, nil); got != "InvalidParameterValue" {
			t.Errorf("a delay of %d s: %q", delay, got)
		}
	}
	f = newFixture(t, nil)
	var sent struct {
		MessageID        string `json:"MessageId"`
		MD5OfMessageBody string
	}
	if code := f.do(t, "SendMessage", members{"MessageBody": "hello"}, &sent); code != "" {
		t.Fatal(code)
	}
	const digest = "5d41402abc4b2a76b9719d911017c592" // of hello, by RFC 1321
	if got := f.receive(t, nil)[0]; sent.MD5OfMessageBody != digest || got.MD5OfBody != digest || got.MessageID != sent.MessageID {
		t.Errorf("sent %+v, received %+v", sent, got)
	}
}

func TestAMessageIsKeptForTheRetention(t *testing.T) {
	f := newFixture(t, map[string]string{"MessageRetentionPeriod": "3600"})
	count := func() string {
		t.Helper()
		var response struct{ Attributes map[string]string }
		if code := f.do(t, "GetQueueAttributes", members{"AttributeNames": []string{"ApproximateNumberOfMessages"}}, &response); code != "" {
			t.Fatal(code)
		}
		return response.Attributes["ApproximateNumberOfMessages"]
	}
	f.send(t, "old")
	f.clock.now = f.clock.now.Add(30 * time.Minute)
	f.send(t, "young")
	f.receive(t, members{"VisibilityTimeout": 0}) // does not make it younger
	if got := count(); got != "2" {
		t.Errorf("after 30 minutes there are %s", got)
	}
	f.clock.now = f.clock.now.Add(31 * time.Minute)
	if got := count(); got != "1" {
		t.Errorf("after 61 minutes there are %s", got)
	}
	if code := f.do(t, "SetQueueAttributes", members{"Attributes": members{"MessageRetentionPeriod": "60"}}, nil); code != "" {
		t.Fatal(code)
	}
	if got := f.receive(t, members{"MaxNumberOfMessages": 10}); len(got) != 0 || count() != "0" {
		t.Errorf("with a shorter retention there are %+v", got)
	}
}
