package iam

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// padded is a permissions policy of that many characters besides white space.
func padded(n int, filler string) string {
	const begin, end = `{"Statement":{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::`, `"}}`
	return begin + strings.Repeat(filler, n-len(begin)-len(end)) + end
}

func TestDocumentsAreOfLatin1AndBounded(t *testing.T) {
	spaces := func(n int) string { return strings.Repeat(" \n\t\r", n/4) }
	for name, tt := range map[string]struct{ document, managed, inline string }{
		"a managed policy's bound":               {padded(6144, "a"), "", ""},
		"one over a managed policy's bound":      {padded(6145, "a"), "LimitExceeded", ""},
		"an inline policy's bound":               {padded(10240, "a"), "LimitExceeded", ""},
		"one over an inline policy's bound":      {padded(10241, "a"), "LimitExceeded", "LimitExceeded"},
		"white space, which is not counted":      {spaces(90000) + padded(6144, "a"), "", ""},
		"white space beyond what is read at all": {spaces(131072) + read, "ValidationError", "ValidationError"},
		"letters of two bytes, counted as one":   {padded(6144, "é"), "", ""},
		"a letter that is none of Latin-1":       {strings.Replace(read, "*", "→", 1), "ValidationError", "ValidationError"},
		"a letter that JSON writes as an escape": {strings.Replace(read, `"*"`, `"arn:aws:s3:::\u2192"`, 1), "", ""},
		"a control character":                    {read + "\x00", "ValidationError", "ValidationError"},
		"something behind the document":          {read + "{}", "MalformedPolicyDocument", "MalformedPolicyDocument"},
		"a trust policy":                         {trust, "MalformedPolicyDocument", "MalformedPolicyDocument"},
	} {
		svc := newService("us-east-1", 0)
		if code := request(t, svc, "CreatePolicy", nil, "PolicyName", "new", "PolicyDocument", tt.document); code != tt.managed {
			t.Errorf("%s: as a managed policy %q, want %q", name, code, tt.managed)
		}
		request(t, svc, "CreatePolicy", nil, "PolicyName", "p", "PolicyDocument", read)
		if code := request(t, svc, "CreatePolicyVersion", nil, "PolicyArn", policy+"p", "PolicyDocument", tt.document); code != tt.managed {
			t.Errorf("%s: as a version %q, want %q", name, code, tt.managed)
		}
		if code := request(t, svc, "PutRolePolicy", nil, "RoleName", "node", "PolicyName", "new", "PolicyDocument", tt.document); code != tt.inline {
			t.Errorf("%s: as an inline policy %q, want %q", name, code, tt.inline)
		}
		if kept, made := len(svc.policies[policy+"p"].versions), len(svc.roles["node"].inline); (kept == 2) != (tt.managed == "") || (made == 1) != (tt.inline == "") {
			t.Errorf("%s: %d versions and %d inline policies are there", name, kept, made)
		}
	}
}

func TestInlinePoliciesShareOneBound(t *testing.T) {
	svc := newService("us-east-1", 0)
	for _, step := range []struct {
		name string
		size int
		code string
	}{
		{"a", 5000, ""}, {"b", 5240, ""}, {"c", 100, "LimitExceeded"},
		{"a", 5001, "LimitExceeded"}, // what it replaces does not count, and the other does
		{"a", 4900, ""}, {"c", 100, ""}, {"d", 100, "LimitExceeded"},
	} {
		if code := request(t, svc, "PutRolePolicy", nil, "RoleName", "node", "PolicyName", step.name, "PolicyDocument", padded(step.size, "a")); code != step.code {
			t.Errorf("%s of %d characters: %q, want %q", step.name, step.size, code, step.code)
		}
	}
	if code := request(t, svc, "DeleteRolePolicy", nil, "RoleName", "node", "PolicyName", "b"); code != "" {
		t.Fatal(code)
	}
	if code := request(t, svc, "PutRolePolicy", nil, "RoleName", "node", "PolicyName", "d", "PolicyDocument", padded(5240, "a")); code != "" {
		t.Errorf("in the room of a deleted one: %s", code)
	}
}

