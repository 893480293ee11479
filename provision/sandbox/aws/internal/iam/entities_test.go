package iam

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

const (
	trust  = `{"Statement":{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}}`
	read   = `{"Statement":{"Effect":"Allow","Action":"ec2:Describe*","Resource":"*"}}`
	policy = "arn:aws:iam::1:policy/"
)

// request runs an operation with pairs of a parameter and its value, and decodes what it returns
// into answer, unless that is nil; code is that of the error, "" without one.
func request(t *testing.T, svc *Service, op string, response any, pairs ...string) (code string) {
	t.Helper()
	values := url.Values{}
	for n := 0; n < len(pairs); n += 2 {
		values.Set(pairs[n], pairs[n+1])
	}
	form, err := query.Parse(values.Encode())
	if err != nil {
		t.Fatal(err)
	}
	operation := svc.Table().Operations[op]
	if name := form.Unknown(operation.Params); name != "" {
		t.Fatalf("%s does not take %s", op, name)
	}
	out, err := operation.Run(&api.Call{Op: op, Form: form, Now: svc.account.Clock.Now()})
	if failed, is := errors.AsType[*api.Error](err); is {
		return failed.Code
	}
	if err == nil && response != nil {
		elements, _ := out.([]query.Element)
		err = xml.Unmarshal(query.Document(query.Group("Result", elements...), ""), response)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}

// kind is one that can be made: its operation, the parameter of its name, and what else it needs.
type kind struct {
	create, name string
	rest         []string
	most         int // characters of a name
}

func kinds() map[string]kind {
	return map[string]kind{
		"role":             {"CreateRole", "RoleName", []string{"AssumeRolePolicyDocument", trust}, 64},
		"policy":           {"CreatePolicy", "PolicyName", []string{"PolicyDocument", read}, 128},
		"instance profile": {"CreateInstanceProfile", "InstanceProfileName", nil, 128},
	}
}

func TestNamesInIAM(t *testing.T) {
	for what, k := range kinds() {
		for name, want := range map[string]string{
			"a": "", "A-b_c+d=e,f.g@h9": "", strings.Repeat("a", k.most): "", strings.Repeat("a", k.most+1): "ValidationError",
			"": "ValidationError", "a b": "ValidationError", "a/b": "ValidationError", "a:b": "ValidationError", "é": "ValidationError", "a\n": "ValidationError", "a*": "ValidationError",
		} {
			svc := newService("us-east-1", 0)
			if code := request(t, svc, k.create, nil, append([]string{k.name, name}, k.rest...)...); code != want {
				t.Errorf("a %s %q: %q, want %q", what, name, code, want)
			}
		}
		svc := newService("us-east-1", 0)
		for _, step := range [][2]string{{"Same", ""}, {"Same", "EntityAlreadyExists"}, {"sAME", "EntityAlreadyExists"}, {"Same2", ""}} {
			if code := request(t, svc, k.create, nil, append([]string{k.name, step[0]}, k.rest...)...); code != step[1] {
				t.Errorf("another %s %q: %q, want %q", what, step[0], code, step[1])
			}
		}
	}
}

func TestPathsInIAM(t *testing.T) {
	const bad = "ValidationError"
	for path, want := range map[string]struct{ role, policy string }{
		"/":                                  {},
		"/a/":                                {},
		"/a/b-c_d/e.f,g+h=i@j/":              {},
		"/" + strings.Repeat("a", 510) + "/": {},
		"/" + strings.Repeat("a", 511) + "/": {bad, bad},
		"/a":                                 {bad, bad},
		"a/":                                 {bad, bad},
		"/a b/":                              {bad, bad},
		"/é/":                                {bad, bad},
		"/a*/":                               {"", bad}, // the paths of policies have no punctuation but this of names
		"/a!b/":                              {"", bad},
		"/a//b/":                             {"", bad},
	} {
		for what, k := range kinds() {
			svc, desired := newService("us-east-1", 0), want.role
			if what == "policy" {
				desired = want.policy
			}
			if code := request(t, svc, k.create, nil, append([]string{k.name, "new", "Path", path}, k.rest...)...); code != desired {
				t.Errorf("a %s below %q: %q, want %q", what, path, code, desired)
			}
		}
	}
}

func TestTagsInIAM(t *testing.T) {
	many := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint(i), "")
		}
		return out
	}
	for name, tt := range map[string]struct {
		pairs []string
		code  string
	}{
		"letters, digits, blanks and some signs":   {[]string{"Cost center_.:/=+-@9", "a b_.:/=+-@9"}, ""},
		"letters of all scripts":                   {[]string{"équipe 世界", "데이터"}, ""},
		"an empty value":                           {[]string{"a", ""}, ""},
		"a key of 128 letters of two bytes":        {[]string{strings.Repeat("é", 128), strings.Repeat("é", 256)}, ""},
		"a key of 129 letters":                     {[]string{strings.Repeat("a", 129), ""}, "ValidationError"},
		"a value of 257 letters":                   {[]string{"a", strings.Repeat("a", 257)}, "ValidationError"},
		"an empty key":                             {[]string{"", "a"}, "ValidationError"},
		"a key with a sign that IAM does not take": {[]string{"a#b", "c"}, "ValidationError"},
		"a value with a star":                      {[]string{"a", "*"}, "ValidationError"},
		"a value with a comma":                     {[]string{"a", "b,c"}, "ValidationError"},
		"a value with a tab":                       {[]string{"a", "b\tc"}, "ValidationError"},
		"a key of AWS's own":                       {[]string{"Aws:a", "b"}, "InvalidInput"},
		"a key twice":                              {[]string{"a", "b", "a", "b"}, "InvalidInput"},
		"fifty":                                    {many(50), ""},
		"more than fifty":                          {many(51), "InvalidInput"},
	} {
		for what, k := range kinds() {
			svc := newService("us-east-1", 0)
			var tags []string
			for n := 0; n < len(tt.pairs); n += 2 {
				at := fmt.Sprintf("Tags.member.%d.", n/2+1)
				tags = append(tags, at+"Key", tt.pairs[n], at+"Value", tt.pairs[n+1])
			}
			if code := request(t, svc, k.create, nil, slices.Concat([]string{k.name, "new"}, k.rest, tags)...); code != tt.code {
				t.Errorf("%s: making a %s: %q, want %q", name, what, code, tt.code)
			}
			request(t, svc, k.create, nil, append([]string{k.name, "bare"}, k.rest...)...)
			op, on := "Tag"+strings.TrimPrefix(k.create, "Create"), []string{k.name, "bare"}
			if what == "policy" {
				on = []string{"PolicyArn", policy + "bare"}
			}
			if code := request(t, svc, op, nil, append(on, tags...)...); code != tt.code {
				t.Errorf("%s: tagging a %s: %q, want %q", name, what, code, tt.code)
			}
		}
	}
}

