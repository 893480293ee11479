package aws_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

const (
	trustEC2    = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]}`
	trustPods   = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"]}}`
	allowRead   = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:Describe*","Resource":"*"}]}`
	allowWrite  = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:CreateTags","Resource":"*","Condition":{"StringEquals":{"aws:a":"b + c"}}}]}`
	workerNode  = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"
	driver      = "arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"
	ownBoundary = "arn:aws:iam::000000000000:policy/poolwright/boundary"
)

func iamTags(pairs ...string) []iamtypes.Tag {
	var out []iamtypes.Tag
	for n := 0; n < len(pairs); n += 2 {
		out = append(out, iamtypes.Tag{Key: sdk.String(pairs[n]), Value: sdk.String(pairs[n+1])})
	}
	return out
}

func tagMap(tags []iamtypes.Tag) map[string]string {
	out := map[string]string{}
	for _, t := range tags {
		out[*t.Key] = *t.Value
	}
	return out
}

// role makes a role with the trust of nodes and returns its ARN.
func (w *fixture) role(t *testing.T, name string) string {
	t.Helper()
	out, err := w.iam.CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: sdk.String(trustEC2)})
	ok(t, err)
	return *out.Role.Arn
}

// boundary makes the policy of ownBoundary.
func (w *fixture) boundary(t *testing.T) {
	t.Helper()
	_, err := w.iam.CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: sdk.String("boundary"), Path: sdk.String("/poolwright/"), PolicyDocument: sdk.String(allowRead)})
	ok(t, err)
}

func decoded(t *testing.T, doc *string) string {
	t.Helper()
	if strings.ContainsAny(*doc, ` +{"`) {
		t.Errorf("a document is not escaped as IAM does: %s", *doc)
	}
	out, err := url.PathUnescape(*doc)
	ok(t, err)
	return out
}

func TestARoleIsReadAsItWasMadeAndChanged(t *testing.T) {
	w := newFixture(t, nil)
	w.boundary(t)
	ctx, name := t.Context(), sdk.String("node+1")
	made, err := w.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: name, Path: sdk.String("/poolwright/"), AssumeRolePolicyDocument: sdk.String(trustEC2),
		Description: sdk.String("of nodes"), MaxSessionDuration: sdk.Int32(7200), PermissionsBoundary: sdk.String(ownBoundary), Tags: iamTags("a", "b")})
	ok(t, err)
	read := func() *iamtypes.Role {
		t.Helper()
		out, err := w.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: name})
		ok(t, err)
		return out.Role
	}
	r := read()
	if *r.Arn != "arn:aws:iam::000000000000:role/poolwright/node+1" || *r.RoleId != *made.Role.RoleId || !strings.HasPrefix(*r.RoleId, "AROA") || len(*r.RoleId) != 21 ||
		*r.Description != "of nodes" || *r.MaxSessionDuration != 7200 || *r.PermissionsBoundary.PermissionsBoundaryArn != ownBoundary ||
		!r.CreateDate.Equal(w.clock.Now()) || decoded(t, r.AssumeRolePolicyDocument) != trustEC2 || tagMap(r.Tags)["a"] != "b" {
		t.Errorf("role %+v", r)
	}
	_, err = w.iam.UpdateRole(ctx, &iam.UpdateRoleInput{RoleName: name, Description: sdk.String("")})
	ok(t, err)
	_, err = w.iam.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: name, PolicyDocument: sdk.String(trustPods)})
	ok(t, err)
	_, err = w.iam.DeleteRolePermissionsBoundary(ctx, &iam.DeleteRolePermissionsBoundaryInput{RoleName: name})
	ok(t, err)
	r = read()
	if r.Description != nil || *r.MaxSessionDuration != 3600 || r.PermissionsBoundary != nil || decoded(t, r.AssumeRolePolicyDocument) != trustPods {
		t.Errorf("the changed role %+v", r)
	}
	_, err = w.iam.PutRolePermissionsBoundary(ctx, &iam.PutRolePermissionsBoundaryInput{RoleName: name, PermissionsBoundary: sdk.String(ownBoundary)})
	ok(t, err)
	if r = read(); *r.PermissionsBoundary.PermissionsBoundaryArn != ownBoundary {
		t.Errorf("the boundary %+v", r.PermissionsBoundary)
	}
	_, err = w.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: name})
	ok(t, err)
	w.role(t, *name)
	if *read().RoleId == *r.RoleId {
		t.Error("a new role of the same name has the old one's id")
	}
}

