package ssm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api/apitest"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/images"
)

const (
	family = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/"
	newest = family + "recommended/image_id"
	prefix = "arn:aws:ssm:us-east-1::parameter"
)

func newService() *Service {
	account := &api.Account{ID: "111122223333", Region: "us-east-1"}
	return New(account, images.New(account, "1.33", []string{"v20250904", "v20260115"}))
}

// do runs an operation and decodes what it returns; code is that of the error, "" without.
func do(t *testing.T, svc *Service, op, body string, response any) (code string) {
	t.Helper()
	return apitest.Do(t, svc.Table(), &api.Call{Op: op, Body: []byte(body)}, response)
}

// parameter is one as Systems Manager shows it.
type parameter struct {
	Name, Type, Value, DataType, ARN, Selector string
	Version                                    int
}

func TestAParameterIsNamed(t *testing.T) {
	svc := newService()
	for name, tt := range map[string]struct {
		name     string
		version  int
		selector string
		code     string
	}{
		"by its name":                           {newest, 2, "", ""},
		"by its ARN":                            {prefix + newest, 2, "", ""},
		"by its name and newest version":        {newest + ":2", 2, ":2", ""},
		"by its name and an older version":      {newest + ":1", 1, ":1", ""},
		"by its ARN and an older version":       {prefix + newest + ":1", 1, ":1", ""},
		"not by a version that is to come":      {newest + ":3", 0, "", "ParameterVersionNotFound"},
		"not by the version 0":                  {newest + ":0", 0, "", "ParameterVersionNotFound"},
		"not by a version below 0":              {newest + ":-1", 0, "", "ParameterVersionNotFound"},
		"not by a label, which is not emulated": {newest + ":latest", 0, "", "ParameterVersionNotFound"},
		"not by two versions":                   {newest + ":1:2", 0, "", "ParameterVersionNotFound"},
		"not in capitals":                       {strings.ToUpper(newest), 0, "", "ParameterNotFound"},
		"not without its slash":                 {newest[1:], 0, "", "ParameterNotFound"},
		"not with a slash at the end":           {newest + "/", 0, "", "ParameterNotFound"},
		"not by its path":                       {family + "recommended", 0, "", "ParameterNotFound"},
		"not by an ARN of another region":       {strings.Replace(prefix, "us-east-1", "eu-west-1", 1) + newest, 0, "", "ParameterNotFound"},
		"not by an ARN of an account":           {strings.Replace(prefix, "::", ":111122223333:", 1) + newest, 0, "", "ParameterNotFound"},
		"not by an ARN of another partition":    {strings.Replace(prefix, "arn:aws:", "arn:aws-cn:", 1) + newest, 0, "", "ParameterNotFound"},
		"not by an ARN of another service":      {strings.Replace(prefix, ":ssm:", ":ec2:", 1) + newest, 0, "", "ParameterNotFound"},
		"one version alone, where it has one":   {strings.Replace(newest, "recommended", "amazon-eks-node-al2023-x86_64-standard-1.33-v20250904", 1) + ":1", 1, ":1", ""},
		"not a second, where it has one alone":  {strings.Replace(newest, "recommended", "amazon-eks-node-al2023-x86_64-standard-1.33-v20250904", 1) + ":2", 0, "", "ParameterVersionNotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			var got struct{ Parameter parameter }
			code := do(t, svc, "GetParameter", fmt.Sprintf(`{"Name":%q}`, tt.name), &got)
			p := got.Parameter
			if code != tt.code || p.Version != tt.version || p.Selector != tt.selector {
				t.Fatalf("%+v and code %q, want version %d and code %q", p, code, tt.version, tt.code)
			}
			plain, _, _ := strings.Cut(strings.TrimPrefix(tt.name, prefix), ":")
			if code == "" && (p.Name != plain || p.ARN != prefix+plain || p.Type != "String" || p.DataType != "aws:ec2:image" || !strings.HasPrefix(p.Value, "ami-")) {
				t.Errorf("parameter %+v", p)
			}
		})
	}
}

func TestEachVersionLeadsToTheImageOfItsRelease(t *testing.T) {
	svc, values := newService(), map[string]string{}
	for _, name := range []string{newest, newest + ":2", newest + ":1", strings.Replace(newest, "recommended", "amazon-eks-node-al2023-x86_64-standard-1.33-v20250904", 1)} {
		var got struct{ Parameter parameter }
		if code := do(t, svc, "GetParameter", fmt.Sprintf(`{"Name":%q,"WithDecryption":true}`, name), &got); code != "" {
			t.Fatalf("%s: %s", name, code)
		}
		values[strings.TrimPrefix(name, family)] = got.Parameter.Value
	}
	older := "amazon-eks-node-al2023-x86_64-standard-1.33-v20250904/image_id"
	if values["recommended/image_id"] != values["recommended/image_id:2"] || values["recommended/image_id:1"] == values["recommended/image_id:2"] || values["recommended/image_id:1"] != values[older] {
		t.Errorf("images %v", values)
	}
}

