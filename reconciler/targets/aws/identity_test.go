package aws

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

	sandbox "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

const (
	nodeTrustText   = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	lambdaTrustText = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"lambda.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	someDocument    = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}`
)

// nodes is a Cluster that declares a node role.
func nodes(change func(*v1alpha1.NodeRole)) v1alpha1.ClusterSpec {
	node := v1alpha1.NodeRole{Name: "nodes"}
	if change != nil {
		change(&node)
	}
	return v1alpha1.ClusterSpec{NodeRole: &node, Tags: map[string]string{"team": "ml"}}
}

// controlled is a Cluster that declares all identities.
func controlled(identity v1alpha1.IdentityKind) v1alpha1.ClusterSpec {
	spec := nodes(func(n *v1alpha1.NodeRole) { n.InstanceProfile = "nodes" })
	spec.ControllerRole = &v1alpha1.ControllerRole{Identity: identity}
	return spec
}

// bootstrapped is a life as bootstrap lives it, in an account in which all that
// comes before its kind is in place.
func bootstrapped(t *testing.T, k kind, change func(*sandbox.Config), spec v1alpha1.ClusterSpec) *life {
	t.Helper()
	l := newLife(t, k, change, spec)
	l.scope.bootstrap = true
	for _, first := range []kind{policies{}, roles{}, profiles{}} {
		if first == k {
			break
		}
		before := *l
		before.kind = first
		before.settle()
	}
	return l
}

// role makes a role by hand.
func (l *life) role(name, path, doc string, tags ...iamtypes.Tag) {
	l.Helper()
	l.do(l.c.iam.CreateRole(l.Context(), &iam.CreateRoleInput{RoleName: &name, Path: &path, AssumeRolePolicyDocument: &doc, Tags: tags}))
}

func (l *life) node() *string { return sdk.String("nodes") }

func TestTheNodeRoleIsMadeOfNothingAndPutRightWhereItIsBroken(t *testing.T) {
	l := bootstrapped(t, roles{}, nil, nodes(nil))
	l.settle()
	item := l.wanted()[0]
	got := l.see(item)
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
		"tags":                map[string]any{"team": "ml", clusterTag: sandboxMark, policyTag: "Orphan"},
	}
	if diff := cmp.Diff(want, got.object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !got.ours || !strings.HasPrefix(got.uid, "arn:aws:iam::000000000000:role/nodes#AROA") || len(got.notes) > 0 {
		t.Errorf("ours %v, uid %s, notes %q", got.ours, got.uid, got.notes)
	}
	l.asks(map[string]int{"GetRole": 1, "ListAttachedRolePolicies": 1, "ListRolePolicies": 1})
	l.denied("iam", "GetRole", "ListAttachedRolePolicies", "ListRolePolicies")

	ctx, api := t.Context(), l.c.iam
	admin, cni := sdk.String("arn:aws:iam::aws:policy/AdministratorAccess"), sdk.String("arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
	l.broken("another trust", func() {
		l.do(api.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: l.node(), PolicyDocument: sdk.String(lambdaTrustText)}))
	})
	l.broken("a policy more", func() {
		l.do(api.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: l.node(), PolicyArn: admin}))
	})
	l.broken("a policy less", func() {
		l.do(api.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: l.node(), PolicyArn: cni}))
	})
	l.broken("an inline policy", func() {
		l.do(api.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: l.node(), PolicyName: sdk.String("more"), PolicyDocument: sdk.String(someDocument)}))
	})
	l.broken("no boundary", func() {
		l.do(api.DeleteRolePermissionsBoundary(ctx, &iam.DeleteRolePermissionsBoundaryInput{RoleName: l.node()}))
	})
	l.broken("another boundary", func() {
		l.do(api.PutRolePermissionsBoundary(ctx, &iam.PutRolePermissionsBoundaryInput{RoleName: l.node(), PermissionsBoundary: admin}))
	})
	l.broken("a tag with another value", func() {
		l.do(api.TagRole(ctx, &iam.TagRoleInput{RoleName: l.node(), Tags: iamTags(map[string]string{"team": "web"})}))
	})
	l.broken("a missing tag", func() {
		l.do(api.UntagRole(ctx, &iam.UntagRoleInput{RoleName: l.node(), TagKeys: []string{policyTag}}))
	})
	l.broken("all of it gone", func() {
		if err := l.remove(ctx, l.c, item.Key, l.see(item)); err != nil {
			t.Fatal(err)
		}
	})
	l.do(api.TagRole(ctx, &iam.TagRoleInput{RoleName: l.node(), Tags: iamTags(map[string]string{"others": "stay"})}))
	if bad := l.differences(); len(bad) > 0 {
		t.Errorf("others' tags differ: %v", bad)
	}
}

