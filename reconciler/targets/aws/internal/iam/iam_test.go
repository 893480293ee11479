package iam

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

const (
	nodeTrustText   = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	lambdaTrustText = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"lambda.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	someDocument    = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}`
)

// bootstrapped is a fixture as bootstrap has it, in an account in which all that
// comes before its kind is in place.
func bootstrapped(t *testing.T, k resource.Kind, change func(*sandboxaws.Config), spec v1alpha1.ClusterSpec) *kindtest.Fixture {
	t.Helper()
	return kindtest.Bootstrapped(t, []resource.Kind{Policies{}, Roles{}, InstanceProfiles{}}, k, change, spec)
}

// roleWithTrust makes a role by hand.
func roleWithTrust(l *kindtest.Fixture, name, path, doc string, tags ...iamtypes.Tag) {
	l.Helper()
	l.Do(l.Clients.IAM.CreateRole(l.Context(), &iam.CreateRoleInput{RoleName: &name, Path: &path, AssumeRolePolicyDocument: &doc, Tags: tags}))
}

func nodesName(l *kindtest.Fixture) *string { return sdk.String("nodes") }

func TestTheNodeRoleIsMadeOfNothingAndPutRightWhereItIsBroken(t *testing.T) {
	l := bootstrapped(t, Roles{}, nil, kindtest.Nodes(nil))
	l.Converge()
	item := l.Items()[0]
	got := l.ReadOne(item)
	want := map[string]any{
		"trust": map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{
			"Effect": "Allow", "Principal": map[string]any{"Service": []any{"ec2.amazonaws.com"}}, "Action": []any{"sts:AssumeRole"},
		}}},
		"policies": []any{
			"arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly", "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
			"arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy", "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore",
		},
		"managedPolicies": []any{
			"arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly", "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
			"arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy", "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore",
		},
		"inlinePolicies":      []any{},
		"permissionsBoundary": "arn:aws:iam::000000000000:policy/poolwright-boundary-sandbox-us-east-1",
		"tags":                map[string]any{"team": "ml", tag.Cluster: kindtest.Mark, tag.DeletionPolicy: "Orphan"},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !got.Ours || !strings.HasPrefix(got.UID, "arn:aws:iam::000000000000:role/nodes#AROA") || len(got.Notes) > 0 {
		t.Errorf("ours %v, uid %s, notes %q", got.Ours, got.UID, got.Notes)
	}
	l.Requests(map[string]int{"GetRole": 1, "ListAttachedRolePolicies": 1, "ListRolePolicies": 1})
	l.Deny("iam", "GetRole", "ListAttachedRolePolicies", "ListRolePolicies")

	ctx, api := t.Context(), l.Clients.IAM
	admin, cni := sdk.String("arn:aws:iam::aws:policy/AdministratorAccess"), sdk.String("arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
	l.Break("another trust", func() {
		l.Do(api.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: nodesName(l), PolicyDocument: sdk.String(lambdaTrustText)}))
	})
	l.Break("a policy more", func() {
		l.Do(api.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: nodesName(l), PolicyArn: admin}))
	})
	l.Break("a policy less", func() {
		l.Do(api.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: nodesName(l), PolicyArn: cni}))
	})
	l.Break("an inline policy", func() {
		l.Do(api.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: nodesName(l), PolicyName: sdk.String("more"), PolicyDocument: sdk.String(someDocument)}))
	})
	l.Break("no boundary", func() {
		l.Do(api.DeleteRolePermissionsBoundary(ctx, &iam.DeleteRolePermissionsBoundaryInput{RoleName: nodesName(l)}))
	})
	l.Break("another boundary", func() {
		l.Do(api.PutRolePermissionsBoundary(ctx, &iam.PutRolePermissionsBoundaryInput{RoleName: nodesName(l), PermissionsBoundary: admin}))
	})
	l.Break("a tag with another value", func() {
		l.Do(api.TagRole(ctx, &iam.TagRoleInput{RoleName: nodesName(l), Tags: iamTags(map[string]string{"team": "web"})}))
	})
	l.Break("a missing tag", func() {
		l.Do(api.UntagRole(ctx, &iam.UntagRoleInput{RoleName: nodesName(l), TagKeys: []string{tag.DeletionPolicy}}))
	})
	l.Break("all of it gone", func() {
		if err := l.Remove(ctx, l.Clients, item.Key, l.ReadOne(item)); err != nil {
			t.Fatal(err)
		}
	})
	l.Do(api.TagRole(ctx, &iam.TagRoleInput{RoleName: nodesName(l), Tags: iamTags(map[string]string{"others": "stay"})}))
	if bad := l.Differences(); len(bad) > 0 {
		t.Errorf("others' tags differ: %v", bad)
	}
}

