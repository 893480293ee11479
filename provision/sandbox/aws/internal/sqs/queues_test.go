package sqs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

func TestAQueueHasAName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "Jobs_2-x": true, strings.Repeat("a", 80): true, strings.Repeat("a", 81): false,
		"": false, "a.b": false, "a.fifo": false, "a/b": false, "a b": false, "é": false, "a\n": false,
	} {
		if got := ValidName(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
		code := ""
		if !want {
			code = "InvalidParameterValue"
		}
		if got := newFixture(t, nil).do(t, "CreateQueue", members{"QueueName": name}, nil); got != code {
			t.Errorf("creating %q: %q, want %q", name, got, code)
		}
	}
}

func TestAQueueIsFoundByTheEndOfItsURL(t *testing.T) {
	for name, tt := range map[string]struct{ url, code string }{
		"as it was given":         {queueURL, ""},
		"at another host":         {"http://127.0.0.1:4566/" + account + "/q", ""},
		"below another path":      {"http://127.0.0.1:4566/sqs/" + account + "/q", ""},
		"of another account":      {"https://sqs.us-east-1.amazonaws.com/999999999999/q", "QueueDoesNotExist"},
		"of another name":         {queueURL + "2", "QueueDoesNotExist"},
		"of the name in capitals": {"https://sqs.us-east-1.amazonaws.com/" + account + "/Q", "QueueDoesNotExist"},
		"with a slash at the end": {queueURL + "/", "InvalidAddress"},
		"without an account":      {"https://sqs.us-east-1.amazonaws.com/q", "InvalidAddress"},
		"of a short account":      {"https://sqs.us-east-1.amazonaws.com/1/q", "InvalidAddress"},
		"that is its name":        {"q", "InvalidAddress"},
		"that is its ARN":         {queueARN, "InvalidAddress"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			for _, op := range []string{"ReceiveMessage", "GetQueueAttributes", "ListQueueTags"} {
				if code := f.do(t, op, members{"QueueUrl": tt.url}, nil); code != tt.code {
					t.Errorf("%s: %q, want %q", op, code, tt.code)
				}
			}
		})
	}
}

func TestAURLIsGivenForAQueueOfTheAccount(t *testing.T) {
	for name, tt := range map[string]struct {
		input members
		code  string
	}{
		"by its name":              {members{"QueueName": "q"}, ""},
		"by its name and account":  {members{"QueueName": "q", "QueueOwnerAWSAccountId": account}, ""},
		"not for another account":  {members{"QueueName": "q", "QueueOwnerAWSAccountId": "999999999999"}, "QueueDoesNotExist"},
		"not for another name":     {members{"QueueName": "Q"}, "QueueDoesNotExist"},
		"not for its ARN":          {members{"QueueName": queueARN}, "QueueDoesNotExist"},
		"not by another parameter": {members{"Name": "q"}, "ValidationException"},
	} {
		t.Run(name, func(t *testing.T) {
			var response struct {
				QueueURL string `json:"QueueUrl"`
			}
			code := newFixture(t, nil).do(t, "GetQueueUrl", tt.input, &response)
			if code != tt.code || (code == "") != (response.QueueURL == queueURL) {
				t.Errorf("URL %q and code %q, want the code %q", response.QueueURL, code, tt.code)
			}
		})
	}
}

func TestNumbersOfAQueueHaveBounds(t *testing.T) {
	for name, bounds := range map[string][2]int{
		"DelaySeconds": {0, 900}, "MaximumMessageSize": {1024, 1048576}, "MessageRetentionPeriod": {60, 1209600},
		"ReceiveMessageWaitTimeSeconds": {0, 20}, "VisibilityTimeout": {0, 43200}, "KmsDataKeyReusePeriodSeconds": {60, 86400},
	} {
		for value, code := range map[string]string{
			fmt.Sprint(bounds[0]): "", fmt.Sprint(bounds[1]): "", fmt.Sprint(bounds[0] - 1): "InvalidAttributeValue", fmt.Sprint(bounds[1] + 1): "InvalidAttributeValue",
			"": "InvalidAttributeValue", "1.5": "InvalidAttributeValue", "99999999999999999999": "InvalidAttributeValue",
		} {
			f := newFixture(t, nil)
			if got := f.do(t, "SetQueueAttributes", members{"Attributes": members{name: value}}, nil); got != code {
				t.Errorf("%s of %q: %q, want %q", name, value, got, code)
			}
			if got := f.do(t, "CreateQueue", members{"QueueName": "new", "Attributes": members{name: value}}, nil); got != code {
				t.Errorf("a queue with %s of %q: %q, want %q", name, value, got, code)
			}
		}
	}
}

