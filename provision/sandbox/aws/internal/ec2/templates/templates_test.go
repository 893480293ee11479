package templates_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/templates"
)

// account has launch templates, with the clock and the client of its EC2.
type account struct {
	*templates.Service
	clock  *ec2test.Clock
	client *ec2.Client
}

func newAccount() account {
	a, clock := ec2test.NewAccount()
	svc := templates.New(a)
	return account{svc, clock, ec2test.Client(a, svc.Operations())}
}

// create makes a template and returns its id, "" without one, and the error code.
func (a account) create(t *testing.T, name string, change func(*ec2.CreateLaunchTemplateInput)) (id, code string) {
	t.Helper()
	in := &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: sdk.String("ami-1")}}
	if change != nil {
		change(in)
	}
	out, err := a.client.CreateLaunchTemplate(t.Context(), in)
	if err != nil {
		return "", ec2test.Code(out, err)
	}
	return *out.LaunchTemplate.LaunchTemplateId, ""
}

// names are those of a DescribeLaunchTemplates.
func (a account) names(t *testing.T, in *ec2.DescribeLaunchTemplatesInput) (names []string) {
	t.Helper()
	out, err := a.client.DescribeLaunchTemplates(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range out.LaunchTemplates {
		names = append(names, *l.LaunchTemplateName)
	}
	return names
}

func TestATemplateIsCreatedOrRefused(t *testing.T) {
	userData := func(text string) func(*ec2.CreateLaunchTemplateInput) {
		return func(in *ec2.CreateLaunchTemplateInput) { in.LaunchTemplateData.UserData = &text }
	}
	bytes := func(n int) func(*ec2.CreateLaunchTemplateInput) {
		return userData(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", n))))
	}
	tagged := func(kind types.ResourceType, pairs ...string) func(*ec2.CreateLaunchTemplateInput) {
		return func(in *ec2.CreateLaunchTemplateInput) {
			in.LaunchTemplateData.TagSpecifications = []types.LaunchTemplateTagSpecificationRequest{{ResourceType: kind, Tags: ec2test.Tags(pairs...)}}
		}
	}
	itself := func(kind types.ResourceType, pairs ...string) func(*ec2.CreateLaunchTemplateInput) {
		return func(in *ec2.CreateLaunchTemplateInput) { in.TagSpecifications = ec2test.Tagged(kind, pairs...) }
	}
	nic := func(n types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest) func(*ec2.CreateLaunchTemplateInput) {
		return func(in *ec2.CreateLaunchTemplateInput) {
			in.LaunchTemplateData.NetworkInterfaces = []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{n}
		}
	}
	for name, tt := range map[string]struct {
		name   string
		change func(*ec2.CreateLaunchTemplateInput)
		want   string
	}{
		"a name of two characters":                    {"ab", nil, "InvalidLaunchTemplateName.MalformedException"},
		"a name of three characters":                  {"abc", nil, ""},
		"a name of 128 characters":                    {strings.Repeat("n", 128), nil, ""},
		"a name of 129 characters":                    {strings.Repeat("n", 129), nil, "InvalidLaunchTemplateName.MalformedException"},
		"a name of all kinds of characters":           {"aZ09().-/_", nil, ""},
		"a name with a space":                         {"a b c", nil, "InvalidLaunchTemplateName.MalformedException"},
		"a name with a letter beyond ASCII":           {"größe", nil, "InvalidLaunchTemplateName.MalformedException"},
		"user data that is not base64":                {"abc", userData("#!/bin/sh"), "InvalidUserData.Malformed"},
		"user data of 16 KiB, decoded":                {"abc", bytes(16 << 10), ""},
		"user data of a byte more":                    {"abc", bytes(16<<10 + 1), "InvalidUserData.Malformed"},
		"tags of an instance":                         {"abc", tagged("instance", "a", "b"), ""},
		"tags of a volume":                            {"abc", tagged("volume", "a", "b"), ""},
		"tags of a network interface":                 {"abc", tagged("network-interface", "a", "b"), ""},
		"tags of a spot request":                      {"abc", tagged("spot-instances-request", "a", "b"), ""},
		"tags of a fleet, which a launch never makes": {"abc", tagged("fleet", "a", "b"), "InvalidParameterValue"},
		"tags of a template among those of a launch":  {"abc", tagged("launch-template", "a", "b"), "InvalidParameterValue"},
		"a tag for a launch that only AWS gives":      {"abc", tagged("instance", "aws:a", "b"), "InvalidParameterValue"},
		"tags of itself":                              {"abc", itself("launch-template", "a", "b"), ""},
		"tags of an instance as if it were one":       {"abc", itself("instance", "a", "b"), "InvalidParameterValue"},
		"a tag without a key":                         {"abc", itself("launch-template", "", "b"), "InvalidParameterValue"},
		"addresses beside an interface's own":         {"abc", nic(types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{SecondaryPrivateIpAddressCount: sdk.Int32(3)}), ""},
		"fewer addresses than none":                   {"abc", nic(types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{SecondaryPrivateIpAddressCount: sdk.Int32(-1)}), "InvalidParameterValue"},
		"fewer prefixes than none":                    {"abc", nic(types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{Ipv4PrefixCount: sdk.Int32(-1)}), "InvalidParameterValue"},
		"a setting that nodes do not have":            {"abc", func(in *ec2.CreateLaunchTemplateInput) { in.LaunchTemplateData.KernelId = sdk.String("aki-1") }, "UnknownParameter"},
		"a dry run":                                   {"abc", func(in *ec2.CreateLaunchTemplateInput) { in.DryRun = sdk.Bool(true) }, "DryRunOperation"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount()
			id, code := a.create(t, tt.name, tt.change)
			if code != tt.want {
				t.Errorf("%q, want %q", code, tt.want)
			}
			if got := a.names(t, &ec2.DescribeLaunchTemplatesInput{}); (len(got) == 1) != (tt.want == "") || (a.Named(id, "") != nil) != (tt.want == "") {
				t.Errorf("after it there are %q", got)
			}
		})
	}
}

// EC2's rule of idempotency: the same token and parameters return what was made, the
// same token and other parameters are an error.
func TestATokenMakesOneTemplate(t *testing.T) {
	token := func(text string) func(*ec2.CreateLaunchTemplateInput) {
		return func(in *ec2.CreateLaunchTemplateInput) { in.ClientToken = &text }
	}
	for name, tt := range map[string]struct {
		name   string
		change func(*ec2.CreateLaunchTemplateInput)
		want   string
	}{
		"the same request":            {"abc", token("once"), ""},
		"a request without a token":   {"abc", nil, "InvalidLaunchTemplateName.AlreadyExistsException"},
		"a request of another token":  {"abc", token("twice"), "InvalidLaunchTemplateName.AlreadyExistsException"},
		"the token with another name": {"other", token("once"), "IdempotentParameterMismatch"},
		"the token in other letters":  {"abc", token("ONCE"), "InvalidLaunchTemplateName.AlreadyExistsException"},
		"the token with another image": {"abc", func(in *ec2.CreateLaunchTemplateInput) {
			token("once")(in)
			in.LaunchTemplateData.ImageId = sdk.String("ami-2")
		}, "IdempotentParameterMismatch"},
		"the token with tags": {"abc", func(in *ec2.CreateLaunchTemplateInput) {
			token("once")(in)
			in.TagSpecifications = ec2test.Tagged("launch-template", "a", "b")
		}, "IdempotentParameterMismatch"},
		"the same request as a dry run":           {"abc", func(in *ec2.CreateLaunchTemplateInput) { token("once")(in); in.DryRun = sdk.Bool(true) }, "DryRunOperation"},
		"a dry run of a name that is there":       {"abc", func(in *ec2.CreateLaunchTemplateInput) { in.DryRun = sdk.Bool(true) }, "InvalidLaunchTemplateName.AlreadyExistsException"},
		"another name with a token of its own":    {"other", token("twice"), ""},
		"another name that differs in case alone": {"ABC", token("twice"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount()
			made, code := a.create(t, "abc", token("once"))
			if code != "" {
				t.Fatal(code)
			}
			a.clock.Advance(time.Minute)
			again, code := a.create(t, tt.name, tt.change)
			if code != tt.want || code == "" && (again == made) != (tt.name == "abc") {
				t.Errorf("%q, want %q; %s after %s", code, tt.want, again, made)
			}
		})
	}
}

func TestATemplateIsFoundByOneNameAndItsOnlyVersion(t *testing.T) {
	a := newAccount()
	id, _ := a.create(t, "abc", nil)
	for name, tt := range map[string]struct{ id, name, version, want string }{
		"by id":                                {id, "", "", ""},
		"by name":                              {"", "abc", "", ""},
		"the latest version":                   {id, "", "$Latest", ""},
		"the default version":                  {"", "abc", "$Default", ""},
		"the first version":                    {id, "", "1", ""},
		"a version that is not there":          {id, "", "2", "InvalidLaunchTemplateId.VersionNotFound"},
		"a version that there never is":        {id, "", "0", "InvalidLaunchTemplateId.VersionNotFound"},
		"a version that is no number":          {id, "", "$latest", "InvalidLaunchTemplateId.VersionNotFound"},
		"by neither":                           {"", "", "1", "MissingParameter"},
		"by both":                              {id, "abc", "1", "InvalidParameterCombination"},
		"by an id that is not there":           {"lt-0123456789abcdef0", "", "1", "InvalidLaunchTemplateId.NotFound"},
		"by a name that is not there":          {"", "other", "1", "InvalidLaunchTemplateName.NotFoundException"},
		"by a name as if it were an id":        {"abc", "", "1", "InvalidLaunchTemplateId.NotFound"},
		"by an id as if it were a name":        {"", id, "1", "InvalidLaunchTemplateName.NotFoundException"},
		"of what is not there, before version": {"", "other", "9", "InvalidLaunchTemplateName.NotFoundException"},
	} {
		found, err := a.Find(tt.id, tt.name, tt.version)
		code := ""
		if refused, ok := errors.AsType[*api.Error](err); ok {
			code = refused.Code
		}
		if code != tt.want || (found != nil) != (tt.want == "") || found != nil && found.ID != id {
			t.Errorf("%s: %+v, %v, want %q", name, found, err, tt.want)
		}
	}
	if a.Named("", "") != nil || a.Named("", "other") != nil || a.Named("", "abc").ID != id {
		t.Error("Named finds another template than the one of that name")
	}
}

func TestTemplatesAreDescribed(t *testing.T) {
	a := newAccount()
	one, _ := a.create(t, "one", func(in *ec2.CreateLaunchTemplateInput) {
		in.TagSpecifications = ec2test.Tagged("launch-template", "team", "ml", "stage", "test")
	})
	a.clock.Advance(time.Hour)
	two, _ := a.create(t, "two", func(in *ec2.CreateLaunchTemplateInput) {
		in.TagSpecifications = ec2test.Tagged("launch-template", "team", "web")
	})
	for name, tt := range map[string]struct {
		in   ec2.DescribeLaunchTemplatesInput
		want []string
		code string
	}{
		"all of them, by name":                {want: []string{"one", "two"}},
		"by id":                               {in: ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{two}}, want: []string{"two"}},
		"by name":                             {in: ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"one"}}, want: []string{"one"}},
		"one by id and the other by name":     {in: ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{one}, LaunchTemplateNames: []string{"two"}}, want: []string{"one", "two"}},
		"by the time of its creation":         {in: ec2.DescribeLaunchTemplatesInput{Filters: ec2test.Filters("create-time", "2026-11-20T13*")}, want: []string{"two"}},
		"by a filter of names":                {in: ec2.DescribeLaunchTemplatesInput{Filters: ec2test.Filters("launch-template-name", "o*")}, want: []string{"one"}},
		"by a tag":                            {in: ec2.DescribeLaunchTemplatesInput{Filters: ec2test.Filters("tag:team", "web")}, want: []string{"two"}},
		"by the key of a tag":                 {in: ec2.DescribeLaunchTemplatesInput{Filters: ec2test.Filters("tag-key", "stage")}, want: []string{"one"}},
		"by an id that is not there":          {in: ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{one, "lt-1"}}, code: "InvalidLaunchTemplateId.NotFound"},
		"by a name that is not there":         {in: ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"one", "none"}}, code: "InvalidLaunchTemplateName.NotFoundException"},
		"by a filter that there is not":       {in: ec2.DescribeLaunchTemplatesInput{Filters: ec2test.Filters("image-id", "ami-1")}, code: "InvalidParameterValue"},
		"in pages of fewer than one":          {in: ec2.DescribeLaunchTemplatesInput{MaxResults: sdk.Int32(0)}, code: "InvalidParameterValue"},
		"with a token that nobody gave":       {in: ec2.DescribeLaunchTemplatesInput{NextToken: sdk.String("x")}, code: "InvalidNextToken"},
		"as a dry run, which changes nothing": {in: ec2.DescribeLaunchTemplatesInput{DryRun: sdk.Bool(true)}, code: "DryRunOperation"},
	} {
		if tt.code != "" {
			if got := ec2test.Code(a.client.DescribeLaunchTemplates(t.Context(), &tt.in)); got != tt.code {
				t.Errorf("%s: %q, want %q", name, got, tt.code)
			}
		} else if got := a.names(t, &tt.in); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	out, err := a.client.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{two}})
	if err != nil {
		t.Fatal(err)
	}
	if l := out.LaunchTemplates[0]; *l.DefaultVersionNumber != 1 || *l.LatestVersionNumber != 1 || !l.CreateTime.Equal(a.clock.Now()) || ec2test.TagMap(l.Tags)["team"] != "web" ||
		*l.CreatedBy != "arn:aws:sts::123456789012:assumed-role/sandbox/emulated" {
		t.Errorf("it shows as %+v", l)
	}
}