func TestDescriptionsInIAM(t *testing.T) {
	for text, want := range map[string]struct{ role, policy string }{
		"":                        {},
		"for nodes, by Jürgen\n":  {},
		strings.Repeat("é", 1000): {},
		strings.Repeat("a", 1001): {"ValidationError", "ValidationError"},
		"nodes → pods":            {"ValidationError", ""}, // that of a role is of Latin-1
		"a\u007fb":                {"ValidationError", ""},
	} {
		svc := newService("us-east-1", 0)
		for op, pairs := range map[string][]string{
			"CreateRole": {"RoleName", "new", "AssumeRolePolicyDocument", trust}, "UpdateRole": {"RoleName", "node"}, "CreatePolicy": {"PolicyName", "new", "PolicyDocument", read},
		} {
			desired := want.role
			if op == "CreatePolicy" {
				desired = want.policy
			}
			if code := request(t, svc, op, nil, append(pairs, "Description", text)...); code != desired {
				t.Errorf("%s with %.20q: %q, want %q", op, text, code, desired)
			}
		}
	}
}

func TestARefusedUpdateOfARoleChangesNothing(t *testing.T) {
	svc := newService("us-east-1", 0)
	if code := request(t, svc, "UpdateRole", nil, "RoleName", "node", "Description", "first", "MaxSessionDuration", "7200"); code != "" {
		t.Fatal(code)
	}
	for _, seconds := range []string{"3599", "43201", "1h", ""} {
		if code := request(t, svc, "UpdateRole", nil, "RoleName", "node", "Description", "second", "MaxSessionDuration", seconds); code != "ValidationError" {
			t.Errorf("a session of %q seconds: %q", seconds, code)
		}
	}
	if r := svc.roles["node"]; r.description != "first" || r.session != 7200 {
		t.Errorf("the role has the description %q and sessions of %d s", r.description, r.session)
	}
	if code := request(t, svc, "UpdateRole", nil, "RoleName", "node"); code != "" || svc.roles["node"].description != "first" || svc.roles["node"].session != 3600 {
		t.Errorf("without either (%s): description %q, sessions of %d s", code, svc.roles["node"].description, svc.roles["node"].session)
	}
}