func TestVersionsOfAPolicy(t *testing.T) {
	svc := newService("us-east-1", 0)
	const arn = policy + "p"
	type got struct {
		Default string `xml:"Policy>DefaultVersionId"`
		Updated string `xml:"Policy>UpdateDate"`
	}
	create := func(pairs ...string) []string {
		return append([]string{"CreatePolicyVersion", "PolicyArn", arn, "PolicyDocument", read}, pairs...)
	}
	remove := func(id string) []string {
		return []string{"DeletePolicyVersion", "PolicyArn", arn, "VersionId", id}
	}
	begin := svc.account.Clock.Now()
	for n, step := range []struct {
		call     []string
		code     string
		standard string // the version that is then the default
	}{
		{[]string{"CreatePolicy", "PolicyName", "p", "PolicyDocument", read}, "", "v1"},
		{create(), "", "v1"},
		{create("SetAsDefault", "true"), "", "v3"},
		{create("SetAsDefault", "yes"), "ValidationError", "v3"},
		{create("SetAsDefault", "false"), "", "v3"},
		{create("SetAsDefault", "true"), "", "v5"},
		{create("SetAsDefault", "true"), "LimitExceeded", "v5"},
		{remove("v5"), "DeleteConflict", "v5"},
		{remove("v1"), "", "v5"},
		{remove("v1"), "NoSuchEntity", "v5"},
		{remove("V2"), "NoSuchEntity", "v5"},
		{create("SetAsDefault", "true"), "", "v6"},
		{remove("v5"), "", "v6"},
		{[]string{"DeletePolicy", "PolicyArn", arn}, "DeleteConflict", "v6"},
		{remove("v2"), "", "v6"}, {remove("v3"), "", "v6"}, {remove("v4"), "", "v6"},
		{remove("v6"), "DeleteConflict", "v6"},
		{[]string{"DeletePolicy", "PolicyArn", arn}, "", ""},
		{[]string{"DeletePolicy", "PolicyArn", arn}, "NoSuchEntity", ""},
	} {
		svc.account.Clock = still{begin.Add(time.Duration(n) * time.Minute)}
		var before, after got
		request(t, svc, "GetPolicy", &before, "PolicyArn", arn)
		code := request(t, svc, step.call[0], nil, step.call[1:]...)
		request(t, svc, "GetPolicy", &after, "PolicyArn", arn)
		if code != step.code || after.Default != step.standard {
			t.Errorf("step %d, %q: %q and the default %q, want %q and %q", n, step.call, code, after.Default, step.code, step.standard)
		}
		if made := step.call[0] == "CreatePolicyVersion" && step.code == ""; n > 0 && after.Default != "" && made == (before.Updated == after.Updated) {
			t.Errorf("step %d, %q: it was changed %s, and is shown as changed %s", n, step.call, before.Updated, after.Updated)
		}
	}
}

