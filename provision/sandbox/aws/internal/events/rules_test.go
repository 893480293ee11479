package events

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

func TestPutRuleTakesWhatTheModelOfEventBridgeTakes(t *testing.T) {
	many := func(n int) string {
		var pairs []string
		for i := range n {
			pairs = append(pairs, fmt.Sprintf(`{"Key":"%d","Value":""}`, i))
		}
		return `"Tags":[` + strings.Join(pairs, ",") + `]`
	}
	for name, tt := range map[string]struct{ members, code string }{
		"a name of 64 characters":        {`"Name":"` + strings.Repeat("a", 64) + `"`, ""},
		"no name of 65 characters":       {`"Name":"` + strings.Repeat("a", 65) + `"`, "ValidationException"},
		"a name with dots and hyphens":   {`"Name":".a-b_C"`, ""},
		"no name with a slash":           {`"Name":"a/b"`, "ValidationException"},
		"a description of 512 letters":   {`"Description":"` + strings.Repeat("é", 512) + `"`, ""},
		"no description of 513 letters":  {`"Description":"` + strings.Repeat("a", 513) + `"`, "ValidationException"},
		"a schedule of 256 characters":   {`"ScheduleExpression":"` + strings.Repeat("a", 256) + `"`, ""},
		"no schedule of 257 characters":  {`"ScheduleExpression":"` + strings.Repeat("a", 257) + `"`, "ValidationException"},
		"the default bus by its name":    {`"EventBusName":"default"`, ""},
		"the default bus by its ARN":     {`"EventBusName":"arn:aws:events:us-east-1:111122223333:event-bus/default"`, ""},
		"no bus of another account":      {`"EventBusName":"arn:aws:events:us-east-1:999999999999:event-bus/default"`, "ResourceNotFoundException"},
		"no state in small letters":      {`"State":"enabled"`, "ValidationException"},
		"fifty tags":                     {many(50), ""},
		"no fifty-one tags":              {many(51), "ValidationException"},
		"no tag twice":                   {`"Tags":[{"Key":"a","Value":"1"},{"Key":"a","Value":"1"}]`, "ValidationException"},
		"tags that differ by case":       {`"Tags":[{"Key":"a","Value":"1"},{"Key":"A","Value":"1"}]`, ""},
		"no tag of AWS's own":            {`"Tags":[{"Key":"aws:a","Value":"1"}]`, "ValidationException"},
		"no parameter that there is not": {`"Colour":"red"`, "ValidationException"},
	} {
		t.Run(name, func(t *testing.T) {
			f, body := newFixture(), `{"EventPattern":"{\"source\":[\"a\"]}",`+tt.members
			if !strings.Contains(tt.members, `"Name"`) {
				body += `,"Name":"r"`
			}
			if code := f.do(t, "PutRule", body+"}", nil); code != tt.code || (len(f.rules) == 1) != (code == "") {
				t.Errorf("code %q and %d rules, want the code %q", code, len(f.rules), tt.code)
			}
		})
	}
}

func TestPutTargetsKeepsWhatItCanTake(t *testing.T) {
	const arn = `"Arn":"` + queue + `"`
	for name, tt := range map[string]struct {
		targets string
		failed  []string // their ids
		kept    []string // ids and inputs
		code    string
	}{
		"one":                                              {`{"Id":"a",` + arn + `}`, nil, []string{"a", "old"}, ""},
		"one in the place of that of its id":               {`{"Id":"old",` + arn + `,"Input":"1"}`, nil, []string{"old 1"}, ""},
		"the last of two of one id":                        {`{"Id":"a",` + arn + `,"Input":"1"},{"Id":"a",` + arn + `,"Input":"2"}`, nil, []string{"a 2", "old"}, ""},
		"the right ones of several":                        {`{"Id":"b",` + arn + `},{"Id":"c","Arn":"q"}`, []string{"c"}, []string{"b", "old"}, ""},
		"an id of 64 characters":                           {`{"Id":"` + strings.Repeat("a", 64) + `",` + arn + `}`, nil, []string{strings.Repeat("a", 64), "old"}, ""},
		"none with an id of 65 characters":                 {`{"Id":"` + strings.Repeat("a", 65) + `",` + arn + `}`, nil, []string{"old"}, "ValidationException"},
		"none with an input of 8193 characters":            {`{"Id":"a",` + arn + `,"Input":"` + strings.Repeat("1", 8193) + `"}`, nil, []string{"old"}, "ValidationException"},
		"none with a path of 257 characters":               {`{"Id":"a",` + arn + `,"InputPath":"$.` + strings.Repeat("a", 255) + `"}`, nil, []string{"old"}, "ValidationException"},
		"no input and path together":                       {`{"Id":"a",` + arn + `,"Input":"1","InputPath":"$.a"}`, []string{"a"}, []string{"old"}, ""},
		"none of several where one has an id with a blank": {`{"Id":"b",` + arn + `},{"Id":"a b",` + arn + `}`, nil, []string{"old"}, "ValidationException"},
		"four beside the one that is there":                {targetsOf(4), nil, []string{"0", "1", "2", "3", "old"}, ""},
		"none of five beside one that is there":            {targetsOf(5), nil, []string{"old"}, "LimitExceededException"},
		"none of a list without elements":                  {``, nil, []string{"old"}, "ValidationException"},
		"none with a setting that is not emulated":         {`{"Id":"a",` + arn + `,"SqsParameters":{"MessageGroupId":"x"}}`, nil, []string{"old"}, "ValidationException"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.must(t, "PutRule", anyEvent, "PutTargets", `{"Rule":"r","Targets":[{"Id":"old",`+arn+`}]}`)
			var response struct {
				FailedEntryCount int
				FailedEntries    []struct{ TargetId, ErrorCode string }
			}
			code := f.do(t, "PutTargets", `{"Rule":"r","Targets":[`+tt.targets+`]}`, &response)
			var failed []string
			for _, e := range response.FailedEntries {
				failed = append(failed, e.TargetId)
			}
			if code != tt.code || !slices.Equal(failed, tt.failed) || response.FailedEntryCount != len(tt.failed) {
				t.Errorf("code %q and failed %q, want %q and %q", code, failed, tt.code, tt.failed)
			}
			var list struct{ Targets []struct{ Id, Input string } }
			f.do(t, "ListTargetsByRule", `{"Rule":"r"}`, &list)
			var kept []string
			for _, target := range list.Targets {
				kept = append(kept, strings.TrimSpace(target.Id+" "+target.Input))
			}
			if !slices.Equal(kept, tt.kept) {
				t.Errorf("kept %.99q, want %q", kept, tt.kept)
			}
		})
	}
}