func TestTemplatesAreListedInPagesWhileTheyComeAndGo(t *testing.T) {
	a := newAccount()
	for n := range 7 {
		a.create(t, fmt.Sprintf("name-%d", n), nil)
	}
	var got []string
	for p := ec2.NewDescribeLaunchTemplatesPaginator(a.client, &ec2.DescribeLaunchTemplatesInput{MaxResults: sdk.Int32(2)}); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page.LaunchTemplates {
			got = append(got, *l.LaunchTemplateName)
		}
		if len(got) == 4 { // the last one shown goes, and one comes before it
			if _, err := a.client.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: sdk.String("name-3")}); err != nil {
				t.Fatal(err)
			}
			a.create(t, "name-00", nil)
		}
	}
	if want := []string{"name-0", "name-1", "name-2", "name-3", "name-4", "name-5", "name-6"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestATemplateIsDeletedOnce(t *testing.T) {
	a := newAccount()
	made, _ := a.create(t, "abc", nil)
	before := a.Clone()
	try := func(when string, in *ec2.DeleteLaunchTemplateInput, want string) {
		t.Helper()
		out, err := a.client.DeleteLaunchTemplate(t.Context(), in)
		if got := ec2test.Code(out, err); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
		if err == nil && *out.LaunchTemplate.LaunchTemplateId != made {
			t.Errorf("%s: it deleted %s", when, *out.LaunchTemplate.LaunchTemplateId)
		}
	}
	name := sdk.String("abc")
	try("by neither", &ec2.DeleteLaunchTemplateInput{}, "MissingParameter")
	try("by both", &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &made, LaunchTemplateName: name}, "InvalidParameterCombination")
	try("by another name", &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: sdk.String("other")}, "InvalidLaunchTemplateName.NotFoundException")
	try("in a dry run", &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: name, DryRun: sdk.Bool(true)}, "DryRunOperation")
	a.Tags(made)["later"] = "yes"
	try("by id", &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &made}, "")
	try("again by id", &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &made}, "InvalidLaunchTemplateId.NotFound")
	if again, code := a.create(t, "abc", nil); code != "" || again == made {
		t.Errorf("under the name of a deleted template: %s after %s, %q", again, made, code)
	}
	if a.Tags(made) != nil || before.Named(made, "") == nil || len(before.Tags(made)) != 0 {
		t.Errorf("the deleted template has the tags %v, in an older copy %v", a.Tags(made), before.Tags(made))
	}
}