func TestATrustThatIsWrittenOtherwiseIsEqual(t *testing.T) {
	l := bootstrapped(t, roles{}, nil, nodes(nil))
	l.settle()
	for _, doc := range []string{
		nodeTrustText,
		`{"Version":"2012-10-17","Statement":{"Sid":"EKSNodeAssumeRole","Effect":"Allow","Principal":{"Service":["ec2.amazonaws.com"]},"Action":["sts:AssumeRole"]}}`,
	} {
		l.do(l.c.iam.UpdateAssumeRolePolicy(t.Context(), &iam.UpdateAssumeRolePolicyInput{RoleName: l.node(), PolicyDocument: &doc}))
		if bad := l.differences(); len(bad) > 0 {
			t.Errorf("%s differs", doc)
		}
	}
}

func TestInChinaTheNodesTrustIsChinas(t *testing.T) {
	p := place{Partition: "aws-cn", Region: "cn-north-1", Account: "000000000000", Cluster: "c"}
	if got := fmt.Sprint(p.nodeTrust()); !strings.Contains(got, "[ec2.amazonaws.com.cn]") {
		t.Error(got)
	}
}

func TestARoleOfOthersIsNotOurs(t *testing.T) {
	for _, tt := range []struct {
		name string
		tags []iamtypes.Tag
	}{
		{"without tags", nil},
		{"of another cluster", iamTags(map[string]string{clusterTag: "other", policyTag: "Delete"})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLife(t, roles{}, nil, nodes(nil))
			l.role("nodes", "/", nodeTrustText, tt.tags...)
			if got := l.see(l.wanted()[0]); got.ours || got.object == nil {
				t.Errorf("ours %v, object %v", got.ours, got.object)
			}
		})
	}
}

func TestPoliciesOutsideOfTheAllowListAreRefused(t *testing.T) {
	l := bootstrapped(t, roles{}, nil, nodes(func(n *v1alpha1.NodeRole) {
		n.Policies = []v1alpha1.NodePolicy{"AdministratorAccess", "AmazonEKSWorkerNodePolicy"}
	}))
	item := l.wanted()[0]
	want := "spec.nodeRole.policies: AdministratorAccess is not allowed for nodes: choose from AmazonEBSCSIDriverPolicy, " +
		"AmazonEC2ContainerRegistryPullOnly, AmazonEC2ContainerRegistryReadOnly, AmazonEKSWorkerNodeMinimalPolicy, AmazonEKSWorkerNodePolicy, " +
		"AmazonEKS_CNI_Policy, AmazonSSMManagedInstanceCore, CloudWatchAgentServerPolicy"
	if item.CompareOnly != want {
		t.Errorf("held because %q", item.CompareOnly)
	}
	if err := l.write(t.Context(), l.c, item, liveResource{}); err == nil || !strings.Contains(err.Error(), "must not be attached") {
		t.Errorf("writing it: %v", err)
	}
	l.role("nodes", "/", nodeTrustText, iamTags(tagsOf(item))...)
	for _, name := range []string{"AdministratorAccess", "AmazonEKSWorkerNodePolicy"} {
		l.do(l.c.iam.AttachRolePolicy(t.Context(), &iam.AttachRolePolicyInput{RoleName: l.node(), PolicyArn: sdk.String("arn:aws:iam::aws:policy/" + name)}))
	}
	if len(l.differences()) != 1 {
		t.Error("a role that has what is not allowed is as wanted")
	}
	for _, arn := range []string{"arn:aws:iam::aws:policy/AdministratorAccess", "arn:aws:iam::000000000000:policy/AmazonEKSWorkerNodePolicy", "arn:aws:iam::000000000000:policy/poolwright-loop-other"} {
		if l.c.place.attachable(arn) == nil {
			t.Errorf("%s may be attached", arn)
		}
	}
}

