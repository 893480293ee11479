package aws_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// sized is a policy document of that many characters besides white space.
func sized(n int) string {
	empty := `{"Statement":{"Effect":"Allow","Action":"*","Resource":"arn:aws:s3:::"}}`
	return "\n\t " + strings.Replace(empty, `:::"`, `:::`+strings.Repeat("a", n-len(empty))+`"`, 1)
}

func TestAPolicyHasVersions(t *testing.T) {
	w := newFixture(t, nil)
	w.boundary(t)
	ctx, arn := t.Context(), sdk.String(ownBoundary)
	add := func(standard bool) error {
		return drop(w.iam.CreatePolicyVersion(ctx, &iam.CreatePolicyVersionInput{PolicyArn: arn, PolicyDocument: sdk.String(allowWrite), SetAsDefault: standard}))
	}
	ok(t, add(true))
	for range 3 {
		ok(t, add(false))
	}
	wantCode(t, add(true), "LimitExceeded")
	var ids []string
	for p := iam.NewListPolicyVersionsPaginator(w.iam, &iam.ListPolicyVersionsInput{PolicyArn: arn, MaxItems: sdk.Int32(2)}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		ok(t, err)
		for _, v := range page.Versions {
			ids = append(ids, fmt.Sprint(*v.VersionId, " ", v.IsDefaultVersion))
		}
	}
	if !slices.Equal(ids, []string{"v5 false", "v4 false", "v3 false", "v2 true", "v1 false"}) {
		t.Errorf("versions %q", ids)
	}
	got, err := w.iam.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: arn, VersionId: sdk.String("v2")})
	ok(t, err)
	if decoded(t, got.PolicyVersion.Document) != allowWrite || !got.PolicyVersion.IsDefaultVersion {
		t.Errorf("version %+v", got.PolicyVersion)
	}
	wantCode(t, drop(w.iam.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: arn})), "DeleteConflict")
	remove := func(v string) error {
		return drop(w.iam.DeletePolicyVersion(ctx, &iam.DeletePolicyVersionInput{PolicyArn: arn, VersionId: &v}))
	}
	wantCode(t, remove("v2"), "DeleteConflict")
	wantCode(t, remove("v9"), "NoSuchEntity")
	for _, v := range []string{"v1", "v3", "v4", "v5"} {
		ok(t, remove(v))
	}
	ok(t, add(true))
	p, err := w.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: arn})
	ok(t, err)
	if *p.Policy.DefaultVersionId != "v6" {
		t.Errorf("the number of a version was used again: %s", *p.Policy.DefaultVersionId)
	}
	ok(t, remove("v2"))
	ok(t, drop(w.iam.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: arn})))
	wantCode(t, drop(w.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: arn})), "NoSuchEntity")
}

func TestAPolicyInUseStays(t *testing.T) {
	w := newFixture(t, nil)
	w.boundary(t)
	w.role(t, "node")
	ctx, arn, name := t.Context(), sdk.String(ownBoundary), sdk.String("node")
	counts := func() string {
		out, err := w.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: arn})
		ok(t, err)
		return fmt.Sprint(*out.Policy.AttachmentCount, *out.Policy.PermissionsBoundaryUsageCount)
	}
	_, err := w.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: name, PolicyArn: arn})
	ok(t, err)
	wantCode(t, drop(w.iam.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: arn})), "DeleteConflict")
	if got := counts(); got != "1 0" {
		t.Errorf("attached once: %s", got)
	}
	_, err = w.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: name, PolicyArn: arn})
	ok(t, err)
	_, err = w.iam.PutRolePermissionsBoundary(ctx, &iam.PutRolePermissionsBoundaryInput{RoleName: name, PermissionsBoundary: arn})
	ok(t, err)
	wantCode(t, drop(w.iam.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: arn})), "DeleteConflict")
	if got := counts(); got != "0 1" {
		t.Errorf("a boundary once: %s", got)
	}
	_, err = w.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: name})
	ok(t, err)
	ok(t, drop(w.iam.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: arn})))
}