func TestAPolicyIsAttachedToTenAtMost(t *testing.T) {
	svc := newService("us-east-1", 0)
	attach := func(role, arn string) string {
		return request(t, svc, "AttachRolePolicy", nil, "RoleName", role, "PolicyArn", arn)
	}
	for n := range 11 {
		if code := request(t, svc, "CreatePolicy", nil, "PolicyName", fmt.Sprint("p", n), "PolicyDocument", read); code != "" {
			t.Fatal(code)
		}
		if code := attach("node", policy+fmt.Sprint("p", n)); (code == "") != (n < 10) {
			t.Errorf("policy %d: %q", n+1, code)
		}
	}
	for name, step := range map[string]struct{ arn, code string }{
		"one that is attached already":    {policy + "p0", ""},
		"one more":                        {policy + "p10", "LimitExceeded"},
		"one that does not exist":         {policy + "none", "NoSuchEntity"},
		"one by its name in another case": {policy + "P0", "NoSuchEntity"},
		"one of AWS that does not exist":  {"arn:aws:iam::aws:policy/None", "NoSuchEntity"},
		"one of AWS by a wrong path":      {"arn:aws:iam::aws:policy/service-role/ReadOnlyAccess", "NoSuchEntity"},
		"one of another account":          {"arn:aws:iam::2:policy/p0", "NoSuchEntity"},
		"one of another partition":        {"arn:aws-cn:iam::aws:policy/ReadOnlyAccess", "InvalidInput"},
		"what is a role":                  {"arn:aws:iam::1:role/node", "InvalidInput"},
	} {
		if code := attach("node", step.arn); code != step.code {
			t.Errorf("attaching %s: %q, want %q", name, code, step.code)
		}
	}
	if code := request(t, svc, "DetachRolePolicy", nil, "RoleName", "node", "PolicyArn", policy+"p0"); code != "" {
		t.Fatal(code)
	}
	if code := attach("node", policy+"p10"); code != "" {
		t.Errorf("in the room of a detached one: %s", code)
	}
}

func TestAnInstanceProfileHoldsOneRole(t *testing.T) {
	svc := newService("us-east-1", 0)
	for _, step := range []struct {
		op   string
		call []string
		code string
	}{
		{"CreateRole", []string{"RoleName", "other", "AssumeRolePolicyDocument", trust}, ""},
		{"CreateInstanceProfile", []string{"InstanceProfileName", "p"}, ""},
		{"RemoveRoleFromInstanceProfile", []string{"InstanceProfileName", "p", "RoleName", "node"}, "NoSuchEntity"},
		{"AddRoleToInstanceProfile", []string{"InstanceProfileName", "p", "RoleName", "none"}, "NoSuchEntity"},
		{"AddRoleToInstanceProfile", []string{"InstanceProfileName", "none", "RoleName", "node"}, "NoSuchEntity"},
		{"AddRoleToInstanceProfile", []string{"InstanceProfileName", "p", "RoleName", "other"}, ""},
		{"AddRoleToInstanceProfile", []string{"InstanceProfileName", "p", "RoleName", "other"}, "LimitExceeded"},
		{"AddRoleToInstanceProfile", []string{"InstanceProfileName", "p", "RoleName", "node"}, "LimitExceeded"},
		{"DeleteInstanceProfile", []string{"InstanceProfileName", "p"}, "DeleteConflict"},
		{"DeleteRole", []string{"RoleName", "other"}, "DeleteConflict"},
		{"RemoveRoleFromInstanceProfile", []string{"InstanceProfileName", "p", "RoleName", "node"}, "NoSuchEntity"},
		{"RemoveRoleFromInstanceProfile", []string{"InstanceProfileName", "p", "RoleName", "other"}, ""},
		{"DeleteRole", []string{"RoleName", "other"}, ""},
		{"DeleteInstanceProfile", []string{"InstanceProfileName", "p"}, ""},
		{"DeleteInstanceProfile", []string{"InstanceProfileName", "p"}, "NoSuchEntity"},
	} {
		if code := request(t, svc, step.op, nil, step.call...); code != step.code {
			t.Errorf("%s %q: %q, want %q", step.op, step.call, code, step.code)
		}
	}
}

