package policy

import (
	"fmt"
	"strings"
	"testing"
)

func TestADecisionNamesTheStatementThatMadeIt(t *testing.T) {
	const (
		allow  = `{"Sid":"Allow","Effect":"Allow","Action":"sqs:*","Resource":"*"}`
		again  = `{"Sid":"Again","Effect":"Allow","Action":"*","Resource":"*"}`
		deny   = `{"Sid":"Deny","Effect":"Deny","Action":"sqs:Delete*","Resource":"*"}`
		more   = `{"Sid":"More","Effect":"Deny","Action":"*","Resource":"` + mine + `"}`
		others = `{"Sid":"Others","Effect":"Allow","Action":"iam:*","Resource":"*"}`
		bare   = `{"Effect":"Allow","Action":"sqs:*","Resource":"*"}`
	)
	for name, tt := range map[string]struct {
		policies  []string // each is the statements of one
		boundary  string   // "" for none
		allowed   bool
		statement string
	}{
		"the first that allows":                         {[]string{allow + "," + again}, "", true, "Allow"},
		"the first policy's that allows":                {[]string{others, again, allow}, "", true, "Again"},
		"a statement without an id by its number":       {[]string{others + "," + bare}, "", true, "number 2"},
		"the first that denies, behind one that allows": {[]string{allow + "," + deny + "," + more}, "", false, "Deny"},
		"one that denies, before one that allows":       {[]string{deny + "," + allow}, "", false, "Deny"},
		"the first policy's that denies":                {[]string{allow + "," + deny, more}, "", false, "Deny"},
		"one that denies in another policy":             {[]string{allow, more}, "", false, "More"},
		"one that denies where none allows":             {[]string{deny}, "", false, "Deny"},
		"none where none allows":                        {[]string{others}, "", false, ""},
		"none where there is no policy":                 {nil, "", false, ""},
		"the policy's within its boundary":              {[]string{allow}, again, true, "Allow"},
		"none where the boundary does not allow":        {[]string{allow}, others, false, ""},
		"the boundary's that denies":                    {[]string{allow}, again + "," + deny, false, "Deny"},
		"the policy's denial, whatever the boundary":    {[]string{allow + "," + more}, deny, false, "More"},
		"none where the boundary alone allows":          {[]string{others}, allow, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var docs []Document
			for _, statements := range tt.policies {
				docs = append(docs, doc(t, statements))
			}
			var boundary *Document
			if tt.boundary != "" {
				d := doc(t, tt.boundary)
				boundary = &d
			}
			got := Evaluate(docs, boundary, request("sqs:DeleteQueue", mine))
			if got.Allowed != tt.allowed || got.Statement != tt.statement || (got.Why == "") != tt.allowed {
				t.Errorf("%+v, want %t by %q", got, tt.allowed, tt.statement)
			}
		})
	}
}