func TestPoliciesOfAWSCanOnlyBeAttached(t *testing.T) {
	w := newFixture(t, nil)
	w.role(t, "node")
	ctx, arn := t.Context(), sdk.String("arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy")
	_, err := w.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: sdk.String("node"), PolicyArn: arn})
	ok(t, err)
	out, err := w.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: arn})
	ok(t, err)
	if *out.Policy.PolicyName != "AmazonEBSCSIDriverPolicy" || *out.Policy.Path != "/service-role/" || *out.Policy.AttachmentCount != 1 {
		t.Errorf("%+v", out.Policy)
	}
	wantCode(t, drop(w.iam.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: arn})), "AccessDenied")
	_, err = w.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: sdk.String("node"), PolicyArn: sdk.String("arn:aws-cn:iam::aws:policy/AdministratorAccess")})
	wantCode(t, err, "InvalidInput") // of another partition
}

func TestTheIssuersProvider(t *testing.T) {
	for known, want := range map[bool]int{true: 1, false: 0} {
		w := newFixture(t, func(c *sandboxaws.Config) { c.Cluster.OIDC = known })
		ctx := t.Context()
		list, err := w.iam.ListOpenIDConnectProviders(ctx, &iam.ListOpenIDConnectProvidersInput{})
		ok(t, err)
		if len(list.OpenIDConnectProviderList) != want {
			t.Errorf("with %v: %+v", known, list.OpenIDConnectProviderList)
		}
		arn := "arn:aws:iam::000000000000:oidc-provider/" + strings.TrimPrefix(*w.describe(t).Identity.Oidc.Issuer, "https://")
		out, err := w.iam.GetOpenIDConnectProvider(ctx, &iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: &arn})
		if !known {
			wantCode(t, err, "NoSuchEntity")
			continue
		}
		ok(t, err)
		if *list.OpenIDConnectProviderList[0].Arn != arn || "https://"+*out.Url != *w.describe(t).Identity.Oidc.Issuer || !slices.Equal(out.ClientIDList, []string{"sts.amazonaws.com"}) {
			t.Errorf("provider %+v", out)
		}
	}
}