func TestTheControllersIdentityIsWrittenOnlyByBootstrap(t *testing.T) {
	for _, identity := range []v1alpha1.IdentityKind{v1alpha1.IdentityPod, v1alpha1.IdentityIRSA} {
		c, _ := newCloud(t, nil)
		s := defaulted(c, controlled(identity))
		for _, boot := range []bool{true, false} {
			s.bootstrap = boot
			held := map[string]bool{}
			for _, k := range kinds() {
				for _, item := range k.want(s) {
					held[item.Key.String()] = item.CompareOnly == onlyBootstrap
					if item.CompareOnly != "" && item.CompareOnly != onlyBootstrap {
						t.Errorf("%s is held: %s", item.Key, item.CompareOnly)
					}
				}
			}
			want := map[string]bool{
				"Policy.iam/poolwright-boundary-sandbox-us-east-1": !boot, "Policy.iam/poolwright-engine-sandbox-us-east-1": !boot, "Policy.iam/poolwright-loop-sandbox-us-east-1": !boot, "Policy.iam/poolwright-limits-sandbox-us-east-1": !boot,
				"Role.iam/poolwright-sandbox-us-east-1": !boot, "Role.iam/nodes": false, "InstanceProfile.iam/nodes": false,
				"AccessEntry.eks/us-east-1/sandbox/nodes": false,
			}
			if identity == v1alpha1.IdentityPod {
				want["PodIdentityAssociation.eks/us-east-1/sandbox/poolwright-system/poolwright"] = !boot
			}
			if diff := cmp.Diff(want, held); diff != "" {
				t.Errorf("bootstrap %v, %s (-want +got):\n%s", boot, identity, diff)
			}
		}
	}
}

func TestEveryLifeOfAnIdentityMayEndAtAnyRequest(t *testing.T) {
	broken := func(l *life) {
		l.role("nodes", "/", lambdaTrustText)
		l.do(l.c.iam.AttachRolePolicy(l.Context(), &iam.AttachRolePolicyInput{RoleName: l.node(), PolicyArn: sdk.String("arn:aws:iam::aws:policy/AdministratorAccess")}))
	}
	adopted := nodes(func(n *v1alpha1.NodeRole) { n.Adopt, n.InstanceProfile = true, "nodes" })
	for _, tt := range []struct {
		name string
		set  func(t *testing.T) *life
	}{
		{"roles are made", func(t *testing.T) *life {
			return bootstrapped(t, roles{}, nil, controlled(v1alpha1.IdentityIRSA))
		}},
		{"a role is adopted", func(t *testing.T) *life {
			l := newLife(t, roles{}, nil, adopted)
			broken(l)
			return l
		}},
		{"policies are made", func(t *testing.T) *life {
			return bootstrapped(t, policies{}, nil, controlled(v1alpha1.IdentityPod))
		}},
		{"policies are changed", func(t *testing.T) *life {
			l := bootstrapped(t, policies{}, nil, controlled(v1alpha1.IdentityPod))
			l.settle()
			for range 4 {
				l.newVersion("loop")
			}
			return l
		}},
		{"an instance profile is made", func(t *testing.T) *life {
			return bootstrapped(t, profiles{}, nil, controlled(v1alpha1.IdentityPod))
		}},
		{"an instance profile with another role is adopted", func(t *testing.T) *life {
			l := newLife(t, profiles{}, func(c *sandbox.Config) {
				c.Roles, c.Profiles = []string{"other", "nodes"}, map[string]string{"nodes": "other"}
			}, adopted)
			return l
		}},
		{"an access entry is made", func(t *testing.T) *life {
			return bootstrapped(t, accessEntries{}, nil, controlled(v1alpha1.IdentityPod))
		}},
		{"an access entry of ours has another type", func(t *testing.T) *life {
			l := newLife(t, accessEntries{}, func(c *sandbox.Config) { c.Roles = []string{"nodes"} }, nodes(nil))
			l.do(l.c.eks.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{
				ClusterName: sdk.String("sandbox"), PrincipalArn: sdk.String(l.c.place.iamARN("role/nodes")), Tags: tagsOf(l.wanted()[0]),
			}))
			return l
		}},
		{"a pod identity association is made", func(t *testing.T) *life {
			return bootstrapped(t, podIdentities{}, nil, controlled(v1alpha1.IdentityPod))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { survives(t, tt.set) })
	}
}