func TestResourcesAndActionsAreMatched(t *testing.T) {
	const (
		bucket, object = "arn:aws:s3:::b", "arn:aws:s3:::b/a/x.txt"
		group          = "arn:aws:logs:eu-west-1:1:log-group:/a:log-stream:s"
	)
	for name, tt := range map[string]struct {
		elements, action, resource string
		want                       bool
	}{
		"an ARN as it is written":                           {`"Action":"*","Resource":"` + bucket + `"`, "s3:Get", bucket, true},
		"an ARN in another case":                            {`"Action":"*","Resource":"arn:aws:s3:::B"`, "s3:Get", bucket, false},
		"an ARN that goes on":                               {`"Action":"*","Resource":"` + bucket + `"`, "s3:Get", object, false},
		"an ARN that a star goes on":                        {`"Action":"*","Resource":"` + bucket + `/*"`, "s3:Get", object, true},
		"an ARN that ends before the star":                  {`"Action":"*","Resource":"` + bucket + `/*"`, "s3:Get", bucket, false},
		"a star within the last part":                       {`"Action":"*","Resource":"arn:aws:s3:::b/*.txt"`, "s3:Get", object, true},
		"a star over the colons of the last part":           {`"Action":"*","Resource":"arn:aws:logs:*:*:log-group:*:s"`, "logs:Get", group, true},
		"a star that ends a part, over two":                 {`"Action":"*","Resource":"arn:aws:logs:*:log-group:/a:*"`, "logs:Get", group, true},
		"a star that ends the account, over what is behind": {`"Action":"*","Resource":"arn:aws:logs:eu-west-1:*:s"`, "logs:Get", group, true},
		"a star within a part, which is no two":             {`"Action":"*","Resource":"arn:aws:logs:eu*1:log-group:/a:*"`, "logs:Get", group, false},
		"a ?, which is no colon":                            {`"Action":"*","Resource":"arn:aws:logs:eu-west-1?1:log-group:/a:*"`, "logs:Get", group, false},
		"several ? within the last part":                    {`"Action":"*","Resource":"arn:aws:s3:::b/?/?.???"`, "s3:Get", object, true},
		"too few ?":                                         {`"Action":"*","Resource":"arn:aws:s3:::b/?/?.??"`, "s3:Get", object, false},
		"a ? for a letter of two bytes":                     {`"Action":"*","Resource":"arn:aws:s3:::b/?"`, "s3:Get", "arn:aws:s3:::b/é", true},
		"a star in the partition":                           {`"Action":"*","Resource":"arn:*:s3:::b"`, "s3:Get", "arn:aws-cn:s3:::b", true},
		"a part of the account":                             {`"Action":"*","Resource":"arn:aws:logs:*:?:*"`, "logs:Get", group, true},
		"another account":                                   {`"Action":"*","Resource":"arn:aws:logs:*:2:*"`, "logs:Get", group, false},
		"one of several ARNs":                               {`"Action":"*","Resource":["arn:aws:s3:::c","` + bucket + `"]`, "s3:Get", bucket, true},
		"an ARN of an action without resources":             {`"Action":"*","Resource":"arn:aws:s3:::*"`, "s3:ListAllMyBuckets", "*", false},
		"all but one of several ARNs":                       {`"Action":"*","NotResource":["arn:aws:s3:::c","` + bucket + `"]`, "s3:Get", object, true},
		"one of those that are exempt":                      {`"Action":"*","NotResource":["arn:aws:s3:::c","` + bucket + `"]`, "s3:Get", bucket, false},
		"an exempt star exempts all":                        {`"Action":"*","NotResource":"*"`, "s3:Get", bucket, false},
		"an action in another case":                         {`"Action":"S3:GETobject","Resource":"*"`, "s3:GetObject", bucket, true},
		"an exempt action in another case":                  {`"NotAction":"S3:GETobject","Resource":"*"`, "s3:GetObject", bucket, false},
		"an exempt pattern of actions":                      {`"NotAction":["s3:Put*","s3:Get*"],"Resource":"*"`, "s3:GetObject", bucket, false},
		"an action that is none of the exempt ones":         {`"NotAction":["s3:Put*","s3:Get*"],"Resource":"*"`, "s3:DeleteObject", bucket, true},
		"an action of another service than the exempt":      {`"NotAction":"s3:*","Resource":"*"`, "ec2:RunInstances", "*", true},
		"an action that begins with the pattern":            {`"Action":"s3:Get","Resource":"*"`, "s3:GetObject", bucket, false},
		"an action with a star in the middle":               {`"Action":"s3:*Object*","Resource":"*"`, "s3:GetObjectAcl", bucket, true},
		"an action whose star is for nothing":               {`"Action":"s3:GetObject*","Resource":"*"`, "s3:GetObject", bucket, true},
		"an action whose ? is for something":                {`"Action":"s3:GetObject?","Resource":"*"`, "s3:GetObject", bucket, false},
	} {
		t.Run(name, func(t *testing.T) {
			for effect, want := range map[string]bool{"Allow": tt.want, "Deny": !tt.want} {
				statements := `{"Effect":"` + effect + `",` + tt.elements + `}`
				if effect == "Deny" {
					statements += `,{"Effect":"Allow","Action":"*","Resource":"*"}`
				}
				if got := Evaluate([]Document{doc(t, statements)}, nil, request(tt.action, tt.resource)); got.Allowed != want {
					t.Errorf("%s: %v", effect, got)
				}
			}
		})
	}
}

