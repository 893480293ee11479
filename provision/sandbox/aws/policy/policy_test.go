package policy

import (
	"fmt"
	"strings"
	"testing"
)

func doc(t *testing.T, statements string) Document {
	t.Helper()
	d, err := Parse(`{"Version":"2012-10-17","Statement":[` + statements + `]}`)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func request(action, resource string, context ...string) Request {
	r := Request{Action: action, Resource: resource, Context: map[string][]string{}}
	for _, pair := range context {
		key, value, _ := strings.Cut(pair, "=")
		r.Context[key] = append(r.Context[key], value)
	}
	return r
}

const (
	mine  = "arn:aws:sqs:eu-west-1:000000000000:mine"
	yours = "arn:aws:sqs:eu-west-1:000000000000:yours"
)

func TestEvaluate(t *testing.T) {
	const send = `{"Sid":"Send","Effect":"Allow","Action":"sqs:SendMessage","Resource":"` + mine + `"}`
	for name, test := range map[string]struct {
		statements string
		request    Request
		want       string
	}{
		"what nothing allows is denied":           {``, request("sqs:SendMessage", mine), "denied because no identity-based policy allows the sqs:SendMessage action"},
		"what a statement allows is allowed":      {send, request("sqs:SendMessage", mine), "allowed by statement Send"},
		"another action is denied":                {send, request("sqs:DeleteQueue", mine), "denied because no"},
		"another resource is denied":              {send, request("sqs:SendMessage", yours), "denied because no"},
		"all resources are not one resource":      {send, request("sqs:SendMessage", "*"), "denied because no"},
		"actions are matched in any case":         {send, request("SQS:sendmessage", mine), "allowed"},
		"resources are matched as written":        {send, request("sqs:SendMessage", strings.ToUpper(mine)), "denied because no"},
		"a statement without Sid has a number":    {`{"Effect":"Allow","Action":"*","Resource":"*"}`, request("sqs:SendMessage", mine), "allowed by statement number 1"},
		"an explicit deny wins over any allow":    {send + `,{"Sid":"Stop","Effect":"Deny","Action":"sqs:*","Resource":"*"}`, request("sqs:SendMessage", mine), "denied because of an explicit deny in an identity-based policy (statement Stop)"},
		"an explicit deny wins wherever it is":    {`{"Effect":"Deny","Action":"sqs:*","Resource":"*"},` + send, request("sqs:SendMessage", mine), "denied because of an explicit deny"},
		"a deny without an allow is explicit":     {`{"Sid":"Stop","Effect":"Deny","Action":"sqs:*","Resource":"*"}`, request("sqs:SendMessage", mine), "(statement Stop)"},
		"a deny of something else does nothing":   {send + `,{"Effect":"Deny","Action":"iam:*","Resource":"*"}`, request("sqs:SendMessage", mine), "allowed"},
		"a star in an action":                     {`{"Effect":"Allow","Action":["s3:*","sqs:*Message"],"Resource":"*"}`, request("sqs:SendMessage", mine), "allowed"},
		"a star in an action ends where it must":  {`{"Effect":"Allow","Action":"sqs:*Message","Resource":"*"}`, request("sqs:SendMessageBatch", mine), "denied"},
		"a ? is one character":                    {`{"Effect":"Allow","Action":"sqs:Sen?Message","Resource":"*"}`, request("sqs:SendMessage", mine), "allowed"},
		"a ? is no two characters":                {`{"Effect":"Allow","Action":"sqs:Se?Message","Resource":"*"}`, request("sqs:SendMessage", mine), "denied"},
		"NotAction is all but those":              {`{"Effect":"Allow","NotAction":"iam:*","Resource":"*"}`, request("sqs:SendMessage", mine), "allowed"},
		"NotAction is not those":                  {`{"Effect":"Allow","NotAction":"sqs:*","Resource":"*"}`, request("sqs:SendMessage", mine), "denied because no"},
		"NotResource is all but those":            {send + `,{"Effect":"Deny","Action":"sqs:*","NotResource":"` + yours + `"}`, request("sqs:SendMessage", mine), "explicit deny"},
		"NotResource is not those":                {send + `,{"Effect":"Deny","Action":"sqs:*","NotResource":"` + mine + `"}`, request("sqs:SendMessage", mine), "allowed"},
		"NotResource holds without any resource":  {`{"Effect":"Deny","Action":"sqs:*","NotResource":"` + mine + `"}`, request("sqs:ListQueues", "*"), "explicit deny"},
		"a star in the last part of an ARN":       {`{"Effect":"Allow","Action":"*","Resource":"arn:aws:sqs:eu-west-1:000000000000:m*"}`, request("sqs:SendMessage", mine), "allowed"},
		"a star takes in colons of the last part": {`{"Effect":"Allow","Action":"*","Resource":"arn:aws:logs:eu-west-1:1:log-group:/a*"}`, request("logs:X", "arn:aws:logs:eu-west-1:1:log-group:/a:log-stream:b"), "allowed"},
		"a star stays in its part of an ARN":      {`{"Effect":"Allow","Action":"*","Resource":"arn:aws:sqs:*:mine"}`, Request{}, "not of a form"},
		"a star that ends a part goes on":         {`{"Effect":"Allow","Action":"*","Resource":"arn:aws:sqs:*:1:mine"}`, request("sqs:X", "arn:aws:sqs:eu-west-1:1:1:mine"), "allowed"},
		"an empty part is matched by a star":      {`{"Effect":"Allow","Action":"*","Resource":"arn:aws:ec2:r:*:image/*"}`, request("ec2:X", "arn:aws:ec2:r::image/ami-1"), "allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Parse(`{"Version":"2012-10-17","Statement":[` + test.statements + `]}`)
			got := fmt.Sprint(err)
			if err == nil {
				got = Evaluate([]Document{d}, nil, test.request).String()
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestTheBoundaryIsAnIntersection(t *testing.T) {
	all := doc(t, `{"Sid":"All","Effect":"Allow","Action":"*","Resource":"*"}`)
	queues := doc(t, `{"Sid":"Queues","Effect":"Allow","Action":"sqs:*","Resource":"*"}`)
	never := doc(t, `{"Sid":"All","Effect":"Allow","Action":"*","Resource":"*"},{"Sid":"Never","Effect":"Deny","Action":"sqs:DeleteQueue","Resource":"*"}`)
	for name, test := range map[string]struct {
		docs     []Document
		boundary Document
		action   string
		want     string
	}{
		"both allow":                          {[]Document{all}, queues, "sqs:SendMessage", "allowed by statement All"},
		"only the policy allows":              {[]Document{all}, queues, "iam:CreateUser", "denied because no permissions boundary allows the iam:CreateUser action"},
		"only the boundary allows":            {[]Document{queues}, all, "iam:CreateUser", "denied because no identity-based policy allows"},
		"the boundary denies":                 {[]Document{all}, never, "sqs:DeleteQueue", "of an explicit deny in a permissions boundary (statement Never)"},
		"the policy denies within the bounds": {[]Document{never}, all, "sqs:DeleteQueue", "of an explicit deny in an identity-based policy (statement Never)"},
		"the second policy allows":            {[]Document{queues, all}, all, "iam:CreateUser", "allowed by statement All"},
		"the second policy denies":            {[]Document{all, never}, all, "sqs:DeleteQueue", "explicit deny"},
		"an empty boundary allows nothing":    {[]Document{all}, Document{}, "sqs:SendMessage", "no permissions boundary"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Evaluate(test.docs, &test.boundary, request(test.action, mine)).String(); !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	const role = "arn:aws:iam::000000000000:role/nodes"
	for _, test := range []struct {
		name      string
		condition string
		context   []string
		want      bool
	}{
		{"equal", `"StringEquals":{"aws:RequestTag/a":"x"}`, []string{"aws:RequestTag/a=x"}, true},
		{"equal to one of several", `"StringEquals":{"aws:RequestTag/a":["x","y"]}`, []string{"aws:RequestTag/a=y"}, true},
		{"values are compared as written", `"StringEquals":{"k:a":"x"}`, []string{"k:a=X"}, false},
		{"keys in any case", `"StringEquals":{"AWS:requesttag/A":"x"}`, []string{"aws:RequestTag/a=x"}, true},
		{"a star is a star to StringEquals", `"StringEquals":{"k:a":"*"}`, []string{"k:a=x"}, false},
		{"an absent key equals nothing", `"StringEquals":{"k:a":"x"}`, nil, false},
		{"an absent key is not equal", `"StringNotEquals":{"k:a":"x"}`, nil, true},
		{"not equal to any of several", `"StringNotEquals":{"k:a":["x","y"]}`, []string{"k:a=y"}, false},
		{"not equal", `"StringNotEquals":{"k:a":["x","y"]}`, []string{"k:a=z"}, true},
		{"like", `"StringLike":{"k:a":"x*z?"}`, []string{"k:a=xyyz1"}, true},
		{"like nothing at all", `"StringLike":{"k:a":"*"}`, []string{"k:a="}, true},
		{"not like", `"StringNotLike":{"k:a":"x*"}`, []string{"k:a=xy"}, false},
		{"an absent key if it exists", `"StringEqualsIfExists":{"k:a":"x"}`, nil, true},
		{"a present key if it exists", `"StringEqualsIfExists":{"k:a":"x"}`, []string{"k:a=y"}, false},
		{"two keys must both hold", `"StringEquals":{"k:a":"x","k:b":"y"}`, []string{"k:a=x"}, false},
		{"two operators must both hold", `"StringEquals":{"k:a":"x"},"StringLike":{"k:b":"*"}`, []string{"k:a=x"}, false},
		{"both do", `"StringEquals":{"k:a":"x"},"StringLike":{"k:b":"*"}`, []string{"k:a=x", "k:b=y"}, true},
		{"an ARN", `"ArnEquals":{"k:a":"` + role + `"}`, []string{"k:a=" + role}, true},
		{"an ARN with a wildcard", `"ArnEquals":{"k:a":"arn:*:iam::*:role/no*"}`, []string{"k:a=" + role}, true},
		{"an ARN part by part", `"ArnLike":{"k:a":"arn:aws:*:*:*:role/nodes"}`, []string{"k:a=arn:aws:iam::0:1:role/nodes"}, false},
		{"no ARN at all", `"ArnLike":{"k:a":"arn:*:*:*:*:*"}`, []string{"k:a=nodes"}, false},
		{"not an ARN of several", `"ArnNotEquals":{"k:a":["` + role + `","arn:aws:iam::1:role/x"]}`, []string{"k:a=" + role}, false},
		{"an absent ARN is not equal", `"ArnNotLike":{"k:a":"` + role + `"}`, nil, true},
		{"true", `"Bool":{"k:a":"true"}`, []string{"k:a=true"}, true},
		{"a JSON boolean", `"Bool":{"k:a":true}`, []string{"k:a=false"}, false},
		{"an absent boolean", `"Bool":{"k:a":"false"}`, nil, false},
		{"null when absent", `"Null":{"k:a":"true"}`, nil, true},
		{"null when present", `"Null":{"k:a":"true"}`, []string{"k:a=x"}, false},
		{"not null when present", `"Null":{"k:a":"false"}`, []string{"k:a=x"}, true},
		{"not null when absent", `"Null":{"k:a":"false"}`, nil, false},
		{"all of several", `"ForAllValues:StringEquals":{"aws:TagKeys":["a","b"]}`, []string{"aws:TagKeys=a", "aws:TagKeys=b"}, true},
		{"all but one of several", `"ForAllValues:StringEquals":{"aws:TagKeys":["a","b"]}`, []string{"aws:TagKeys=a", "aws:TagKeys=c"}, false},
		{"all of none", `"ForAllValues:StringEquals":{"aws:TagKeys":["a","b"]}`, nil, true},
		{"none of several", `"ForAllValues:StringNotLike":{"aws:TagKeys":"a*"}`, []string{"aws:TagKeys=b", "aws:TagKeys=aa"}, false},
		{"any of several", `"ForAnyValue:StringLike":{"aws:TagKeys":"a*"}`, []string{"aws:TagKeys=b", "aws:TagKeys=aa"}, true},
		{"any of none", `"ForAnyValue:StringLike":{"aws:TagKeys":"*"}`, nil, false},
		{"any that is not", `"ForAnyValue:StringNotEquals":{"aws:TagKeys":"a"}`, []string{"aws:TagKeys=a", "aws:TagKeys=b"}, true},
		{"none that is not", `"ForAnyValue:StringNotEquals":{"aws:TagKeys":"a"}`, []string{"aws:TagKeys=a"}, false},
		{"any of none that is not", `"ForAnyValue:ArnNotEquals":{"k:a":"` + role + `"}`, nil, false},
		{"any of none if there is any", `"ForAnyValue:StringEqualsIfExists":{"k:a":"x"}`, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := doc(t, `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{`+test.condition+`}}`)
			if got := Evaluate([]Document{d}, nil, request("a:B", "*", test.context...)); got.Allowed != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

func TestWhatIsNotEmulatedIsRefused(t *testing.T) {
	const version = `{"Version":"2012-10-17","Statement":`
	condition := func(c string) string {
		return version + `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{` + c + `}}}`
	}
	for name, test := range map[string]struct{ text, texts string }{
		"no JSON":                      {`{`, "no JSON"},
		"a list":                       {`[]`, "no JSON object"},
		"two documents":                {`{"Version":"2012-10-17","Statement":[]} {}`, "follows"},
		"an old version":               {`{"Version":"2008-10-17","Statement":[]}`, "2008-10-17"},
		"no version":                   {`{"Statement":[]}`, "Version"},
		"no statement":                 {`{"Version":"2012-10-17"}`, "statement 1"},
		"an unknown field":             {`{"Version":"2012-10-17","Statements":[]}`, "Statements"},
		"a field in the wrong case":    {version + `{"effect":"Allow","Action":"*","Resource":"*"}}`, "effect"},
		"a key twice":                  {version + `{"Effect":"Deny","Effect":"Allow","Action":"*","Resource":"*"}}`, "twice"},
		"a Sid twice":                  {version + `[{"Sid":"A","Effect":"Allow","Action":"*","Resource":"*"},{"Sid":"A","Effect":"Deny","Action":"*","Resource":"*"}]}`, "taken"},
		"a Sid with spaces":            {version + `{"Sid":"a b","Effect":"Allow","Action":"*","Resource":"*"}}`, "Sid"},
		"a principal":                  {version + `{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}}`, "Principal"},
		"no effect":                    {version + `{"Action":"*","Resource":"*"}}`, "Effect"},
		"another effect":               {version + `{"Effect":"allow","Action":"*","Resource":"*"}}`, "Effect"},
		"no action":                    {version + `{"Effect":"Allow","Resource":"*"}}`, "Action"},
		"two kinds of actions":         {version + `{"Effect":"Allow","Action":"*","NotAction":"*","Resource":"*"}}`, "exactly one"},
		"no resource":                  {version + `{"Effect":"Allow","Action":"*"}}`, "Resource"},
		"no actions in a list":         {version + `{"Effect":"Allow","Action":[],"Resource":"*"}}`, "empty"},
		"an action without a service":  {version + `{"Effect":"Allow","Action":"Get*","Resource":"*"}}`, "Get*"},
		"a wildcard in a service":      {version + `{"Effect":"Allow","Action":"s*:Get","Resource":"*"}}`, "s*:Get"},
		"an action that is a number":   {version + `{"Effect":"Allow","Action":1,"Resource":"*"}}`, "no string"},
		"a resource that is no ARN":    {version + `{"Effect":"Allow","Action":"*","Resource":"mine"}}`, "mine"},
		"an ARN of any service":        {version + `{"Effect":"Allow","Action":"*","Resource":"arn:aws:*:::x"}}`, "arn:aws:*"},
		"a short ARN":                  {version + `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3*"}}`, "arn:aws:s3"},
		"a variable in a resource":     {version + `{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::${aws:username}"}}`, "variables"},
		"a variable in a condition":    {condition(`"StringEquals":{"k:a":"${aws:username}"}`), "variables"},
		"a variable in a key":          {condition(`"StringEquals":{"aws:RequestTag/${x}":"a"}`), "no key"},
		"a key without a service":      {condition(`"StringEquals":{"a":"x"}`), "no key"},
		"a key twice in two cases":     {condition(`"StringEquals":{"k:a":"x","K:A":"y"}`), "twice"},
		"an operator without keys":     {condition(`"StringEquals":{}`), "no keys"},
		"a condition that is a string": {version + `{"Effect":"Allow","Action":"*","Resource":"*","Condition":"x"}}`, "Condition"},
		"an operator on numbers":       {condition(`"NumericLessThan":{"k:a":"1"}`), "NumericLessThan"},
		"an operator on addresses":     {condition(`"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}`), "IpAddress"},
		"an operator in another case":  {condition(`"stringequals":{"k:a":"1"}`), "stringequals"},
		"a quantity of quantities":     {condition(`"ForAnyValue:ForAllValues:StringEquals":{"k:a":"1"}`), "not emulated"},
		"Null if it exists":            {condition(`"NullIfExists":{"k:a":"true"}`), "NullIfExists"},
		"Null of all values":           {condition(`"ForAllValues:Null":{"k:a":"true"}`), "ForAllValues:Null"},
		"a boolean that is none":       {condition(`"Bool":{"k:a":"yes"}`), "yes"},
		"an ARN condition on a name":   {condition(`"ArnEquals":{"k:a":"nodes"}`), "no ARN"},
		"a value that is a number":     {condition(`"StringEquals":{"k:a":1}`), "no string"},
		"a value that is a boolean":    {condition(`"StringEquals":{"k:a":true}`), "no string"},
		"a value that is nothing":      {condition(`"StringEquals":{"k:a":null}`), "no string"},
		"too deep":                     {strings.Repeat(`{"a":`, 20), "deep"},
		"too long":                     {`{"Version":"` + strings.Repeat("x", 70000), "longer"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(test.text); err == nil || !strings.Contains(err.Error(), test.texts) {
				t.Errorf("error %v does not say %q", err, test.texts)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"Version":"2012-10-17","Statement":[{"Sid":"A","Effect":"Allow","Action":["a:*"],"NotResource":"arn:aws:a:::b*","Condition":{"ForAnyValue:StringLikeIfExists":{"k:a":["*x?"]}}}]}`, "a:B", "arn:aws:a:::c", "x")
	f.Add(`{"Version":"2012-10-17","Statement":{"Effect":"Deny","NotAction":"a:B","Resource":"*","Condition":{"Null":{"k:a":true}}}}`, "a:C", "*", "")
	f.Fuzz(func(t *testing.T, text, action, resource, value string) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		r := request(action, resource, "k:a="+value)
		got := Evaluate([]Document{d}, nil, r)
		if got.Allowed != (got.Why == "") {
			t.Fatal(got)
		}
		// A boundary never gives, a deny always takes, no document allows nothing.
		if bounded := Evaluate([]Document{d}, &d, r); bounded.Allowed != got.Allowed {
			t.Fatalf("bounded by itself: %v instead of %v", bounded, got)
		}
		if Evaluate(nil, &d, r).Allowed || Evaluate([]Document{d}, &Document{}, r).Allowed {
			t.Fatal("allowed by nobody")
		}
		stop := doc(t, `{"Effect":"Deny","Action":"*","Resource":"*"}`)
		if Evaluate([]Document{d, stop}, nil, r).Allowed {
			t.Fatal("allowed although everything is denied")
		}
	})
}