func TestATrustThatIsWrittenOtherwiseIsEqual(t *testing.T) {
	l := bootstrapped(t, Roles{}, nil, kindtest.Nodes(nil))
	l.Converge()
	for _, doc := range []string{
		nodeTrustText,
		`{"Version":"2012-10-17","Statement":{"Sid":"EKSNodeAssumeRole","Effect":"Allow","Principal":{"Service":["ec2.amazonaws.com"]},"Action":["sts:AssumeRole"]}}`,
	} {
		l.Do(l.Clients.IAM.UpdateAssumeRolePolicy(t.Context(), &iam.UpdateAssumeRolePolicyInput{RoleName: nodesName(l), PolicyDocument: &doc}))
		if bad := l.Differences(); len(bad) > 0 {
			t.Errorf("%s differs", doc)
		}
	}
}

func TestInChinaTheNodesTrustIsChinas(t *testing.T) {
	p := resource.Scope{Partition: "aws-cn", Region: "cn-north-1", Account: "000000000000", Cluster: "c"}
	if got := fmt.Sprint(nodeTrust(p)); !strings.Contains(got, "[ec2.amazonaws.com.cn]") {
		t.Error(got)
	}
}

func TestARoleOfOthersIsNotOurs(t *testing.T) {
	for _, tt := range []struct {
		name string
		tags []iamtypes.Tag
	}{
		{"without tags", nil},
		{"of another cluster", iamTags(map[string]string{tag.Cluster: "other", tag.DeletionPolicy: "Delete"})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := kindtest.NewFixture(t, Roles{}, nil, kindtest.Nodes(nil))
			roleWithTrust(l, "nodes", "/", nodeTrustText, tt.tags...)
			if got := l.ReadOne(l.Items()[0]); got.Ours || got.Object == nil {
				t.Errorf("ours %v, object %v", got.Ours, got.Object)
			}
		})
	}
}

func TestPoliciesOutsideOfTheAllowListAreRefused(t *testing.T) {
	l := bootstrapped(t, Roles{}, nil, kindtest.Nodes(func(n *v1alpha1.NodeRole) {
		n.Policies = []v1alpha1.ManagedPolicyName{"AdministratorAccess", "AmazonEKSWorkerNodePolicy"}
	}))
	item := l.Items()[0]
	want := "spec.nodeRole.policies: AdministratorAccess is not allowed for nodes: choose from AmazonEBSCSIDriverPolicy, " +
		"AmazonEC2ContainerRegistryPullOnly, AmazonEC2ContainerRegistryReadOnly, AmazonEKSWorkerNodeMinimalPolicy, AmazonEKSWorkerNodePolicy, " +
		"AmazonEKS_CNI_Policy, AmazonSSMManagedInstanceCore, CloudWatchAgentServerPolicy"
	if item.ReadOnly != want {
		t.Errorf("held because %q", item.ReadOnly)
	}
	if err := l.Write(t.Context(), l.Clients, item, resource.Live{}); err == nil || !strings.Contains(err.Error(), "must not be attached") {
		t.Errorf("writing it: %v", err)
	}
	roleWithTrust(l, "nodes", "/", nodeTrustText, iamTags(tag.Declared(item))...)
	for _, name := range []string{"AdministratorAccess", "AmazonEKSWorkerNodePolicy"} {
		l.Do(l.Clients.IAM.AttachRolePolicy(t.Context(), &iam.AttachRolePolicyInput{RoleName: nodesName(l), PolicyArn: sdk.String("arn:aws:iam::aws:policy/" + name)}))
	}
	if len(l.Differences()) != 1 {
		t.Error("a role that has what is not allowed is as desired")
	}
	for _, arn := range []string{"arn:aws:iam::aws:policy/AdministratorAccess", "arn:aws:iam::000000000000:policy/AmazonEKSWorkerNodePolicy", "arn:aws:iam::000000000000:policy/poolwright-resources-other"} {
		if attachable(l.Clients.Scope, arn) == nil {
			t.Errorf("%s may be attached", arn)
		}
	}
}