// TestOperatorsAndTheirQuantities goes through the truth tables in the IAM guide: whether an
// operator is met by a key that is absent, that matches, that does not, and by two values of
// which one does.
func TestOperatorsAndTheirQuantities(t *testing.T) {
	const yes, no = true, false
	type truth struct{ absent, match, other, both bool }
	for name, want := range map[string]truth{
		"":                      {no, yes, no, yes},
		"IfExists":              {yes, yes, no, yes},
		"Not":                   {yes, no, yes, no},
		"Not IfExists":          {yes, no, yes, no},
		"ForAllValues":          {yes, yes, no, no},
		"ForAllValues IfExists": {yes, yes, no, no},
		"ForAllValues Not":      {yes, no, yes, no},
		"ForAnyValue":           {no, yes, no, yes},
		"ForAnyValue Not":       {no, no, yes, yes},
		"ForAnyValue IfExists":  {yes, yes, no, yes},
	} {
		for kind, pair := range map[string][2]string{ // what the policy has, and what does not match it
			"StringEquals": {"x", "y"}, "StringLike": {"x", "y"}, "ArnEquals": {"arn:aws:s3:::x", "arn:aws:s3:::y"}, "ArnLike": {"arn:aws:s3:::x", "arn:aws:s3:::y"}, "Bool": {"true", "false"},
		} {
			operator := kind
			if strings.Contains(name, "Not") {
				if kind == "Bool" {
					continue // IAM has no such
				}
				operator = strings.Replace(strings.Replace(kind, "String", "StringNot", 1), "Arn", "ArnNot", 1)
			}
			if strings.Contains(name, "IfExists") {
				operator += "IfExists"
			}
			if quantity, _, found := strings.Cut(name, " "); found && strings.HasPrefix(quantity, "For") || strings.HasPrefix(name, "For") {
				operator = quantity + ":" + operator
			}
			d := doc(t, fmt.Sprintf(`{"Effect":"Allow","Action":"*","Resource":"*","Condition":{%q:{"k:a":%q}}}`, operator, pair[0]))
			is := func(values ...string) bool {
				return Evaluate([]Document{d}, nil, Request{Action: "a:B", Resource: "*", Context: map[string][]string{"k:a": values}}).Allowed
			}
			if got := (truth{is(), is(pair[0]), is(pair[1]), is(pair[1], pair[0])}); got != want {
				t.Errorf("%s: %+v, want %+v", operator, got, want)
			}
		}
	}
}

