package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api/apitest"
)

const queue, rulePrefix = "arn:aws:sqs:us-east-1:111122223333:q", "arn:aws:events:us-east-1:111122223333:rule/"

// sent is an event that reached a queue.
type sent struct{ Queue, Rule, Body string }

// queues keep what they get, but for those that are closed.
type queues struct {
	closed []string
	got    []sent
}

func (q *queues) Deliver(queueARN, ruleARN, body string, _ time.Time) bool {
	if slices.Contains(q.closed, queueARN) {
		return false
	}
	q.got = append(q.got, sent{queueARN, strings.TrimPrefix(ruleARN, rulePrefix), body})
	return true
}

// fixture is the bus of an account, and its queues.
type fixture struct {
	*Service
	queues *queues
}

func newFixture() fixture {
	q := &queues{}
	pass := func(role, service string) api.AuthorizationRequest {
		return api.AuthorizationRequest{Action: "iam:PassRole", Resource: role, Context: map[string][]string{"to": {service}}}
	}
	return fixture{New(&api.Account{ID: "111122223333", Region: "us-east-1"}, q, pass), q}
}

// do runs an operation and decodes what it returns; code is that of the error, "" without.
func (f fixture) do(t *testing.T, op, body string, response any) (code string) {
	t.Helper()
	return apitest.Do(t, f.Table(), &api.Call{Op: op, Body: []byte(body)}, response)
}

// must runs operations that succeed: pairs of a name and a body.
func (f fixture) must(t *testing.T, pairs ...string) {
	t.Helper()
	for n := 0; n < len(pairs); n += 2 {
		if code := f.do(t, pairs[n], pairs[n+1], nil); code != "" {
			t.Fatalf("%s %s: %s", pairs[n], pairs[n+1], code)
		}
	}
}

const (
	anyEvent = `{"Name":"r","EventPattern":"{\"source\":[\"aws.ec2\"]}"}`
	toQueue  = `{"Rule":"r","Targets":[{"Id":"q","Arn":"` + queue + `"}]}`
)

func (f fixture) publish() {
	f.Publish(time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("", 3600)), Event{Source: "aws.ec2", DetailType: "Change", Resource: "arn:i-1", Detail: map[string]any{"state": "running", "n": 1}})
}

func TestAnEventHasTheEnvelopeOfEventBridge(t *testing.T) {
	f := newFixture()
	f.must(t, "PutRule", anyEvent, "PutTargets", toQueue)
	f.publish()
	f.publish()
	if len(f.queues.got) != 2 {
		t.Fatalf("the queue has %+v", f.queues.got)
	}
	var ids []any
	for _, s := range f.queues.got {
		var got map[string]any
		if err := json.Unmarshal([]byte(s.Body), &got); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got["id"])
		delete(got, "id")
		want := map[string]any{"version": "0", "account": "111122223333", "region": "us-east-1", "time": "2026-03-01T11:00:00Z", "source": "aws.ec2",
			"detail-type": "Change", "resources": []any{"arn:i-1"}, "detail": map[string]any{"state": "running", "n": 1.0}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	}
	if ids[0] == ids[1] || ids[0] == nil {
		t.Errorf("two events have the ids %v", ids)
	}
}