func TestEveryLifeOfAnIdentityMayEndAtAnyRequest(t *testing.T) {
	broken := func(l *kindtest.Fixture) {
		roleWithTrust(l, "nodes", "/", lambdaTrustText)
		l.Do(l.Clients.IAM.AttachRolePolicy(l.Context(), &iam.AttachRolePolicyInput{RoleName: nodesName(l), PolicyArn: sdk.String("arn:aws:iam::aws:policy/AdministratorAccess")}))
	}
	adopted := kindtest.Nodes(func(n *v1alpha1.NodeRole) { n.Adopt, n.InstanceProfile = true, "nodes" })
	for _, tt := range []struct {
		name string
		set  func(t *testing.T) *kindtest.Fixture
	}{
		{"roles are made", func(t *testing.T) *kindtest.Fixture {
			return bootstrapped(t, Roles{}, nil, kindtest.Controlled(v1alpha1.IdentityIRSA))
		}},
		{"a role is adopted", func(t *testing.T) *kindtest.Fixture {
			l := kindtest.NewFixture(t, Roles{}, nil, adopted)
			broken(l)
			return l
		}},
		{"policies are made", func(t *testing.T) *kindtest.Fixture {
			return bootstrapped(t, Policies{}, nil, kindtest.Controlled(v1alpha1.IdentityPod))
		}},
		{"policies are changed", func(t *testing.T) *kindtest.Fixture {
			l := bootstrapped(t, Policies{}, nil, kindtest.Controlled(v1alpha1.IdentityPod))
			l.Converge()
			for range 4 {
				addVersion(l, "resources")
			}
			return l
		}},
		{"an instance profile is made", func(t *testing.T) *kindtest.Fixture {
			return bootstrapped(t, InstanceProfiles{}, nil, kindtest.Controlled(v1alpha1.IdentityPod))
		}},
		{"an instance profile with another role is adopted", func(t *testing.T) *kindtest.Fixture {
			l := kindtest.NewFixture(t, InstanceProfiles{}, func(c *sandboxaws.Config) {
				c.Roles, c.Profiles = []string{"other", "nodes"}, map[string]string{"nodes": "other"}
			}, adopted)
			return l
		}},
		{"an access entry is made", func(t *testing.T) *kindtest.Fixture {
			return bootstrapped(t, AccessEntries{}, nil, kindtest.Controlled(v1alpha1.IdentityPod))
		}},
		{"an access entry of ours has another type", func(t *testing.T) *kindtest.Fixture {
			l := kindtest.NewFixture(t, AccessEntries{}, func(c *sandboxaws.Config) { c.Roles = []string{"nodes"} }, kindtest.Nodes(nil))
			l.Do(l.Clients.EKS.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{
				ClusterName: sdk.String("sandbox"), PrincipalArn: sdk.String(l.Clients.Scope.IAMARN("role/nodes")), Tags: tag.Declared(l.Items()[0]),
			}))
			return l
		}},
		{"a pod identity association is made", func(t *testing.T) *kindtest.Fixture {
			return bootstrapped(t, PodIdentityAssociations{}, nil, kindtest.Controlled(v1alpha1.IdentityPod))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { kindtest.Survives(t, tt.set) })
	}
}

func TestWhatAWSDoesNotFindYetIsTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		kind  resource.Kind
		fault sandboxaws.Fault
	}{
		{"a role is not found when a policy is attached", Roles{}, sandboxaws.Fault{Service: "iam", Operation: "AttachRolePolicy", Code: "NoSuchEntity", Status: http.StatusNotFound}},
		{"a boundary is not found when a role is made", Roles{}, sandboxaws.Fault{Service: "iam", Operation: "CreateRole", Code: "NoSuchEntity", Status: http.StatusNotFound}},
		{"the response to the creation of a role was lost", Roles{}, sandboxaws.Fault{Service: "iam", Operation: "CreateRole", Code: "EntityAlreadyExists", Status: http.StatusConflict, Lost: true}},
		{"the response to the creation of a policy was lost", Policies{}, sandboxaws.Fault{Service: "iam", Operation: "CreatePolicy", Code: "EntityAlreadyExists", Status: http.StatusConflict, Lost: true}},
		{"a role is not found when it is put into its profile", InstanceProfiles{}, sandboxaws.Fault{Service: "iam", Operation: "AddRoleToInstanceProfile", Code: "NoSuchEntity", Status: http.StatusNotFound}},
		{"a role is not found when its access entry is made", AccessEntries{}, sandboxaws.Fault{Service: "iam", Operation: "GetRole", Code: "NoSuchEntity", Status: http.StatusNotFound}},
		{"EKS does not have the role yet", AccessEntries{}, sandboxaws.Fault{Service: "eks", Operation: "CreateAccessEntry", Code: "InvalidParameterException", Message: "The specified principalArn is invalid: invalid principal."}},
		{"EKS does not have the controller's role yet", PodIdentityAssociations{}, sandboxaws.Fault{Service: "eks", Operation: "CreatePodIdentityAssociation", Code: "InvalidParameterException", Message: "Role provided in the request does not exist."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := bootstrapped(t, tt.kind, nil, kindtest.Controlled(v1alpha1.IdentityPod))
			item := l.Items()[0]
			live := l.ReadOne(item)
			tt.fault.Times = 1
			if _, err := l.Cloud.Inject(tt.fault); err != nil {
				t.Fatal(err)
			}
			if err := l.Write(t.Context(), l.Clients, item, live); !errors.Is(err, awserr.ErrNotPropagated) {
				t.Errorf("got %v", err)
			}
			l.Converge()
		})
	}
}

func TestIdentitiesAreRemovedWithAllThatHangsOnThem(t *testing.T) {
	for _, k := range []resource.Kind{PodIdentityAssociations{}, AccessEntries{}, InstanceProfiles{}, Roles{}, Policies{}} {
		t.Run(fmt.Sprintf("%T", k), func(t *testing.T) {
			l := bootstrapped(t, k, nil, kindtest.Controlled(v1alpha1.IdentityPod))
			l.Converge()
			if (k == Policies{}) {
				addVersion(l, "resources")
			}
			if (k == Roles{}) {
				l.Do(l.Clients.IAM.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: nodesName(l), PolicyName: sdk.String("more"), PolicyDocument: sdk.String(someDocument)}))
				in := *l
				in.Kind = InstanceProfiles{}
				in.Converge()
			}
			l.RemoveAll()
			for _, item := range l.Items() {
				if err := l.Remove(t.Context(), l.Clients, item.Key, resource.Live{Object: map[string]any{"policies": []any{}}, UID: "x#a-gone"}); err != nil {
					t.Errorf("removing %s, which is gone: %v", item.Key, err)
				}
			}
		})
	}
}

func TestARoleInAProfileOfOthersStaysWhole(t *testing.T) {
	l := bootstrapped(t, Roles{}, func(c *sandboxaws.Config) {
		c.Profiles = map[string]string{"theirs": "other"}
		c.Roles = []string{"other"}
	}, kindtest.Nodes(nil))
	l.Converge()
	l.Do(l.Clients.IAM.RemoveRoleFromInstanceProfile(t.Context(), &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: sdk.String("theirs"), RoleName: sdk.String("other")}))
	l.Do(l.Clients.IAM.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: sdk.String("theirs"), RoleName: nodesName(l)}))
	item := l.Items()[0]
	err := l.Remove(t.Context(), l.Clients, item.Key, l.ReadOne(item))
	if err == nil || !strings.Contains(err.Error(), "did not make: theirs") {
		t.Errorf("got %v", err)
	}
	if bad := l.Differences(); len(bad) > 0 {
		t.Errorf("after the refusal %v differ", bad)
	}
}
