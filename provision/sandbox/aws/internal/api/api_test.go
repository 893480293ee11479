package api

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func TestARNsAreOfTheirPartition(t *testing.T) {
	for region, partition := range map[string]string{"us-east-1": "aws", "eu-west-1": "aws", "cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov"} {
		a := &Account{ID: "111122223333", Region: region}
		got := []string{a.ARN("sqs", "q"), a.PublicARN("ec2", "image/ami-1"), a.GlobalARN("iam", "role/r"), a.Caller("AKIA")}
		want := []string{
			"arn:" + partition + ":sqs:" + region + ":111122223333:q",
			"arn:" + partition + ":ec2:" + region + "::image/ami-1",
			"arn:" + partition + ":iam::111122223333:role/r",
			"arn:" + partition + ":sts::111122223333:assumed-role/sandbox/akia",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", region, diff)
		}
	}
}

func TestTheSameHistoryGivesTheSameIdentifiers(t *testing.T) {
	history := func() []string {
		a := &Account{}
		return []string{a.NewID("i"), a.NewID("i"), a.NewEntityID("AROA"), a.NewUUID(), fmt.Sprint(a.Made())}
	}
	first, second := history(), history()
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("two histories differ:\n%s", diff)
	}
	if first[0] == first[1] || !strings.HasPrefix(first[0], "i-0") || len(first[2]) != len("AROA")+17 || len(first[3]) != 36 || first[4] != "4" {
		t.Errorf("identifiers %q", first)
	}
}

// heldClock runs what it is given when it is told to.
type heldClock struct{ due []func() }

func (*heldClock) Now() time.Time { return time.Time{} }

func (c *heldClock) AfterFunc(_ time.Duration, f func()) func() bool {
	c.due = append(c.due, f)
	return func() bool { return false }
}

func TestWhatComesLaterHoldsTheLock(t *testing.T) {
	clock := &heldClock{}
	a := &Account{Clock: clock}
	free := true
	a.AfterFunc(time.Second, func() { free = a.TryLock() })
	clock.due[0]()
	if free || !a.TryLock() {
		t.Errorf("the lock was free within: %t, or was not given back", free)
	}
}

func TestABodyIsOneValueOfKnownFields(t *testing.T) {
	for body, want := range map[string]string{
		`{"Name":"a"}`:             "",
		`{"name":"a"}`:             "",
		`{"Name":"a","Other":"b"}`: `reading the input of Op: json: unknown field "Other"`,
		`{"Name":"a"} {}`:          "reading the input of Op: more than one JSON value",
		``:                         "reading the input of Op: EOF",
	} {
		var request struct{ Name string }
		err := (&Call{Op: "Op", Body: []byte(body)}).Into(&request)
		var failed *Error
		switch {
		case want == "" && (err != nil || request.Name != "a"):
			t.Errorf("%s: %v, name %q", body, err, request.Name)
		case want != "" && (!errors.As(err, &failed) || failed.Code != "ValidationException" || failed.Message != want):
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

func TestSegmentsOfAPathAreDecodedOneByOne(t *testing.T) {
	in := &Call{Target: "GET /clusters/a%2Fb/x%ZZ"}
	for n, want := range []string{"clusters", "a/b", "", ""} {
		if got := in.Segment(n); got != want {
			t.Errorf("segment %d is %q, want %q", n, got, want)
		}
	}
}

func TestPagesGoOnBehindTheLastRow(t *testing.T) {
	in := &Call{Op: "List"}
	names, token, observed := []string{"a", "b", "c", "d", "e"}, "", []string(nil)
	for {
		rows, next, err := in.Window(names, token, 2)
		if err != nil {
			t.Fatal(err)
		}
		observed = append(observed, rows...)
		if token = next; token == "" {
			break
		}
		names = slices.DeleteFunc(names, func(n string) bool { return n == "b" }) // the row of the token goes
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, observed); diff != "" {
		t.Errorf("pages of names (-want +got):\n%s", diff)
	}
	rows := []Row{NewRow("2", query.Text("n", "2")), NewRow("1", query.Text("n", "1")), NewRow("3", query.Text("n", "3"))}
	first, next := in.Rows(rows, "", 2)
	after, err := in.After(next)
	if err != nil || after != "2" || len(first) != 2 {
		t.Errorf("the first page has %d rows, and the next is behind %q: %v", len(first), after, err)
	}
	if rest, end := in.Rows(rows, after, 2); len(rest) != 1 || end != "" {
		t.Errorf("the last page has %d rows, and the token %q", len(rest), end)
	}
	for _, token := range []string{"?", (&Call{Op: "Other"}).Token("a"), in.Token("")} {
		if _, err := in.After(token); err == nil {
			t.Errorf("the token %q was taken", token)
		}
	}
}

func TestTagsAreMergedOrRefused(t *testing.T) {
	many := map[string]string{}
	for n := range MostTags {
		many[fmt.Sprint(n)] = ""
	}
	for name, tt := range map[string]struct {
		have, more map[string]string
		problem    bool
	}{
		"more than there are":      {map[string]string{"a": "1"}, map[string]string{"a": "2", "b": "3"}, false},
		"none":                     {nil, nil, false},
		"an empty key":             {nil, map[string]string{"": "x"}, true},
		"letters of two bytes":     {nil, map[string]string{strings.Repeat("é", 128): strings.Repeat("é", 256)}, false},
		"a key that is too long":   {nil, map[string]string{strings.Repeat("k", 129): ""}, true},
		"a value that is too long": {nil, map[string]string{"k": strings.Repeat("v", 257)}, true},
		"a key of AWS's own":       {nil, map[string]string{"AWS:x": ""}, true},
		"too many":                 {many, map[string]string{"one more": ""}, true},
	} {
		before := maps.Clone(tt.have)
		got, problem := AddTags(tt.have, tt.more)
		if (problem != "") != tt.problem {
			t.Errorf("%s: problem %q", name, problem)
		}
		want := WithTags(tt.have)
		maps.Copy(want, tt.more)
		if !tt.problem && !maps.Equal(got, want) || !maps.Equal(before, tt.have) {
			t.Errorf("%s: %v, and the tags before are %v", name, got, tt.have)
		}
	}
}

func TestWhatIsCreatedWithTagsNeedsTwoActions(t *testing.T) {
	q := AuthorizationRequest{Action: "s:Create", Resource: "r"}
	if got := q.AlsoTags("s:Tag"); len(got) != 1 {
		t.Errorf("without tags: %+v", got)
	}
	q.RequestTags = map[string]string{"k": "v"}
	want := []AuthorizationRequest{q, {Action: "s:Tag", Resource: "r", RequestTags: q.RequestTags}}
	if diff := cmp.Diff(want, q.AlsoTags("s:Tag")); diff != "" {
		t.Errorf("with tags (-want +got):\n%s", diff)
	}
}