func targetsOf(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`{"Id":"%d","Arn":%q}`, i, queue))
	}
	return strings.Join(out, ",")
}

func TestListsOfEventBridgeGoOnBehindTheirToken(t *testing.T) {
	f := newFixture()
	for _, rule := range []string{"c", "a", "d", "b"} {
		f.must(t, "PutRule", strings.Replace(anyEvent, `"r"`, `"`+rule+`"`, 1))
		if rule != "d" {
			f.must(t, "PutTargets", strings.Replace(toQueue, `"r"`, `"`+rule+`"`, 1))
		}
	}
	f.must(t, "PutTargets", `{"Rule":"a","Targets":[`+targetsOf(4)+`]}`)
	for name, tt := range map[string]struct {
		op, members string
		want        [][]string
	}{
		"rules by name":                    {"ListRules", `"Limit":3`, [][]string{{"a", "b", "c"}, {"d"}}},
		"rules of a prefix":                {"ListRules", `"Limit":1,"NamePrefix":"b"`, [][]string{{"b"}}},
		"rules of a prefix that none has":  {"ListRules", `"NamePrefix":"x"`, [][]string{nil}},
		"rules in a page that just holds":  {"ListRules", `"Limit":4`, [][]string{{"a", "b", "c", "d"}}},
		"names of rules to one target":     {"ListRuleNamesByTarget", `"Limit":2,"TargetArn":"` + queue + `"`, [][]string{{"a", "b"}, {"c"}}},
		"names of rules to no such target": {"ListRuleNamesByTarget", `"TargetArn":"` + queue + `2"`, [][]string{nil}},
		"targets by id":                    {"ListTargetsByRule", `"Limit":2,"Rule":"a"`, [][]string{{"0", "1"}, {"2", "3"}, {"q"}}},
		"targets of a rule without":        {"ListTargetsByRule", `"Rule":"d"`, [][]string{nil}},
	} {
		var got [][]string
		for token := ""; len(got) < 9; {
			var page struct {
				Rules     []struct{ Name string }
				RuleNames []string
				Targets   []struct{ Id string }
				NextToken string
			}
			body := "{" + tt.members + "}"
			if token != "" {
				body = "{" + tt.members + `,"NextToken":"` + token + `"}`
			}
			if code := f.do(t, tt.op, body, &page); code != "" {
				t.Fatalf("%s: %s", name, code)
			}
			rows := page.RuleNames
			for _, r := range page.Rules {
				rows = append(rows, r.Name)
			}
			for _, target := range page.Targets {
				rows = append(rows, target.Id)
			}
			if len(rows) == 0 {
				rows = nil
			}
			if got, token = append(got, rows), page.NextToken; token == "" {
				break
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestListsOfEventBridgeRefuse(t *testing.T) {
	f := newFixture()
	f.must(t, "PutRule", anyEvent)
	for op, members := range map[string]string{"ListRules": "", "ListTargetsByRule": `"Rule":"r",`, "ListRuleNamesByTarget": `"TargetArn":"` + queue + `",`} {
		other := (&api.Call{Op: "Other"}).Token("a")
		for rest, want := range map[string]string{
			`"Limit":1`: "", `"Limit":100`: "", `"Limit":0`: "ValidationException", `"Limit":101`: "ValidationException", `"NextToken":"?"`: "ValidationException",
			`"NextToken":"` + other + `"`: "ValidationException", `"EventBusName":"mine"`: "ResourceNotFoundException", `"Colour":"red"`: "ValidationException",
		} {
			if code := f.do(t, op, "{"+members+rest+"}", nil); code != want {
				t.Errorf("%s with %s: %q, want %q", op, rest, code, want)
			}
		}
	}
}

func TestARuleGoesOnlyWithoutTargets(t *testing.T) {
	f := newFixture()
	f.must(t, "PutRule", anyEvent, "PutTargets", toQueue)
	for _, step := range []struct{ op, body, code string }{
		{"DeleteRule", `{"Name":"r"}`, "ValidationException"},
		{"DeleteRule", `{"Name":"r","Force":true}`, "ValidationException"}, // which is for rules that AWS made
		{"DeleteRule", `{"Name":"r","EventBusName":"mine"}`, "ResourceNotFoundException"},
		{"RemoveTargets", `{"Rule":"r","Ids":[]}`, "ValidationException"},
		{"RemoveTargets", `{"Rule":"none","Ids":["q"]}`, "ResourceNotFoundException"},
		{"RemoveTargets", `{"Rule":"r","Ids":["q"]}`, ""},
		{"DeleteRule", `{"Name":"r"}`, ""},
		{"DescribeRule", `{"Name":"r"}`, "ResourceNotFoundException"},
		{"DeleteRule", `{"Name":"r"}`, ""},
		{"PutTargets", toQueue, "ResourceNotFoundException"},
		{"TagResource", `{"ResourceARN":"` + rulePrefix + `r","Tags":[]}`, "ResourceNotFoundException"},
		{"UntagResource", `{"ResourceARN":"` + rulePrefix + `r","TagKeys":[]}`, "ResourceNotFoundException"},
	} {
		if code := f.do(t, step.op, step.body, nil); code != step.code {
			t.Errorf("%s %s: %q, want %q", step.op, step.body, code, step.code)
		}
	}
}

func TestACallIsAuthorizedForItsRule(t *testing.T) {
	given := map[string]string{"a": "b"}
	mine := api.AuthorizationRequest{Action: "events:PutRule", Resource: rulePrefix + "r", Tags: map[string]string{"team": "ml"}, RequestTags: map[string]string{}}
	with := func(change func(*api.AuthorizationRequest)) []api.AuthorizationRequest {
		q := mine
		change(&q)
		return []api.AuthorizationRequest{q}
	}
	for name, tt := range map[string]struct {
		op, body string
		want     []api.AuthorizationRequest
	}{
		"by its name":     {"PutRule", `{"Name":"r"}`, []api.AuthorizationRequest{mine}},
		"by its ARN":      {"ListTagsForResource", `{"ResourceARN":"` + rulePrefix + `r"}`, with(func(q *api.AuthorizationRequest) { q.Action = "events:ListTagsForResource" })},
		"by keys of tags": {"UntagResource", `{"ResourceARN":"` + rulePrefix + `r","TagKeys":["a"]}`, with(func(q *api.AuthorizationRequest) { q.Action, q.Keys = "events:UntagResource", []string{"a"} })},
		"with its targets": {"PutTargets", `{"Rule":"r","Targets":[{"Arn":"x"},{"Arn":"y"}]}`, with(func(q *api.AuthorizationRequest) {
			q.Action, q.Context = "events:PutTargets", map[string][]string{"events:TargetArn": {"x", "y"}}
		})},
		"of another that is new": {"DescribeRule", `{"Name":"s"}`, with(func(q *api.AuthorizationRequest) {
			q.Action, q.Resource, q.Tags = "events:DescribeRule", rulePrefix+"s", nil
		})},
		"with tags and a role": {"PutRule", `{"Name":"s","RoleArn":"arn:aws:iam::1:role/x/y","Tags":[{"Key":"a","Value":"b"}]}`, []api.AuthorizationRequest{
			{Action: "events:PutRule", Resource: rulePrefix + "s", RequestTags: given}, {Action: "events:TagResource", Resource: rulePrefix + "s", RequestTags: given},
			{Action: "iam:PassRole", Resource: "y", Context: map[string][]string{"to": {"events"}}}}},
		"of all": {"ListRules", `{"NamePrefix":"r"}`, []api.AuthorizationRequest{{Action: "events:ListRules", Resource: "*"}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.must(t, "PutRule", anyEvent, "TagResource", `{"ResourceARN":"`+rulePrefix+`r","Tags":[{"Key":"team","Value":"ml"}]}`)
			if diff := cmp.Diff(tt.want, f.Table().Authorizations[tt.op](&api.Call{Op: tt.op, Body: []byte(tt.body)})); diff != "" {
				t.Errorf("requests to IAM (-want +got):\n%s", diff)
			}
		})
	}
}