func TestQueuesAreListedByPrefixInPages(t *testing.T) {
	f := newFixture(t, nil)
	for n := range 1001 {
		if err := f.Create(fmt.Sprintf("job-%04d", n), nil); err != nil {
			t.Fatal(err)
		}
	}
	list := func(input members) (names []string, token, code string) {
		t.Helper()
		var response struct {
			QueueURLs []string `json:"QueueUrls"`
			NextToken string
		}
		code = f.do(t, "ListQueues", input, &response)
		for _, url := range response.QueueURLs {
			names = append(names, url[strings.LastIndexByte(url, '/')+1:])
		}
		return names, response.NextToken, code
	}
	for name, tt := range map[string]struct {
		input       members
		n           int
		first, last string
		more        bool
		code        string
	}{
		"all of a prefix, as many as its page holds": {members{"QueueNamePrefix": "job-", "MaxResults": 2}, 2, "job-0000", "job-0001", true, ""},
		"a page that holds all has no token":         {members{"QueueNamePrefix": "job-000", "MaxResults": 10}, 10, "job-0000", "job-0009", false, ""},
		"a thousand without a number, and no token":  {members{}, 1000, "job-0000", "job-0999", false, ""},
		"a thousand by their number, and a token":    {members{"MaxResults": 1000}, 1000, "job-0000", "job-0999", true, ""},
		"none of a prefix in capitals":               {members{"QueueNamePrefix": "JOB"}, 0, "", "", false, ""},
		"nothing by the number 0":                    {members{"MaxResults": 0}, 0, "", "", false, "InvalidParameterValue"},
		"nothing by more than a thousand":            {members{"MaxResults": 1001}, 0, "", "", false, "InvalidParameterValue"},
		"nothing by a token that no list gave":       {members{"NextToken": "bm9uZQ", "MaxResults": 1}, 0, "", "", false, "InvalidParameterValue"},
	} {
		names, token, code := list(tt.input)
		if code != tt.code || len(names) != tt.n || (token != "") != tt.more {
			t.Errorf("%s: %d names, token %q, code %q", name, len(names), token, code)
		} else if tt.n > 0 && (names[0] != tt.first || names[tt.n-1] != tt.last) {
			t.Errorf("%s: from %s to %s", name, names[0], names[tt.n-1])
		}
	}
	_, token, _ := list(members{"QueueNamePrefix": "job-", "MaxResults": 2})
	rest, _, _ := list(members{"QueueNamePrefix": "job-", "MaxResults": 3, "NextToken": token})
	if !slices.Equal(rest, []string{"job-0002", "job-0003", "job-0004"}) {
		t.Errorf("the second page has %q", rest)
	}
}

func TestTagsOfAQueueAreBounded(t *testing.T) {
	many := members{}
	for n := range api.MostTags {
		many[fmt.Sprint(n)] = ""
	}
	for name, tt := range map[string]struct {
		tags members
		code string
		n    int
	}{
		"fifty, the most":                      {many, "", 50},
		"a key of 128 letters of two bytes":    {members{strings.Repeat("é", 128): strings.Repeat("é", 256)}, "", 1},
		"a key of 129 letters":                 {members{strings.Repeat("a", 129): ""}, "InvalidParameterValue", 0},
		"a value of 257 letters":               {members{"a": strings.Repeat("a", 257)}, "InvalidParameterValue", 0},
		"an empty key":                         {members{"": "a"}, "InvalidParameterValue", 0},
		"a key of AWS's own beside a good one": {members{"a": "b", "AWS:x": "y"}, "InvalidParameterValue", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			code, made := f.do(t, "TagQueue", members{"Tags": tt.tags}, nil), f.do(t, "CreateQueue", members{"QueueName": "new", "Tags": tt.tags}, nil)
			if code != tt.code || made != tt.code {
				t.Errorf("tagging: %q, creating: %q; want %q", code, made, tt.code)
			}
			var response struct{ Tags map[string]string }
			if code := f.do(t, "ListQueueTags", nil, &response); code != "" || len(response.Tags) != tt.n {
				t.Errorf("%d tags (%s)", len(response.Tags), code)
			}
		})
	}
	f := newFixture(t, nil)
	f.do(t, "TagQueue", members{"Tags": many}, nil)
	if code := f.do(t, "TagQueue", members{"Tags": members{"0": "changed"}}, nil); code != "" {
		t.Errorf("changing one of fifty tags: %s", code)
	}
	if code := f.do(t, "TagQueue", members{"Tags": members{"one more": ""}}, nil); code != "InvalidParameterValue" {
		t.Errorf("a tag more than fifty: %q", code)
	}
}

