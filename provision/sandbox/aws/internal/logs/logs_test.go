package logs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api/apitest"
)

const groupARN = "arn:aws:logs:us-east-1:111122223333:log-group:"

// noon is when everything in these tests happens.
func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func newService() *Service { return New(&api.Account{ID: "111122223333", Region: "us-east-1"}) }

// do runs an operation and decodes what it returns; code is that of the error, "" without.
func do(t *testing.T, svc *Service, op, body string, response any) (code string) {
	t.Helper()
	return apitest.Do(t, svc.Table(), &api.Call{Op: op, Body: []byte(body), Now: noon()}, response)
}

func TestNamesOfLogGroups(t *testing.T) {
	const bad = "InvalidParameterException"
	for name, want := range map[string]string{
		"a": "", "/aws/eks/k/cluster": "", ".-_/#A9": "", strings.Repeat("a", 512): "", "aws": "", "aws-eks": "", "x/aws/": "",
		strings.Repeat("a", 513): bad, "a b": bad, "a:b": bad, "a*": bad, "é": bad, "aws/eks": bad,
	} {
		if code := do(t, newService(), "CreateLogGroup", fmt.Sprintf(`{"logGroupName":%q}`, name), nil); code != want {
			t.Errorf("%.20q: %q, want %q", name, code, want)
		}
	}
}

func TestRetentionsAreThoseOfTheModel(t *testing.T) {
	allowed := map[int]bool{}
	// The valid values in the reference of PutRetentionPolicy.
	for _, days := range []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653} {
		allowed[days] = true
	}
	svc := newService()
	svc.Ensure("g", noon())
	for days := -1; days <= 4000; days++ {
		code := do(t, svc, "PutRetentionPolicy", fmt.Sprintf(`{"logGroupName":"g","retentionInDays":%d}`, days), nil)
		if (code == "") != allowed[days] || code != "" && code != "InvalidParameterException" {
			t.Errorf("%d days: %q", days, code)
		}
	}
	if svc.groups[0].days != 3653 {
		t.Errorf("kept for %d days", svc.groups[0].days)
	}
	for body, want := range map[string]string{
		`{"logGroupName":"g","retentionInDays":"30"}`: "ValidationException", `{"logGroupName":"g","retentionInDays":1.5}`: "ValidationException",
		`{"logGroupName":"none","retentionInDays":30}`: "ResourceNotFoundException", `{"logGroupName":"none","retentionInDays":31}`: "ResourceNotFoundException",
		`{"logGroupName":"g","retentionInDays":30,"x":1}`: "ValidationException",
	} {
		if code := do(t, svc, "PutRetentionPolicy", body, nil); code != want {
			t.Errorf("%s: %q, want %q", body, code, want)
		}
	}
}

func TestTagsOfALogGroup(t *testing.T) {
	many := func(n int, prefix string) string {
		tags := map[string]string{}
		for i := range n {
			tags[fmt.Sprint(prefix, i)] = ""
		}
		text, _ := json.Marshal(tags)
		return string(text)
	}
	const bad = "InvalidParameterException"
	for name, tt := range map[string]struct{ tags, create, tag string }{
		"letters, digits, blanks and some signs":   {`{"Cost center_.:/=+-@9":"a b_.:/=+-@9"}`, "", ""},
		"letters of two bytes up to the bound":     {`{"` + strings.Repeat("é", 128) + `":"` + strings.Repeat("é", 256) + `"}`, "", ""},
		"a key over the bound":                     {`{"` + strings.Repeat("a", 129) + `":""}`, bad, bad},
		"a value over the bound":                   {`{"a":"` + strings.Repeat("a", 257) + `"}`, bad, bad},
		"an empty key":                             {`{"":"a"}`, bad, bad},
		"a key of AWS's own":                       {`{"aws:a":"b"}`, bad, bad},
		"a key with a sign that AWS does not take": {`{"a#b":"c"}`, bad, bad},
		"a value with a star":                      {`{"a":"*"}`, bad, bad},
		"forty-nine beside one":                    {many(49, "k"), "", ""},
		"fifty beside one":                         {many(50, "k"), "", "TooManyTagsException"},
		"fifty-one":                                {many(51, "k"), bad, bad},
		"a value that is a number":                 {`{"a":1}`, "ValidationException", "ValidationException"},
	} {
		svc := newService()
		if code := do(t, svc, "CreateLogGroup", `{"logGroupName":"new","tags":`+tt.tags+`}`, nil); code != tt.create || (svc.logGroup("new") != nil) != (code == "") {
			t.Errorf("%s: creating with them: %q, want %q", name, code, tt.create)
		}
		if code := do(t, svc, "CreateLogGroup", `{"logGroupName":"g","tags":{"old":"1"}}`, nil); code != "" {
			t.Fatal(code)
		}
		if code := do(t, svc, "TagResource", `{"resourceArn":"`+groupARN+`g","tags":`+tt.tags+`}`, nil); code != tt.tag {
			t.Errorf("%s: adding them: %q, want %q", name, code, tt.tag)
		}
		if kept := svc.logGroup("g").tags; kept["old"] != "1" || (len(kept) == 1) != (tt.tag != "") {
			t.Errorf("%s: kept are %d tags", name, len(kept))
		}
	}
}