func iamRefusals() []refusal {
	s := sdk.String
	role := func(change func(*iam.CreateRoleInput)) func(context.Context, *fixture) error {
		return func(ctx context.Context, w *fixture) error {
			input := &iam.CreateRoleInput{RoleName: s("new"), AssumeRolePolicyDocument: s(trustEC2)}
			change(input)
			return drop(w.iam.CreateRole(ctx, input))
		}
	}
	trust := func(doc string) func(context.Context, *fixture) error {
		return role(func(i *iam.CreateRoleInput) { i.AssumeRolePolicyDocument = &doc })
	}
	policy := func(doc string) func(context.Context, *fixture) error {
		return func(ctx context.Context, w *fixture) error {
			return drop(w.iam.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: s("new"), PolicyDocument: &doc}))
		}
	}
	inline := func(name, doc string) func(context.Context, *fixture) error {
		return func(ctx context.Context, w *fixture) error {
			return drop(w.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: s("node"), PolicyName: &name, PolicyDocument: &doc}))
		}
	}
	attach := func(role, arn string) func(context.Context, *fixture) error {
		return func(ctx context.Context, w *fixture) error {
			return drop(w.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: &role, PolicyArn: &arn}))
		}
	}
	return []refusal{
		{"a role that exists", role(func(i *iam.CreateRoleInput) { i.RoleName = s("node") }), "EntityAlreadyExists"},
		{"a role that exists in capitals", role(func(i *iam.CreateRoleInput) { i.RoleName = s("NODE") }), "EntityAlreadyExists"},
		{"a role with a blank in its name", role(func(i *iam.CreateRoleInput) { i.RoleName = s("a b") }), "ValidationError"},
		{"a role with too long a name", role(func(i *iam.CreateRoleInput) { i.RoleName = s(strings.Repeat("a", 65)) }), "ValidationError"},
		{"a path without an end", role(func(i *iam.CreateRoleInput) { i.Path = s("/a") }), "ValidationError"},
		{"too short a session", role(func(i *iam.CreateRoleInput) { i.MaxSessionDuration = sdk.Int32(60) }), "ValidationError"},
		{"a boundary that does not exist", role(func(i *iam.CreateRoleInput) { i.PermissionsBoundary = s("arn:aws:iam::000000000000:policy/none") }), "NoSuchEntity"},
		{"a boundary that is no ARN", role(func(i *iam.CreateRoleInput) { i.PermissionsBoundary = s("boundary-of-the-company") }), "InvalidInput"},
		{"a tag of AWS's own", role(func(i *iam.CreateRoleInput) { i.Tags = iamTags("aws:x", "y") }), "InvalidInput"},
		{"a trust that is no JSON", trust("trust everybody"), "MalformedPolicyDocument"},
		{"a trust without a principal", trust(allowRead), "MalformedPolicyDocument"},
		{"a trust in anything but STS", trust(strings.ReplaceAll(trustEC2, "sts:", "ec2:")), "MalformedPolicyDocument"},
		{"a trust with a resource", trust(strings.ReplaceAll(trustEC2, `"Effect"`, `"Resource":"*","Effect"`)), "MalformedPolicyDocument"},
		{"a trust in a role that does not exist", trust(strings.ReplaceAll(trustEC2, `"Service": "ec2.amazonaws.com"`, `"AWS":"arn:aws:iam::000000000000:role/ghost"`)), "MalformedPolicyDocument"},
		{"too long a trust", trust(strings.ReplaceAll(trustEC2, "ec2.amazonaws.com", strings.Repeat("e", 2048))), "LimitExceeded"},
		{"a policy that is no JSON", policy("allow: all"), "MalformedPolicyDocument"},
		{"a policy with an unknown one among its elements", policy(`{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*","Mood":"good"}]}`), "MalformedPolicyDocument"},
		{"a policy of another language", policy(`{"Version":"2030-01-01","Statement":[]}`), "MalformedPolicyDocument"},
		{"a policy without statements", policy(`{"Statement":[]}`), "MalformedPolicyDocument"},
		{"a policy of no effect", policy(`{"Statement":{"Action":"*","Resource":"*"}}`), "MalformedPolicyDocument"},
		{"a policy without actions", policy(`{"Statement":{"Effect":"Allow","Resource":"*"}}`), "MalformedPolicyDocument"},
		{"a policy without resources", policy(`{"Statement":{"Effect":"Allow","Action":"*"}}`), "MalformedPolicyDocument"},
		{"a policy with a principal", policy(trustEC2), "MalformedPolicyDocument"},
		{"a policy one character too long", policy(sized(6145)), "LimitExceeded"},
		{"a policy of a name that exists under another path", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: s("Boundary"), PolicyDocument: s(allowRead)}))
		}, "EntityAlreadyExists"},
		{"a version of a policy that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.CreatePolicyVersion(ctx, &iam.CreatePolicyVersionInput{PolicyArn: s("arn:aws:iam::000000000000:policy/none"), PolicyDocument: s(allowRead)}))
		}, "NoSuchEntity"},
		{"inline policies that are too long together", inline("second", sized(10240-500)), "LimitExceeded"},
		{"an inline policy that is no JSON", inline("second", "x"), "MalformedPolicyDocument"},
		{"an inline policy that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: s("node"), PolicyName: s("none")}))
		}, "NoSuchEntity"},
		{"deleting an inline policy that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: s("node"), PolicyName: s("none")}))
		}, "NoSuchEntity"},
		{"attaching to a role that does not exist", attach("ghost", workerNode), "NoSuchEntity"},
		{"attaching a policy that AWS does not have", attach("node", "arn:aws:iam::aws:policy/Everything"), "NoSuchEntity"},
		{"attaching a policy by its name", attach("node", "AmazonEKSWorkerNodePolicy"), "InvalidInput"},
		{"detaching what is not attached", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: s("node"), PolicyArn: s(driver)}))
		}, "NoSuchEntity"},
		{"reading a version that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: s(ownBoundary), VersionId: s("v7")}))
		}, "NoSuchEntity"},
		{"the versions of a policy that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.ListPolicyVersions(ctx, &iam.ListPolicyVersionsInput{PolicyArn: s("arn:aws:iam::000000000000:policy/none")}))
		}, "NoSuchEntity"},
		{"a policy with a path without an end", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: s("new"), Path: s("/a"), PolicyDocument: s(allowRead)}))
		}, "ValidationError"},
		{"an instance profile with a blank in its name", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: s("a b")}))
		}, "ValidationError"},
		{"an instance profile with a path without an end", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: s("a"), Path: s("/a")}))
		}, "ValidationError"},
		{"deleting an instance profile that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: s("none")}))
		}, "NoSuchEntity"},
		{"taking a role out of a profile that holds another", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: s("p"), RoleName: s("node")}))
		}, "NoSuchEntity"},
		{"taking a role out of a profile that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: s("none"), RoleName: s("node")}))
		}, "NoSuchEntity"},
		{"the profiles of a role that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.ListInstanceProfilesForRole(ctx, &iam.ListInstanceProfilesForRoleInput{RoleName: s("ghost")}))
		}, "NoSuchEntity"},
		{"the policies of a role that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: s("ghost")}))
		}, "NoSuchEntity"},
		{"the inline policies of a role that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.ListRolePolicies(ctx, &iam.ListRolePoliciesInput{RoleName: s("ghost")}))
		}, "NoSuchEntity"},
		{"changing a role that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.UpdateRole(ctx, &iam.UpdateRoleInput{RoleName: s("ghost")}))
		}, "NoSuchEntity"},
		{"the trust of a role that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: s("ghost"), PolicyDocument: s(trustEC2)}))
		}, "NoSuchEntity"},
		{"changing a trust into no JSON", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: s("node"), PolicyDocument: s("{")}))
		}, "MalformedPolicyDocument"},
		{"bounding a role that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.PutRolePermissionsBoundary(ctx, &iam.PutRolePermissionsBoundaryInput{RoleName: s("ghost"), PermissionsBoundary: s(ownBoundary)}))
		}, "NoSuchEntity"},
		{"bounding a role by what does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.PutRolePermissionsBoundary(ctx, &iam.PutRolePermissionsBoundaryInput{RoleName: s("node"), PermissionsBoundary: s("arn:aws:iam::000000000000:policy/none")}))
		}, "NoSuchEntity"},
		{"unbounding a role that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DeleteRolePermissionsBoundary(ctx, &iam.DeleteRolePermissionsBoundaryInput{RoleName: s("ghost")}))
		}, "NoSuchEntity"},
		{"deleting a role that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: s("ghost")}))
		}, "NoSuchEntity"},
		{"deleting a role in an instance profile", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: s("profiled")}))
		}, "DeleteConflict"},
		{"deleting a role with policies", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: s("node")}))
		}, "DeleteConflict"},
		{"deleting a role with attached policies", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: s("full")}))
		}, "DeleteConflict"},
		{"an eleventh policy", attach("full", ownBoundary), "LimitExceeded"},
		{"a marker of another list", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.ListRoles(ctx, &iam.ListRolesInput{Marker: s("abc")}))
		}, "ValidationError"},
		{"too large a page", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.ListRoles(ctx, &iam.ListRolesInput{MaxItems: sdk.Int32(1001)}))
		}, "ValidationError"},
	}
}

func TestIAMRefuses(t *testing.T) {
	w := newFixture(t, func(c *sandboxaws.Config) {
		c.Roles, c.Profiles = []string{"full"}, map[string]string{"p": "profiled"}
	})
	ctx := t.Context()
	w.role(t, "node")
	w.boundary(t)
	_, err := w.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: sdk.String("node"), PolicyName: sdk.String("first"), PolicyDocument: sdk.String(sized(501))})
	ok(t, err)
	_, err = w.iam.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: sdk.String("largest"), PolicyDocument: sdk.String(sized(6144))})
	ok(t, err)
	for _, name := range []string{"AmazonEKSWorkerNodePolicy", "AmazonEKSWorkerNodeMinimalPolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly",
		"AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore", "service-role/AmazonEBSCSIDriverPolicy", "CloudWatchAgentServerPolicy",
		"AmazonEKSClusterPolicy", "AdministratorAccess"} {
		_, err := w.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: sdk.String("full"), PolicyArn: sdk.String("arn:aws:iam::aws:policy/" + name)})
		ok(t, err)
	}
	for _, r := range iamRefusals() {
		t.Run(r.name, func(t *testing.T) { wantCode(t, r.call(t.Context(), w), r.code) })
	}
}