func TestWhatComesLaterIsNotInACopy(t *testing.T) {
	f := newFixture(t, map[string]string{"VisibilityTimeout": "30"})
	f.send(t, "hello")
	before := fixture{f.Clone(), f.clock}
	taken := f.receive(t, nil)
	for op, input := range map[string]members{
		"DeleteMessage": {"ReceiptHandle": taken[0].ReceiptHandle}, "TagQueue": {"Tags": members{"a": "b"}},
		"SetQueueAttributes": {"Attributes": members{"VisibilityTimeout": "0"}}, "CreateQueue": {"QueueName": "new"},
	} {
		if code := f.do(t, op, input, nil); code != "" {
			t.Fatalf("%s: %s", op, code)
		}
	}
	type got struct {
		Attributes, Tags map[string]string
		QueueURLs        []string `json:"QueueUrls"`
	}
	show := func(f fixture) (out got) {
		t.Helper()
		f.do(t, "GetQueueAttributes", members{"AttributeNames": []string{"VisibilityTimeout", "ApproximateNumberOfMessages"}}, &out)
		f.do(t, "ListQueueTags", nil, &out)
		f.do(t, "ListQueues", nil, &out)
		return out
	}
	new := queueURL[:len(queueURL)-1] + "new"
	if diff := cmp.Diff(got{map[string]string{"VisibilityTimeout": "30", "ApproximateNumberOfMessages": "1"}, nil, []string{queueURL}}, show(before)); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(got{map[string]string{"VisibilityTimeout": "0", "ApproximateNumberOfMessages": "0"}, map[string]string{"a": "b"}, []string{new, queueURL}}, show(f)); diff != "" {
		t.Errorf("the service (-want +got):\n%s", diff)
	}
	if got := before.receive(t, nil); len(got) != 1 {
		t.Errorf("the copy has %+v", got)
	}
}

func TestADeletedQueueTakesItsMessagesWithIt(t *testing.T) {
	f := newFixture(t, nil)
	f.send(t, "old")
	if code := f.do(t, "DeleteQueue", nil, nil); code != "" {
		t.Fatal(code)
	}
	for _, op := range []string{"DeleteQueue", "ReceiveMessage"} {
		if code := f.do(t, op, nil, nil); code != "QueueDoesNotExist" {
			t.Errorf("%s: %q", op, code)
		}
	}
	for _, step := range []struct {
		after time.Duration
		code  string
	}{{0, "QueueDeletedRecently"}, {time.Minute - 1, "QueueDeletedRecently"}, {1, ""}} {
		f.clock.now = f.clock.now.Add(step.after)
		if code := f.do(t, "CreateQueue", members{"QueueName": "q"}, nil); code != step.code {
			t.Errorf("%s later: %q, want %q", step.after, code, step.code)
		}
	}
	if got := f.receive(t, nil); len(got) != 0 {
		t.Errorf("the queue that came after it has %+v", got)
	}
}

func TestACallIsAuthorizedForItsQueue(t *testing.T) {
	for name, tt := range map[string]struct {
		op, body string
		want     []api.AuthorizationRequest
	}{
		"by the name of a queue that is there": {"GetQueueUrl", `{"QueueName":"q"}`,
			[]api.AuthorizationRequest{{Action: "sqs:GetQueueUrl", Resource: queueARN, Tags: map[string]string{"team": "ml"}}}},
		"by the URL of a queue": {"TagQueue", `{"QueueUrl":"` + queueURL + `","Tags":{"a":"b"}}`,
			[]api.AuthorizationRequest{{Action: "sqs:TagQueue", Resource: queueARN, Tags: map[string]string{"team": "ml"}, RequestTags: map[string]string{"a": "b"}}}},
		"by the keys that it takes away": {"UntagQueue", `{"QueueUrl":"` + queueURL + `","TagKeys":["a","b"]}`,
			[]api.AuthorizationRequest{{Action: "sqs:UntagQueue", Resource: queueARN, Tags: map[string]string{"team": "ml"}, Keys: []string{"a", "b"}}}},
		"for a new queue": {"CreateQueue", `{"QueueName":"new"}`,
			[]api.AuthorizationRequest{{Action: "sqs:CreateQueue", Resource: queueARN[:len(queueARN)-1] + "new"}}},
		"for a new queue and its tags": {"CreateQueue", `{"QueueName":"new","tags":{"a":"b"}}`, []api.AuthorizationRequest{
			{Action: "sqs:CreateQueue", Resource: queueARN[:len(queueARN)-1] + "new", RequestTags: map[string]string{"a": "b"}},
			{Action: "sqs:TagQueue", Resource: queueARN[:len(queueARN)-1] + "new", RequestTags: map[string]string{"a": "b"}}}},
		"for the list of all":        {"ListQueues", `{"QueueNamePrefix":"q"}`, []api.AuthorizationRequest{{Action: "sqs:ListQueues", Resource: "*"}}},
		"for a body that is no JSON": {"SendMessage", `{`, []api.AuthorizationRequest{{Action: "sqs:SendMessage", Resource: queueARN[:len(queueARN)-1]}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.do(t, "TagQueue", members{"Tags": members{"team": "ml"}}, nil)
			got := f.Table().Authorizations[tt.op](&api.Call{Op: tt.op, Body: []byte(tt.body)})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("requests to IAM (-want +got):\n%s", diff)
			}
		})
	}
}