func TestParametersAreListedBelowAPath(t *testing.T) {
	svc := newService()
	type page struct {
		Parameters []parameter
		NextToken  string
	}
	list := func(members string) (names []string) {
		t.Helper()
		token := ""
		for pages := 0; ; pages++ {
			var got page
			if code := do(t, svc, "GetParametersByPath", "{"+members+token+"}", &got); code != "" || pages > 99 {
				t.Fatalf("%s: %s", members, code)
			}
			if len(got.Parameters) > 10 || got.NextToken != "" && len(got.Parameters) == 0 {
				t.Errorf("%s: a page of %d with the token %q", members, len(got.Parameters), got.NextToken)
			}
			for _, p := range got.Parameters {
				names = append(names, p.Name)
			}
			if token = `,"NextToken":"` + got.NextToken + `"`; got.NextToken == "" {
				return names
			}
		}
	}
	below := []string{family + "amazon-eks-node-al2023-x86_64-standard-1.33-v20250904/image_id", family + "amazon-eks-node-al2023-x86_64-standard-1.33-v20260115/image_id", newest}
	for name, tt := range map[string]struct {
		members string
		want    []string
	}{
		"right below, as they are":               {`"Path":"` + family + `recommended"`, []string{newest}},
		"right below a path with a slash":        {`"Path":"` + family + `recommended/"`, []string{newest}},
		"not two levels below":                   {`"Path":"` + family + `"`, nil},
		"two levels below where it is recursive": {`"Path":"` + family + `","Recursive":true`, below},
		"in pages of one":                        {`"Path":"` + family + `","Recursive":true,"MaxResults":1`, below},
		"none below a part of a name":            {`"Path":"` + family + `recom","Recursive":true`, nil},
		"none below a parameter":                 {`"Path":"` + newest + `","Recursive":true`, nil},
		"none below a path that there is not":    {`"Path":"/none","Recursive":true`, nil},
		"none right below the root":              {`"Path":"/"`, nil},
	} {
		if diff := cmp.Diff(tt.want, list(tt.members)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	all := list(`"Path":"/","Recursive":true`)
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) || len(all) < 50 {
		t.Errorf("all %d below the root: %q", len(all), all)
	}
}

func TestThePathOfParametersRefuses(t *testing.T) {
	svc := newService()
	for body, want := range map[string]string{
		`{"Path":"aws"}`: "ValidationException", `{"Path":""}`: "ValidationException", `{"Path":"/aws","MaxResults":0}`: "ValidationException",
		`{"Path":"/aws","MaxResults":11}`: "ValidationException", `{"Path":"/aws","MaxResults":10}`: "", `{"Path":"/aws","NextToken":"x"}`: "InvalidNextToken",
		`{"Path":"/aws","NextToken":"` + (&api.Call{Op: "Other"}).Token("/aws") + `"}`: "InvalidNextToken",
		`{"Path":"/aws","ParameterFilters":[{"Key":"Type"}]}`:                          "ValidationException", // not emulated
	} {
		if code := do(t, svc, "GetParametersByPath", body, nil); code != want {
			t.Errorf("%s: %q, want %q", body, code, want)
		}
	}
}

func TestACallIsAuthorizedForItsParameter(t *testing.T) {
	svc := newService()
	for name, tt := range map[string]struct{ op, body, resource string }{
		"of AWS, by its name":           {"GetParameter", `{"Name":"` + newest + `"}`, prefix + newest},
		"of AWS, by its ARN":            {"GetParameter", `{"Name":"` + prefix + newest + `"}`, prefix + newest},
		"of AWS, whatever its version":  {"GetParameter", `{"Name":"` + newest + `:1"}`, prefix + newest},
		"of the account":                {"GetParameter", `{"Name":"/prod/password"}`, "arn:aws:ssm:us-east-1:111122223333:parameter/prod/password"},
		"of another account by its ARN": {"GetParameter", `{"Name":"arn:aws:ssm:eu-west-1:9:parameter/x"}`, "arn:aws:ssm:eu-west-1:9:parameter/x"},
		"below a path of AWS":           {"GetParametersByPath", `{"Path":"/aws/service/"}`, prefix + "/aws/service/"},
		"below a path of the account":   {"GetParametersByPath", `{"Path":"/prod"}`, "arn:aws:ssm:us-east-1:111122223333:parameter/prod"},
	} {
		want := []api.AuthorizationRequest{{Action: "ssm:" + tt.op, Resource: tt.resource}}
		if diff := cmp.Diff(want, svc.Table().Authorizations[tt.op](&api.Call{Op: tt.op, Body: []byte(tt.body)})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