func TestARolesPoliciesAreListedInPages(t *testing.T) {
	w := newFixture(t, nil)
	w.role(t, "node")
	ctx, name := t.Context(), sdk.String("node")
	for _, arn := range []string{driver, workerNode, workerNode} { // attaching twice is no error
		_, err := w.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: name, PolicyArn: &arn})
		ok(t, err)
	}
	for _, p := range []string{"one", "two"} {
		_, err := w.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: name, PolicyName: &p, PolicyDocument: sdk.String(allowWrite)})
		ok(t, err)
	}
	attached := func(prefix *string) []string {
		var out []string
		for p := iam.NewListAttachedRolePoliciesPaginator(w.iam, &iam.ListAttachedRolePoliciesInput{RoleName: name, MaxItems: sdk.Int32(1), PathPrefix: prefix}); p.HasMorePages(); {
			page, err := p.NextPage(ctx)
			ok(t, err)
			for _, a := range page.AttachedPolicies {
				out = append(out, *a.PolicyName+" "+*a.PolicyArn)
			}
		}
		return out
	}
	if diff := cmp.Diff([]string{"AmazonEKSWorkerNodePolicy " + workerNode, "AmazonEBSCSIDriverPolicy " + driver}, attached(nil)); diff != "" {
		t.Error(diff)
	}
	if got := attached(sdk.String("/service-role/")); len(got) != 1 {
		t.Errorf("under a path: %q", got)
	}
	var inline []string
	for p := iam.NewListRolePoliciesPaginator(w.iam, &iam.ListRolePoliciesInput{RoleName: name, MaxItems: sdk.Int32(1)}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		ok(t, err)
		inline = append(inline, page.PolicyNames...)
	}
	if !slices.Equal(inline, []string{"one", "two"}) {
		t.Errorf("inline policies %q", inline)
	}
	got, err := w.iam.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: name, PolicyName: sdk.String("one")})
	ok(t, err)
	if decoded(t, got.PolicyDocument) != allowWrite || *got.RoleName != "node" || *got.PolicyName != "one" {
		t.Errorf("inline policy %+v", got)
	}
	for _, step := range []struct {
		name string
		call error
	}{
		{"detaching one", drop(w.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: name, PolicyArn: sdk.String(driver)}))},
		{"detaching the other", drop(w.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: name, PolicyArn: sdk.String(workerNode)}))},
		{"deleting an inline policy", drop(w.iam.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: name, PolicyName: sdk.String("one")}))},
		{"deleting the other", drop(w.iam.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: name, PolicyName: sdk.String("two")}))},
		{"deleting the role", drop(w.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: name}))},
	} {
		if step.call != nil {
			t.Errorf("%s: %v", step.name, step.call)
		}
	}
}

func TestRolesAreListedByPathWithoutTags(t *testing.T) {
	w := newFixture(t, func(c *sandboxaws.Config) { c.Roles = []string{"given"} })
	ctx := t.Context()
	for n := range 3 {
		_, err := w.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: sdk.String(fmt.Sprint("r", n)), Path: sdk.String("/p/"), AssumeRolePolicyDocument: sdk.String(trustEC2), Tags: iamTags("a", "b")})
		ok(t, err)
	}
	list := func(prefix string) []string {
		var out []string
		for p := iam.NewListRolesPaginator(w.iam, &iam.ListRolesInput{PathPrefix: &prefix, MaxItems: sdk.Int32(2)}); p.HasMorePages(); {
			page, err := p.NextPage(ctx)
			ok(t, err)
			for _, r := range page.Roles {
				if len(r.Tags) > 0 {
					t.Error("a list shows tags")
				}
				out = append(out, *r.RoleName)
			}
		}
		return out
	}
	if got := list("/p/"); !slices.Equal(got, []string{"r0", "r1", "r2"}) {
		t.Errorf("under /p/: %q", got)
	}
	if got := list("/"); !slices.Equal(got, []string{"given", "r0", "r1", "r2"}) {
		t.Errorf("all: %q", got)
	}
}

// taggable is one kind of IAM entity that carries tags.
type taggable struct {
	name  string
	tag   func(context.Context, *fixture, ...string) error
	untag func(context.Context, *fixture, ...string) error
	list  func(context.Context, *fixture) ([]iamtypes.Tag, error)
}