func TestAConditionComparesItsKey(t *testing.T) {
	for name, tt := range map[string]struct {
		condition string
		context   map[string][]string
		want      bool
	}{
		"a backslash is no escape":               {`"StringLike":{"k:a":"a\\*"}`, map[string][]string{"k:a": {`a\b`}}, true},
		"a star is itself behind no backslash":   {`"StringLike":{"k:a":"a\\*"}`, map[string][]string{"k:a": {"a*"}}, false},
		"two stars are one":                      {`"StringLike":{"k:a":"a**b"}`, map[string][]string{"k:a": {"ab"}}, true},
		"a star that has to begin again":         {`"StringLike":{"k:a":"*ab"}`, map[string][]string{"k:a": {"aab"}}, true},
		"stars that have to begin again":         {`"StringLike":{"k:a":"*ab*cd"}`, map[string][]string{"k:a": {"abxcabcd"}}, true},
		"a pattern that ends too early":          {`"StringLike":{"k:a":"a*b"}`, map[string][]string{"k:a": {"abc"}}, false},
		"an empty value is a value":              {`"Null":{"k:a":"false"}`, map[string][]string{"k:a": {""}}, true},
		"an empty value equals an empty one":     {`"StringEquals":{"k:a":""}`, map[string][]string{"k:a": {""}}, true},
		"no value equals no empty one":           {`"StringEquals":{"k:a":""}`, map[string][]string{"k:a": {}}, false},
		"a key without values is absent":         {`"Null":{"k:a":"true"}`, map[string][]string{"k:a": {}}, true},
		"values of one key in two cases":         {`"ForAllValues:StringEquals":{"k:A":["x","y"]}`, map[string][]string{"k:a": {"x"}, "K:a": {"z"}}, false},
		"both values of one key in two cases":    {`"ForAnyValue:StringEquals":{"k:a":"x"},"ForAnyValue:StringLike":{"k:a":"z"}`, map[string][]string{"k:a": {"x"}, "K:a": {"z"}}, true},
		"a key that is a part of another":        {`"StringEquals":{"k:a":"x"}`, map[string][]string{"k:ab": {"x"}}, false},
		"a tag's key in another case":            {`"StringEquals":{"aws:ResourceTag/Team":"ml"}`, map[string][]string{"aws:ResourceTag/team": {"ml"}}, true},
		"Null of both is always met":             {`"Null":{"k:a":["true","false"]}`, nil, true},
		"a boolean in capitals":                  {`"Bool":{"k:a":"true"}`, map[string][]string{"k:a": {"True"}}, true},
		"an ARN that is no ARN, not equal":       {`"ArnNotEquals":{"k:a":"arn:aws:s3:::x"}`, map[string][]string{"k:a": {"x"}}, true},
		"any ARN, by a star alone":               {`"ArnLike":{"k:a":"*"}`, map[string][]string{"k:a": {"x"}}, true},
		"a wildcard in StringNotEquals":          {`"StringNotEquals":{"k:a":"x*"}`, map[string][]string{"k:a": {"xy"}}, true},
		"one key of two operators that conflict": {`"StringEquals":{"k:a":"x"},"StringNotEquals":{"k:a":"x"}`, map[string][]string{"k:a": {"x"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := doc(t, `{"Effect":"Allow","Action":"*","Resource":"*","Condition":{`+tt.condition+`}}`)
			if got := Evaluate([]Document{d}, nil, Request{Action: "a:B", Resource: "*", Context: tt.context}); got.Allowed != tt.want {
				t.Errorf("%v, want %t", got, tt.want)
			}
			denied := doc(t, `{"Effect":"Deny","Action":"*","Resource":"*","Condition":{`+tt.condition+`}},{"Effect":"Allow","Action":"*","Resource":"*"}`)
			if got := Evaluate([]Document{denied}, nil, Request{Action: "a:B", Resource: "*", Context: tt.context}); got.Allowed == tt.want {
				t.Errorf("a deny by it: %v", got)
			}
		})
	}
}

func TestADocumentIsReadAsAWhole(t *testing.T) {
	statement := func(elements string) string { return `{"Version":"2012-10-17","Statement":[{` + elements + `}]}` }
	const whole = `"Effect":"Allow","Action":"*","Resource":"*"`
	for name, tt := range map[string]struct {
		text string
		ok   bool
	}{
		"one statement without a list":      {`{"Version":"2012-10-17","Statement":{` + whole + `}}`, true},
		"an Id":                             {`{"Id":"x","Version":"2012-10-17","Statement":{` + whole + `}}`, true},
		"an Id that is a number":            {`{"Id":1,"Version":"2012-10-17","Statement":{` + whole + `}}`, false},
		"a version that is a number":        {`{"Version":20121017,"Statement":{` + whole + `}}`, false},
		"an empty id of a statement":        {statement(`"Sid":"",` + whole), true},
		"an id of a statement that is null": {statement(`"Sid":null,` + whole), false},
		"two statements of an empty id":     {`{"Version":"2012-10-17","Statement":[{"Sid":"",` + whole + `},{"Sid":"",` + whole + `}]}`, true},
		"a statement that is a string":      {`{"Version":"2012-10-17","Statement":["x"]}`, false},
		"a statement that is null":          {`{"Version":"2012-10-17","Statement":null}`, false},
		"a good statement and a bad one":    {`{"Version":"2012-10-17","Statement":[{` + whole + `},{"Effect":"Allow"}]}`, false},
		"resources in an empty list":        {statement(`"Effect":"Allow","Action":"*","Resource":[]`), false},
		"resources in a list of lists":      {statement(`"Effect":"Allow","Action":"*","Resource":[["*"]]`), false},
		"resources of both kinds":           {statement(whole + `,"NotResource":"*"`), false},
		"an effect that is a list":          {statement(`"Effect":["Allow"],"Action":"*","Resource":"*"`), false},
		"an action of two colons":           {statement(`"Effect":"Allow","Action":"s3:Get:Object","Resource":"*"`), false},
		"an action with a variable":         {statement(`"Effect":"Allow","Action":"s3:${x}","Resource":"*"`), false},
		"a condition without operators":     {statement(whole + `,"Condition":{}`), true},
		"a condition of an empty list":      {statement(whole + `,"Condition":{"StringEquals":{"k:a":[]}}`), false},
		"a condition with a star for a key": {statement(whole + `,"Condition":{"StringEquals":{"aws:RequestTag/*":"x"}}`), false},
		"a condition on dates":              {statement(whole + `,"Condition":{"DateLessThan":{"aws:CurrentTime":"2026-01-01T00:00:00Z"}}`), false},
		"a condition without case":          {statement(whole + `,"Condition":{"StringEqualsIgnoreCase":{"k:a":"x"}}`), false},
		"a boolean in JSON for Null":        {statement(whole + `,"Condition":{"Null":{"k:a":false}}`), true},
		"a boolean in capitals":             {statement(whole + `,"Condition":{"Bool":{"k:a":"True"}}`), false},
		"a key twice, deep inside":          {statement(whole + `,"Condition":{"StringEquals":{"k:a":"x","k:a":"y"}}`), false},
		"white space around it":             {" \n" + statement(whole) + "\t", true},
		"nothing":                           {``, false},
	} {
		if _, err := Parse(tt.text); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