// listed is a page of any of IAM's lists.
type listed struct {
	Roles    []string `xml:"Roles>member>RoleName"`
	Profiles []string `xml:"InstanceProfiles>member>InstanceProfileName"`
	Attached []string `xml:"AttachedPolicies>member>PolicyName"`
	Inline   []string `xml:"PolicyNames>member"`
	Tags     []string `xml:"Tags>member>Key"`
	Versions []string `xml:"Versions>member>VersionId"`

	IsTruncated bool
	Marker      string
}

func (l listed) names() []string {
	return slices.Concat(l.Roles, l.Profiles, l.Attached, l.Inline, l.Tags, l.Versions)
}

// furnished is a service with several of all that is listed.
func furnished(t *testing.T) *Service {
	t.Helper()
	svc := newService("us-east-1", 0)
	for _, step := range [][]string{
		{"CreateRole", "RoleName", "b", "Path", "/team/", "AssumeRolePolicyDocument", trust}, {"CreateRole", "RoleName", "a", "Path", "/tea/", "AssumeRolePolicyDocument", trust},
		{"CreateInstanceProfile", "InstanceProfileName", "b", "Path", "/team/"}, {"AddRoleToInstanceProfile", "InstanceProfileName", "b", "RoleName", "node"},
		{"CreatePolicy", "PolicyName", "p", "Path", "/team/", "PolicyDocument", read}, {"CreatePolicyVersion", "PolicyArn", policy + "team/p", "PolicyDocument", read},
		{"CreatePolicyVersion", "PolicyArn", policy + "team/p", "PolicyDocument", read, "SetAsDefault", "true"},
		{"AttachRolePolicy", "RoleName", "node", "PolicyArn", policy + "team/p"}, {"AttachRolePolicy", "RoleName", "node", "PolicyArn", "arn:aws:iam::aws:policy/ReadOnlyAccess"},
		{"PutRolePolicy", "RoleName", "node", "PolicyName", "y", "PolicyDocument", read}, {"PutRolePolicy", "RoleName", "node", "PolicyName", "x", "PolicyDocument", read},
		{"TagRole", "RoleName", "node", "Tags.member.1.Key", "k", "Tags.member.1.Value", "", "Tags.member.2.Key", "j", "Tags.member.2.Value", ""},
	} {
		if code := request(t, svc, step[0], nil, step[1:]...); code != "" {
			t.Fatalf("%q: %s", step, code)
		}
	}
	return svc
}