func TestPrincipalsOfServices(t *testing.T) {
	for name, want := range map[string]bool{
		"ec2.amazonaws.com": true, "ec2.amazonaws.com.cn": true, "eks.amazonaws.com": true, "pods.eks.amazonaws.com": true, "logs.eu-west-1.amazonaws.com": true,
		"eks-nodegroup.amazonaws.com": true, "logs.us-gov-west-1.amazonaws.com": true,
		"pods.ec2.amazonaws.com": false, "pods.amazonaws.com": false, "nope.amazonaws.com": false, "EC2.amazonaws.com": false, "ec2.amazonaws.com.evil.com": false,
		"ec2.amazonaws.org": false, "xec2.amazonaws.com": false, "ec2": false, "": false, "*": false, "logs.eu.amazonaws.com": false,
	} {
		if got := servicePrincipal(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}

func TestATrustPolicy(t *testing.T) {
	statement := func(elements string) string { return `{"Statement":{"Effect":"Allow",` + elements + `}}` }
	const service, assume, bad = `"Principal":{"Service":"ec2.amazonaws.com"},`, `"Action":"sts:AssumeRole"`, "MalformedPolicyDocument"
	for name, tt := range map[string]struct{ document, code string }{
		"for a service":                       {statement(service + assume), ""},
		"for everybody":                       {statement(`"Principal":"*",` + assume), ""},
		"of a denial":                         {`{"Statement":[` + `{"Effect":"Deny",` + service + assume + `}]}`, ""},
		"of two actions of STS":               {statement(service + `"Action":["sts:AssumeRole","sts:TagSession"]`), ""},
		"with a condition":                    {statement(service + assume + `,"Condition":{"StringEquals":{"aws:SourceAccount":"1"}}`), ""},
		"not of an action of another service": {statement(service + `"Action":["sts:AssumeRole","ec2:RunInstances"]`), bad},
		"not without a principal":             {statement(assume), bad},
		"not with a principal by its name":    {statement(`"Principal":"ec2.amazonaws.com",` + assume), bad},
		"not with a list of principals":       {statement(`"Principal":["*"],` + assume), bad},
		"not with a resource":                 {statement(service + assume + `,"Resource":"*"`), bad},
		"not with an exempt resource":         {statement(service + assume + `,"NotResource":"*"`), bad},
		"not with both kinds of principals":   {statement(service + `"NotPrincipal":{"AWS":"*"},` + assume), bad},
		"not with an unknown condition":       {statement(service + assume + `,"Condition":{"StringIs":{"aws:a":"1"}}`), bad},
		"not with a good statement and a bad": {`{"Statement":[{"Effect":"Allow",` + service + assume + `},{"Effect":"Allow",` + assume + `}]}`, bad},
		"of 2048 characters":                  {trustOf(2048), ""},
		"of 2048 characters and white space":  {" \n" + trustOf(2048), ""},
		"not of 2049 characters":              {trustOf(2049), "LimitExceeded"},
	} {
		svc := newService("us-east-1", 0)
		if code := request(t, svc, "CreateRole", nil, "RoleName", "new", "AssumeRolePolicyDocument", tt.document); code != tt.code {
			t.Errorf("made %s: %q, want %q", name, code, tt.code)
		}
		if code := request(t, svc, "UpdateAssumeRolePolicy", nil, "RoleName", "node", "PolicyDocument", tt.document); code != tt.code {
			t.Errorf("changed into one %s: %q, want %q", name, code, tt.code)
		}
		if after := svc.roles["node"].trust; (after == tt.document) != (tt.code == "") {
			t.Errorf("%s: the role has the trust %.99s", name, after)
		}
	}
}

// trustOf is a trust policy of that many characters.
func trustOf(n int) string {
	const begin, end = `{"Id":"`, `",` // what comes before the statement
	return begin + strings.Repeat("a", n-len(begin)-len(end)-len(trust)+1) + end + trust[1:]
}

func TestACallIsAuthorizedForItsEntity(t *testing.T) {
	svc := newService("us-east-1", 0)
	boundary := policy + "team/bound"
	for _, step := range [][]string{
		{"CreatePolicy", "PolicyName", "bound", "Path", "/team/", "PolicyDocument", read},
		{"CreateRole", "RoleName", "mine", "Path", "/team/", "AssumeRolePolicyDocument", trust, "PermissionsBoundary", boundary, "Tags.member.1.Key", "a", "Tags.member.1.Value", "b"},
	} {
		if code := request(t, svc, step[0], nil, step[1:]...); code != "" {
			t.Fatal(code)
		}
	}
	const mine, fresh = "arn:aws:iam::1:role/team/mine", "arn:aws:iam::1:role/x/new"
	tags, given := map[string]string{"a": "b"}, map[string]string{"k": "v"}
	none := map[string]string{}
	bound := map[string][]string{"iam:PermissionsBoundary": {boundary}}
	for name, tt := range map[string]struct {
		op, form string
		want     []api.AuthorizationRequest
	}{
		"reading a role": {"GetRole", "RoleName=mine", []api.AuthorizationRequest{{Action: "iam:GetRole", Resource: mine, Tags: tags, RequestTags: none, Context: map[string][]string{}}}},
		"attaching to a role with a boundary": {"AttachRolePolicy", "RoleName=mine&PolicyArn=x", []api.AuthorizationRequest{{Action: "iam:AttachRolePolicy", Resource: mine, Tags: tags, RequestTags: none,
			Context: map[string][]string{"iam:PermissionsBoundary": {boundary}, "iam:PolicyARN": {"x"}}}}},
		"taking a role's boundary away": {"DeleteRolePermissionsBoundary", "RoleName=mine", []api.AuthorizationRequest{{Action: "iam:DeleteRolePermissionsBoundary", Resource: mine, Tags: tags, RequestTags: none, Context: bound}}},
		"giving a role another boundary": {"PutRolePermissionsBoundary", "RoleName=mine&PermissionsBoundary=y", []api.AuthorizationRequest{{Action: "iam:PutRolePermissionsBoundary", Resource: mine, Tags: tags, RequestTags: none,
			Context: map[string][]string{"iam:PermissionsBoundary": {"y"}}}}},
		"making a role with a boundary and tags": {"CreateRole", "RoleName=new&Path=/x/&PermissionsBoundary=" + boundary + "&Tags.member.1.Key=k&Tags.member.1.Value=v", []api.AuthorizationRequest{
			{Action: "iam:CreateRole", Resource: fresh, RequestTags: given, Context: bound}, {Action: "iam:TagRole", Resource: fresh, RequestTags: given}}},
		"making a role below what is no path": {"CreateRole", "RoleName=new&Path=x/", []api.AuthorizationRequest{{Action: "iam:CreateRole", Resource: "arn:aws:iam::1:role/new", RequestTags: none, Context: map[string][]string{}}}},
		"making a policy with tags": {"CreatePolicy", "PolicyName=new&Path=/x/&Tags.member.1.Key=k&Tags.member.1.Value=v", []api.AuthorizationRequest{
			{Action: "iam:CreatePolicy", Resource: policy + "x/new", RequestTags: given}, {Action: "iam:TagPolicy", Resource: policy + "x/new", RequestTags: given}}},
		"giving a role to an instance profile": {"AddRoleToInstanceProfile", "RoleName=mine&InstanceProfileName=nodes", []api.AuthorizationRequest{
			{Action: "iam:AddRoleToInstanceProfile", Resource: "arn:aws:iam::1:instance-profile/nodes", Tags: none, RequestTags: none},
			{Action: "iam:PassRole", Resource: mine, Tags: tags, Context: map[string][]string{"iam:PassedToService": {"ec2.amazonaws.com"}}}}},
		"taking tags off a profile": {"UntagInstanceProfile", "InstanceProfileName=nodes&TagKeys.member.1=a&TagKeys.member.2=b", []api.AuthorizationRequest{
			{Action: "iam:UntagInstanceProfile", Resource: "arn:aws:iam::1:instance-profile/nodes", Tags: none, RequestTags: none, Keys: []string{"a", "b"}}}},
	} {
		got := svc.Table().Authorizations[tt.op](&api.Call{Op: tt.op, Form: parsed(t, tt.form)})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