func TestALogGroupIsTaggedByItsARN(t *testing.T) {
	for name, tt := range map[string]struct{ arn, code string }{
		"its own":                {groupARN + "/aws/g", ""},
		"that with a star":       {groupARN + "/aws/g:*", "InvalidParameterException"},
		"one of no group":        {groupARN + "/aws/h", "ResourceNotFoundException"},
		"one of another region":  {"arn:aws:logs:eu-west-1:111122223333:log-group:/aws/g", "InvalidParameterException"},
		"one of another account": {"arn:aws:logs:us-east-1:999999999999:log-group:/aws/g", "InvalidParameterException"},
		"its name":               {"/aws/g", "InvalidParameterException"},
	} {
		svc := newService()
		svc.Ensure("/aws/g", noon())
		for op, rest := range map[string]string{"TagResource": `,"tags":{"a":"b"}`, "UntagResource": `,"tagKeys":["a"]`, "ListTagsForResource": ""} {
			if code := do(t, svc, op, fmt.Sprintf(`{"resourceArn":%q%s}`, tt.arn, rest), nil); code != tt.code {
				t.Errorf("%s by %s: %q, want %q", op, name, code, tt.code)
			}
		}
	}
}

func TestLogGroupsAreListed(t *testing.T) {
	svc := newService()
	for n := range 51 {
		svc.Ensure(fmt.Sprintf("/g/%02d", 50-n), noon())
	}
	svc.Ensure("/g/00", noon().Add(time.Hour)) // is there already
	do(t, svc, "PutRetentionPolicy", `{"logGroupName":"/g/00","retentionInDays":7}`, nil)
	type page struct {
		LogGroups []struct {
			LogGroupName    string
			CreationTime    int64
			RetentionInDays *int
		}
		NextToken string
	}
	for name, tt := range map[string]struct {
		body        string
		n           int
		first, last string
		more        bool
	}{
		"fifty where there is no limit": {`{}`, 50, "/g/00", "/g/49", true},
		"as many as the limit":          {`{"limit":3}`, 3, "/g/00", "/g/02", true},
		"those of a prefix":             {`{"logGroupNamePrefix":"/g/4"}`, 10, "/g/40", "/g/49", false},
		"none of another prefix":        {`{"logGroupNamePrefix":"g"}`, 0, "", "", false},
		"all of a page that just holds": {`{"limit":10,"logGroupNamePrefix":"/g/4"}`, 10, "/g/40", "/g/49", false},
	} {
		var got page
		if code := do(t, svc, "DescribeLogGroups", tt.body, &got); code != "" || len(got.LogGroups) != tt.n || (got.NextToken != "") != tt.more {
			t.Errorf("%s: %d groups, token %q (%s)", name, len(got.LogGroups), got.NextToken, code)
		} else if tt.n > 0 && (got.LogGroups[0].LogGroupName != tt.first || got.LogGroups[tt.n-1].LogGroupName != tt.last) {
			t.Errorf("%s: from %s to %s", name, got.LogGroups[0].LogGroupName, got.LogGroups[tt.n-1].LogGroupName)
		}
	}
	var all, rest page
	do(t, svc, "DescribeLogGroups", `{}`, &all)
	if g := all.LogGroups[0]; g.CreationTime != noon().UnixMilli() || g.RetentionInDays == nil || *g.RetentionInDays != 7 || all.LogGroups[1].RetentionInDays != nil {
		t.Errorf("groups %+v and %+v", g, all.LogGroups[1])
	}
	do(t, svc, "DescribeLogGroups", `{"nextToken":"`+all.NextToken+`"}`, &rest)
	if len(rest.LogGroups) != 1 || rest.LogGroups[0].LogGroupName != "/g/50" || rest.NextToken != "" {
		t.Errorf("the second page is %+v", rest)
	}
	for _, body := range []string{`{"limit":0}`, `{"limit":51}`, `{"nextToken":"x"}`, `{"nextToken":"` + (&api.Call{Op: "Other"}).Token("/g/1") + `"}`} {
		if code := do(t, svc, "DescribeLogGroups", body, nil); code != "InvalidParameterException" {
			t.Errorf("%s: %q", body, code)
		}
	}
	for _, body := range []string{`{"limit":"1"}`, `{"logGroupNamePattern":"g"}`} { // the second is not emulated
		if code := do(t, svc, "DescribeLogGroups", body, nil); code != "ValidationException" {
			t.Errorf("%s: %q", body, code)
		}
	}
}