func TestListsOfIAMAreCutByMaxItems(t *testing.T) {
	svc := furnished(t)
	for name, tt := range map[string]struct {
		op    string
		pairs []string
		want  []string
	}{
		"all roles by name":           {"ListRoles", nil, []string{"a", "b", "node"}},
		"roles below a path":          {"ListRoles", []string{"PathPrefix", "/team/"}, []string{"b"}},
		"roles below a part of one":   {"ListRoles", []string{"PathPrefix", "/tea"}, []string{"a", "b"}},
		"no roles below another":      {"ListRoles", []string{"PathPrefix", "/x/"}, nil},
		"all instance profiles":       {"ListInstanceProfiles", nil, []string{"b", "nodes"}},
		"instance profiles of a path": {"ListInstanceProfiles", []string{"PathPrefix", "/team"}, []string{"b"}},
		"instance profiles of a role": {"ListInstanceProfilesForRole", []string{"RoleName", "node"}, []string{"b", "nodes"}},
		"no instance profiles of one": {"ListInstanceProfilesForRole", []string{"RoleName", "a"}, nil},
		"attached policies by ARN":    {"ListAttachedRolePolicies", []string{"RoleName", "node"}, []string{"p", "ReadOnlyAccess"}},
		"attached policies of a path": {"ListAttachedRolePolicies", []string{"RoleName", "node", "PathPrefix", "/team/"}, []string{"p"}},
		"inline policies by name":     {"ListRolePolicies", []string{"RoleName", "node"}, []string{"x", "y"}},
		"tags by key":                 {"ListRoleTags", []string{"RoleName", "node"}, []string{"j", "k"}},
		"versions, the newest first":  {"ListPolicyVersions", []string{"PolicyArn", policy + "team/p"}, []string{"v3", "v2", "v1"}},
	} {
		for _, most := range []int{1, 2, 1000} {
			var got []string
			marker := ""
			for pages := 1; ; pages++ {
				pairs := append(slices.Clone(tt.pairs), "MaxItems", fmt.Sprint(most))
				if marker != "" {
					pairs = append(pairs, "Marker", marker)
				}
				var page listed
				if code := request(t, svc, tt.op, &page, pairs...); code != "" {
					t.Fatalf("%s: %s", name, code)
				}
				got = append(got, page.names()...)
				if page.IsTruncated != (page.Marker != "") || len(page.names()) > most || pages > 9 {
					t.Fatalf("%s by %d: page %d is %+v", name, most, pages, page)
				}
				if marker = page.Marker; marker == "" {
					break
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s by %d (-want +got):\n%s", name, most, diff)
			}
		}
	}
}

func TestListsOfIAMRefuse(t *testing.T) {
	svc := furnished(t)
	var first listed
	request(t, svc, "ListRoles", &first, "MaxItems", "1")
	for name, tt := range map[string]struct {
		op, param, value string
	}{
		"a page of nothing":                       {"ListRoles", "MaxItems", "0"},
		"a page of more than a thousand":          {"ListRoles", "MaxItems", "1001"},
		"a page that is no number":                {"ListRoles", "MaxItems", "all"},
		"a marker that no list gave":              {"ListRoles", "Marker", "abc"},
		"a marker of another list":                {"ListInstanceProfiles", "Marker", first.Marker},
		"roles below what is no path":             {"ListRoles", "PathPrefix", "team/"},
		"roles below an empty path":               {"ListRoles", "PathPrefix", ""},
		"instance profiles below what is no path": {"ListInstanceProfiles", "PathPrefix", "team"},
		"attached policies below a path's part":   {"ListAttachedRolePolicies", "PathPrefix", "/te"},
	} {
		pairs := []string{tt.param, tt.value}
		if tt.op == "ListAttachedRolePolicies" {
			pairs = append(pairs, "RoleName", "node")
		}
		if code := request(t, svc, tt.op, nil, pairs...); code != "ValidationError" {
			t.Errorf("%s: %q", name, code)
		}
	}
}

func TestARoleIsUsedOnceItIsFound(t *testing.T) {
	svc := newService("us-east-1", time.Minute)
	clock := svc.account.Clock
	svc.account.ID = "111122223333" // a principal's account has twelve digits
	for _, step := range [][]string{{"CreateRole", "RoleName", "new", "AssumeRolePolicyDocument", trust}, {"CreateInstanceProfile", "InstanceProfileName", "new"}} {
		if code := request(t, svc, step[0], nil, step[1:]...); code != "" {
			t.Fatal(code)
		}
	}
	principal := strings.Replace(trust, `"Service":"ec2.amazonaws.com"`, `"AWS":"arn:aws:iam::111122223333:role/new"`, 1)
	steps := map[string]struct {
		pairs []string
		early string
	}{
		"GetRole":                  {[]string{"RoleName", "new"}, "NoSuchEntity"},
		"AttachRolePolicy":         {[]string{"RoleName", "new", "PolicyArn", "arn:aws:iam::aws:policy/ReadOnlyAccess"}, "NoSuchEntity"},
		"TagRole":                  {[]string{"RoleName", "new", "Tags.member.1.Key", "a", "Tags.member.1.Value", "b"}, "NoSuchEntity"},
		"GetInstanceProfile":       {[]string{"InstanceProfileName", "new"}, "NoSuchEntity"},
		"UpdateAssumeRolePolicy":   {[]string{"RoleName", "node", "PolicyDocument", principal}, "MalformedPolicyDocument"},
		"CreateRole":               {[]string{"RoleName", "new", "AssumeRolePolicyDocument", trust}, "EntityAlreadyExists"}, // its name is taken at once
		"AddRoleToInstanceProfile": {[]string{"InstanceProfileName", "new", "RoleName", "node"}, ""},                        // the profile is found at once here
	}
	for op, step := range steps {
		if code := request(t, svc, op, nil, step.pairs...); code != step.early {
			t.Errorf("%s at once: %q, want %q", op, code, step.early)
		}
	}
	var page listed
	request(t, svc, "ListRoles", &page)
	request(t, svc, "ListInstanceProfiles", &page)
	if !slices.Equal(page.Roles, []string{"node"}) || !slices.Equal(page.Profiles, []string{"nodes"}) {
		t.Errorf("listed at once are the roles %q and the instance profiles %q", page.Roles, page.Profiles)
	}
	svc.account.Clock = still{clock.Now().Add(time.Minute)}
	for op, step := range steps {
		if step.early == "NoSuchEntity" || step.early == "MalformedPolicyDocument" {
			if code := request(t, svc, op, nil, step.pairs...); code != "" {
				t.Errorf("%s later: %q", op, code)
			}
		}
	}
}