func taggables() []taggable {
	n, arn := sdk.String("x"), sdk.String(ownBoundary)
	return []taggable{
		{"a role", func(ctx context.Context, w *fixture, pairs ...string) error {
			return drop(w.iam.TagRole(ctx, &iam.TagRoleInput{RoleName: n, Tags: iamTags(pairs...)}))
		}, func(ctx context.Context, w *fixture, keys ...string) error {
			return drop(w.iam.UntagRole(ctx, &iam.UntagRoleInput{RoleName: n, TagKeys: keys}))
		}, func(ctx context.Context, w *fixture) ([]iamtypes.Tag, error) {
			var all []iamtypes.Tag
			for p := iam.NewListRoleTagsPaginator(w.iam, &iam.ListRoleTagsInput{RoleName: n, MaxItems: sdk.Int32(1)}); p.HasMorePages(); {
				page, err := p.NextPage(ctx)
				if err != nil {
					return nil, err
				}
				all = append(all, page.Tags...)
			}
			return all, nil
		}},
		{"an instance profile", func(ctx context.Context, w *fixture, pairs ...string) error {
			return drop(w.iam.TagInstanceProfile(ctx, &iam.TagInstanceProfileInput{InstanceProfileName: n, Tags: iamTags(pairs...)}))
		}, func(ctx context.Context, w *fixture, keys ...string) error {
			return drop(w.iam.UntagInstanceProfile(ctx, &iam.UntagInstanceProfileInput{InstanceProfileName: n, TagKeys: keys}))
		}, func(ctx context.Context, w *fixture) ([]iamtypes.Tag, error) {
			out, err := w.iam.ListInstanceProfileTags(ctx, &iam.ListInstanceProfileTagsInput{InstanceProfileName: n})
			if err != nil {
				return nil, err
			}
			return out.Tags, nil
		}},
		{"a policy", func(ctx context.Context, w *fixture, pairs ...string) error {
			return drop(w.iam.TagPolicy(ctx, &iam.TagPolicyInput{PolicyArn: arn, Tags: iamTags(pairs...)}))
		}, func(ctx context.Context, w *fixture, keys ...string) error {
			return drop(w.iam.UntagPolicy(ctx, &iam.UntagPolicyInput{PolicyArn: arn, TagKeys: keys}))
		}, func(ctx context.Context, w *fixture) ([]iamtypes.Tag, error) {
			out, err := w.iam.ListPolicyTags(ctx, &iam.ListPolicyTagsInput{PolicyArn: arn})
			if err != nil {
				return nil, err
			}
			return out.Tags, nil
		}},
	}
}

func TestTagsAreAddedReplacedAndTakenAway(t *testing.T) {
	for _, tt := range taggables() {
		t.Run(tt.name, func(t *testing.T) {
			w, ctx := newFixture(t, nil), t.Context()
			wantCode(t, tt.tag(ctx, w, "a", "1"), "NoSuchEntity")
			wantCode(t, tt.untag(ctx, w, "a"), "NoSuchEntity")
			_, err := tt.list(ctx, w)
			wantCode(t, err, "NoSuchEntity")
			w.role(t, "x")
			w.boundary(t)
			_, err = w.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: sdk.String("x")})
			ok(t, err)
			ok(t, tt.tag(ctx, w, "a", "1", "b", "2"))
			ok(t, tt.tag(ctx, w, "b", "3", "c", "4"))
			ok(t, tt.untag(ctx, w, "a", "never"))
			got, err := tt.list(ctx, w)
			ok(t, err)
			if diff := cmp.Diff(map[string]string{"b": "3", "c": "4"}, tagMap(got)); diff != "" {
				t.Error(diff)
			}
			wantCode(t, tt.tag(ctx, w, "aws:x", "1"), "InvalidInput")
			var many []string
			for n := range 49 {
				many = append(many, fmt.Sprint("k", n), "v")
			}
			wantCode(t, tt.tag(ctx, w, many...), "LimitExceeded")
		})
	}
}

func TestInstanceProfilesOfARole(t *testing.T) {
	w := newFixture(t, func(c *sandboxaws.Config) {
		c.Profiles = map[string]string{"one": "node", "two": "node", "other": "else"}
	})
	ctx := t.Context()
	var names []string
	for p := iam.NewListInstanceProfilesForRolePaginator(w.iam, &iam.ListInstanceProfilesForRoleInput{RoleName: sdk.String("node"), MaxItems: sdk.Int32(1)}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		ok(t, err)
		for _, i := range page.InstanceProfiles {
			names = append(names, *i.InstanceProfileName)
		}
	}
	if !slices.Equal(names, []string{"one", "two"}) {
		t.Errorf("profiles %q", names)
	}
	id := func() string {
		out, err := w.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: sdk.String("other")})
		ok(t, err)
		return *out.InstanceProfile.InstanceProfileId
	}
	first := id()
	_, err := w.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: sdk.String("other"), RoleName: sdk.String("else")})
	ok(t, err)
	_, err = w.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: sdk.String("other")})
	ok(t, err)
	_, err = w.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: sdk.String("other")})
	ok(t, err)
	if second := id(); second == first || !strings.HasPrefix(second, "AIPA") {
		t.Errorf("ids %s and then %s", first, second)
	}
}