func TestWhatComesLaterIsNotInACopy(t *testing.T) {
	svc := newService()
	svc.Ensure("g", noon())
	before := svc.Clone()
	for op, body := range map[string]string{"TagResource": `{"resourceArn":"` + groupARN + `g","tags":{"a":"b"}}`, "PutRetentionPolicy": `{"logGroupName":"g","retentionInDays":7}`, "CreateLogGroup": `{"logGroupName":"h"}`} {
		if code := do(t, svc, op, body, nil); code != "" {
			t.Fatalf("%s: %s", op, code)
		}
	}
	type got struct {
		Groups, Tags, Days int
	}
	show := func(svc *Service) got {
		g := svc.logGroup("g")
		return got{len(svc.groups), len(g.tags), g.days}
	}
	if diff := cmp.Diff([]got{{1, 0, 0}, {2, 1, 7}}, []got{show(before), show(svc)}); diff != "" {
		t.Errorf("the copy and the service (-want +got):\n%s", diff)
	}
	if do(t, svc, "DeleteRetentionPolicy", `{"logGroupName":"g"}`, nil); show(svc).Days != 0 {
		t.Error("a deleted retention is still there")
	}
	if do(t, svc, "UntagResource", `{"resourceArn":"`+groupARN+`g","tagKeys":["a","never"]}`, nil); show(svc).Tags != 0 {
		t.Error("a tag that was taken away is still there")
	}
	do(t, svc, "DeleteLogGroup", `{"logGroupName":"g"}`, nil)
	if code := do(t, svc, "DeleteLogGroup", `{"logGroupName":"g"}`, nil); code != "ResourceNotFoundException" || before.logGroup("g") == nil {
		t.Errorf("deleting it twice: %q, and the copy has it: %t", code, before.logGroup("g") != nil)
	}
}

func TestACallIsAuthorizedForItsLogGroup(t *testing.T) {
	tags, given := map[string]string{"team": "ml"}, map[string]string{"a": "b"}
	for name, tt := range map[string]struct {
		op, body string
		want     []api.AuthorizationRequest
	}{
		"by its name":         {"DeleteLogGroup", `{"logGroupName":"g"}`, []api.AuthorizationRequest{{Action: "logs:DeleteLogGroup", Resource: groupARN + "g", Tags: tags}}},
		"by its ARN":          {"TagResource", `{"resourceArn":"` + groupARN + `g","tags":{"a":"b"}}`, []api.AuthorizationRequest{{Action: "logs:TagResource", Resource: groupARN + "g", Tags: tags, RequestTags: given}}},
		"by the keys of tags": {"UntagResource", `{"resourceArn":"` + groupARN + `g","tagKeys":["a"]}`, []api.AuthorizationRequest{{Action: "logs:UntagResource", Resource: groupARN + "g", Tags: tags, Keys: []string{"a"}}}},
		"of a new one":        {"CreateLogGroup", `{"logGroupName":"new"}`, []api.AuthorizationRequest{{Action: "logs:CreateLogGroup", Resource: groupARN + "new"}}},
		"of a new one's tags": {"CreateLogGroup", `{"logGroupName":"new","tags":{"a":"b"}}`, []api.AuthorizationRequest{{Action: "logs:CreateLogGroup", Resource: groupARN + "new", RequestTags: given}, {Action: "logs:TagResource", Resource: groupARN + "new", RequestTags: given}}},
		"of the list of all":  {"DescribeLogGroups", `{}`, []api.AuthorizationRequest{{Action: "logs:DescribeLogGroups", Resource: "*"}}},
	} {
		svc := newService()
		do(t, svc, "CreateLogGroup", `{"logGroupName":"g","tags":{"team":"ml"}}`, nil)
		if diff := cmp.Diff(tt.want, svc.Table().Authorizations[tt.op](&api.Call{Op: tt.op, Body: []byte(tt.body)})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