func TestWhatAWSHasNotHeardOfYetIsTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		kind  kind
		fault sandbox.Fault
	}{
		{"a role is not found when a policy is attached", roles{}, sandbox.Fault{Service: "iam", Operation: "AttachRolePolicy", Code: "NoSuchEntity", Status: http.StatusNotFound}},
		{"a boundary is not found when a role is made", roles{}, sandbox.Fault{Service: "iam", Operation: "CreateRole", Code: "NoSuchEntity", Status: http.StatusNotFound}},
		{"the answer to the making of a role was lost", roles{}, sandbox.Fault{Service: "iam", Operation: "CreateRole", Code: "EntityAlreadyExists", Status: http.StatusConflict, Lost: true}},
		{"the answer to the making of a policy was lost", policies{}, sandbox.Fault{Service: "iam", Operation: "CreatePolicy", Code: "EntityAlreadyExists", Status: http.StatusConflict, Lost: true}},
		{"a role is not found when it is put into its profile", profiles{}, sandbox.Fault{Service: "iam", Operation: "AddRoleToInstanceProfile", Code: "NoSuchEntity", Status: http.StatusNotFound}},
		{"a role is not found when its access entry is made", accessEntries{}, sandbox.Fault{Service: "iam", Operation: "GetRole", Code: "NoSuchEntity", Status: http.StatusNotFound}},
		{"EKS has not heard of the role", accessEntries{}, sandbox.Fault{Service: "eks", Operation: "CreateAccessEntry", Code: "InvalidParameterException", Message: "The specified principalArn is invalid: invalid principal."}},
		{"EKS has not heard of the controller's role", podIdentities{}, sandbox.Fault{Service: "eks", Operation: "CreatePodIdentityAssociation", Code: "InvalidParameterException", Message: "Role provided in the request does not exist."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := bootstrapped(t, tt.kind, nil, controlled(v1alpha1.IdentityPod))
			item := l.wanted()[0]
			live := l.see(item)
			tt.fault.Times = 1
			if _, err := l.cloud.Inject(tt.fault); err != nil {
				t.Fatal(err)
			}
			if err := l.write(t.Context(), l.c, item, live); !errors.Is(err, errNotYet) {
				t.Errorf("got %v", err)
			}
			l.settle()
		})
	}
}

func TestIdentitiesAreRemovedWithAllThatHangsOnThem(t *testing.T) {
	for _, k := range []kind{podIdentities{}, accessEntries{}, profiles{}, roles{}, policies{}} {
		t.Run(fmt.Sprintf("%T", k), func(t *testing.T) {
			l := bootstrapped(t, k, nil, controlled(v1alpha1.IdentityPod))
			l.settle()
			if (k == policies{}) {
				l.newVersion("loop")
			}
			if (k == roles{}) {
				l.do(l.c.iam.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: l.node(), PolicyName: sdk.String("more"), PolicyDocument: sdk.String(someDocument)}))
				in := *l
				in.kind = profiles{}
				in.settle()
			}
			l.removed()
			for _, item := range l.wanted() {
				if err := l.remove(t.Context(), l.c, item.Key, liveResource{object: map[string]any{"policies": []any{}}, uid: "x#a-gone"}); err != nil {
					t.Errorf("removing %s, which is gone: %v", item.Key, err)
				}
			}
		})
	}
}

func TestARoleInAProfileOfOthersStaysWhole(t *testing.T) {
	l := bootstrapped(t, roles{}, func(c *sandbox.Config) {
		c.Profiles = map[string]string{"theirs": "other"}
		c.Roles = []string{"other"}
	}, nodes(nil))
	l.settle()
	l.do(l.c.iam.RemoveRoleFromInstanceProfile(t.Context(), &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: sdk.String("theirs"), RoleName: sdk.String("other")}))
	l.do(l.c.iam.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: sdk.String("theirs"), RoleName: l.node()}))
	item := l.wanted()[0]
	err := l.remove(t.Context(), l.c, item.Key, l.see(item))
	if err == nil || !strings.Contains(err.Error(), "did not make: theirs") {
		t.Errorf("got %v", err)
	}
	if bad := l.differences(); len(bad) > 0 {
		t.Errorf("after the refusal %v differ", bad)
	}
}