func TestAnEventGoesToTheTargetsOfMatchingRules(t *testing.T) {
	put := func(rule, pattern, state string) string {
		return fmt.Sprintf(`{"Name":%q,"EventPattern":%q,"State":%q}`, rule, pattern, state)
	}
	target := func(rule, id string) string {
		return fmt.Sprintf(`{"Rule":%q,"Targets":[{"Id":%q,"Arn":"%s-%s"}]}`, rule, id, queue, id)
	}
	const ours, others = `{"source":["aws.ec2"]}`, `{"source":["aws.s3"]}`
	for name, tt := range map[string]struct {
		steps []string
		want  []string // rule and queue
	}{
		"of each rule in the order of their names": {[]string{"PutRule", put("b", ours, "ENABLED"), "PutRule", put("a", ours, "ENABLED"), "PutTargets", target("b", "1"), "PutTargets", target("a", "2")}, []string{"a 2", "b 1"}},
		"of one rule in the order of their ids":    {[]string{"PutRule", put("a", ours, ""), "PutTargets", target("a", "2"), "PutTargets", target("a", "1")}, []string{"a 1", "a 2"}},
		"of none whose pattern does not match":     {[]string{"PutRule", put("a", others, ""), "PutTargets", target("a", "1")}, nil},
		"of none that is disabled":                 {[]string{"PutRule", put("a", ours, "DISABLED"), "PutTargets", target("a", "1")}, nil},
		"of none that was disabled":                {[]string{"PutRule", put("a", ours, ""), "PutTargets", target("a", "1"), "DisableRule", `{"Name":"a"}`}, nil},
		"of one that was enabled again":            {[]string{"PutRule", put("a", ours, "DISABLED"), "PutTargets", target("a", "1"), "EnableRule", `{"Name":"a"}`}, []string{"a 1"}},
		"of one by its newest pattern":             {[]string{"PutRule", put("a", others, ""), "PutTargets", target("a", "1"), "PutRule", put("a", ours, "")}, []string{"a 1"}},
		"of none without targets":                  {[]string{"PutRule", put("a", ours, "")}, nil},
		"not to a target that was removed":         {[]string{"PutRule", put("a", ours, ""), "PutTargets", target("a", "1"), "RemoveTargets", `{"Rule":"a","Ids":["1"]}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.must(t, tt.steps...)
			f.publish()
			var got []string
			for _, s := range f.queues.got {
				got = append(got, s.Rule+" "+strings.TrimPrefix(s.Queue, queue+"-"))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("sent %q, want %q", got, tt.want)
			}
		})
	}
}

func TestATargetGetsWhatItsInputNames(t *testing.T) {
	for name, tt := range map[string]struct{ input, want string }{
		"the state, by a path":                    {`"InputPath":"$.detail.state"`, `"running"`},
		"an object, by a path":                    {`"InputPath":"$.detail"`, `{"n":1,"state":"running"}`},
		"a list, by a path":                       {`"InputPath":"$.resources"`, `["arn:i-1"]`},
		"a field with a hyphen in its name":       {`"InputPath":"$.detail-type"`, `"Change"`},
		"null for what the event lacks":           {`"InputPath":"$.detail.colour"`, `null`},
		"null for what is below a string":         {`"InputPath":"$.source.name"`, `null`},
		"a text of its own":                       {`"Input":"{\"a\": [1]}"`, `{"a": [1]}`},
		"a text of its own that is a JSON string": {`"Input":"\"hello\""`, `"hello"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.must(t, "PutRule", anyEvent, "PutTargets", `{"Rule":"r","Targets":[{"Id":"q","Arn":"`+queue+`",`+tt.input+`}]}`)
			f.publish()
			if len(f.queues.got) != 1 || f.queues.got[0].Body != tt.want {
				t.Errorf("the queue has %+v, want %s", f.queues.got, tt.want)
			}
		})
	}
	f := newFixture()
	f.must(t, "PutRule", anyEvent, "PutTargets", `{"Rule":"r","Targets":[{"Id":"a","Arn":"`+queue+`"},{"Id":"b","Arn":"`+queue+`","InputPath":"$"}]}`)
	f.publish()
	var whole, path map[string]any
	if json.Unmarshal([]byte(f.queues.got[0].Body), &whole) != nil || json.Unmarshal([]byte(f.queues.got[1].Body), &path) != nil || !cmp.Equal(whole, path) {
		t.Errorf("the whole event by no path and by $ differ: %+v", f.queues.got)
	}
}

func TestWhatAQueueDoesNotTakeIsADeadLetter(t *testing.T) {
	const dead = queue + "-dead"
	for name, tt := range map[string]struct {
		target string
		closed []string
		want   string // the queue that gets it
	}{
		"the queue takes it":                 {`"DeadLetterConfig":{"Arn":"` + dead + `"}`, nil, queue},
		"the queue of dead letters takes it": {`"DeadLetterConfig":{"Arn":"` + dead + `"}`, []string{queue}, dead},
		"neither takes it":                   {`"DeadLetterConfig":{"Arn":"` + dead + `"}`, []string{queue, dead}, ""},
		"there is no queue of dead letters":  {`"RetryPolicy":{"MaximumRetryAttempts":3}`, []string{queue}, ""},
		"its setting names no queue":         {`"DeadLetterConfig":{}`, []string{queue, ""}, ""},
		"the target has an input of its own": {`"Input":"1","DeadLetterConfig":{"Arn":"` + dead + `"}`, []string{queue}, dead},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.queues.closed = tt.closed
			f.must(t, "PutRule", anyEvent, "PutTargets", `{"Rule":"r","Targets":[{"Id":"q","Arn":"`+queue+`",`+tt.target+`}]}`)
			f.publish()
			switch got := f.queues.got; {
			case len(got) > 1 || (len(got) == 1) != (tt.want != ""):
				t.Errorf("sent %+v, want it in %q", got, tt.want)
			case len(got) == 1 && (got[0].Queue != tt.want || tt.want == dead && !strings.Contains(got[0].Body, `"aws.ec2"`)):
				t.Errorf("sent %+v, want the whole event in %q", got[0], tt.want)
			}
		})
	}
}
