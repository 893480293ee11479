package aws_test

import (
	"context"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

func TestWhatIsNewIsFoundOnlyLater(t *testing.T) {
	w := newFixture(t, func(c *sandboxaws.Config) {
		cluster(c)
		c.Delays.Visible = 10 * time.Second
	})
	ctx, s := t.Context(), sdk.String
	arn := w.role(t, "new")
	_, err := w.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: s("new")})
	ok(t, err)
	_, err = w.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: s("with"), LaunchTemplateData: &types.RequestLaunchTemplateData{
		ImageId: s(w.image(t, "x86_64", "standard")), IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: s("new")}}})
	ok(t, err)
	zones := w.subnets(t)
	launch := func() error {
		return drop(w.ec2.RunInstances(ctx, &ec2.RunInstancesInput{DryRun: sdk.Bool(true), MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), InstanceType: "m5.large",
			LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateName: s("with"), Version: s("$Latest")},
			NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: sdk.Int32(0), SubnetId: s(zones["us-east-1a"])}}}))
	}
	wantCode(t, launch(), "InvalidParameterValue")
	steps := []refusal{
		{"reading the role", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: s("new")}))
		}, "NoSuchEntity"},
		{"attaching a policy", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: s("new"), PolicyArn: s(workerNode)}))
		}, "NoSuchEntity"},
		{"tagging the role", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.TagRole(ctx, &iam.TagRoleInput{RoleName: s("new"), Tags: iamTags("a", "b")}))
		}, "NoSuchEntity"},
		{"reading the profile", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: s("new")}))
		}, "NoSuchEntity"},
		{"putting the role into the profile", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: s("new"), RoleName: s("new")}))
		}, "NoSuchEntity"},
		{"letting the role into the cluster", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: s("sandbox"), PrincipalArn: &arn, Type: s("EC2_LINUX")}))
		}, "InvalidParameterException"},
		{"giving pods the role", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{ClusterName: s("sandbox"), Namespace: s("n"), ServiceAccount: s("s"), RoleArn: &arn}))
		}, "InvalidParameterException"},
		{"trusting the role", func(ctx context.Context, w *fixture) error {
			doc := `{"Statement":{"Effect":"Allow","Principal":{"AWS":["` + arn + `"]},"Action":"sts:AssumeRole"}}`
			return drop(w.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: s("trusting"), AssumeRolePolicyDocument: &doc}))
		}, "MalformedPolicyDocument"},
	}
	for _, step := range steps {
		t.Run(step.name+" at once", func(t *testing.T) { wantCode(t, step.call(ctx, w), step.code) })
	}
	_, err = w.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: s("new"), AssumeRolePolicyDocument: s(trustEC2)})
	wantCode(t, err, "EntityAlreadyExists")
	list, err := w.iam.ListRoles(ctx, &iam.ListRolesInput{})
	ok(t, err)
	if len(list.Roles) != 2 {
		t.Errorf("%d roles are listed at once", len(list.Roles))
	}
	w.clock.advance(10 * time.Second)
	wantCode(t, launch(), "DryRunOperation")
	for _, step := range steps {
		t.Run(step.name+" later", func(t *testing.T) { ok(t, step.call(ctx, w)) })
	}
}

func TestAStaleResponseHasTheOldIAMAndEKS(t *testing.T) {
	w := newFixture(t, func(c *sandboxaws.Config) {
		cluster(c)
		c.Profiles = map[string]string{"p": "node"}
	})
	ctx, s := t.Context(), sdk.String
	w.boundary(t)
	pods, err := w.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{ClusterName: s("sandbox"), Namespace: s("n"), ServiceAccount: s("s"), RoleArn: s(nodeARN)})
	ok(t, err)
	_, err = w.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: s("sandbox"), PrincipalArn: s(nodeARN)})
	ok(t, err)
	for _, service := range []string{"iam", "eks"} {
		remove, err := w.cloud.Inject(sandboxaws.Fault{Service: service, Stale: true})
		ok(t, err)
		t.Cleanup(remove)
	}
	for name, err := range map[string]error{
		"tag role": drop(w.iam.TagRole(ctx, &iam.TagRoleInput{RoleName: s("node"), Tags: iamTags("a", "b")})),
		"profile":  drop(w.iam.TagInstanceProfile(ctx, &iam.TagInstanceProfileInput{InstanceProfileName: s("p"), Tags: iamTags("a", "b")})),
		"pods": drop(w.eks.UpdatePodIdentityAssociation(ctx, &eks.UpdatePodIdentityAssociationInput{ClusterName: s("sandbox"), AssociationId: pods.Association.AssociationId,
			RoleArn: s(otherARN)})),
		"attach":     drop(w.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: s("node"), PolicyArn: s(workerNode)})),
		"inline":     drop(w.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: s("node"), PolicyName: s("p"), PolicyDocument: s(allowRead)})),
		"version":    drop(w.iam.CreatePolicyVersion(ctx, &iam.CreatePolicyVersionInput{PolicyArn: s(ownBoundary), PolicyDocument: s(allowWrite), SetAsDefault: true})),
		"tag policy": drop(w.iam.TagPolicy(ctx, &iam.TagPolicyInput{PolicyArn: s(ownBoundary), Tags: iamTags("a", "b")})),
		"logging":    drop(w.logs(ctx, []ekstypes.LogType{"scheduler"}, nil)),
		"tag":        drop(w.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: s("arn:aws:eks:us-east-1:000000000000:cluster/sandbox"), Tags: map[string]string{"a": "b"}})),
		"entry":      drop(w.eks.UpdateAccessEntry(ctx, &eks.UpdateAccessEntryInput{ClusterName: s("sandbox"), PrincipalArn: s(nodeARN), KubernetesGroups: []string{"g"}})),
		"group": drop(w.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{ClusterName: s("sandbox"), NodegroupName: s("plain"),
			Labels: &ekstypes.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"a": "b"}}})),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, err := w.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: s("node")})
	ok(t, err)
	attached, err := w.iam.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: s("node")})
	ok(t, err)
	inline, err := w.iam.ListRolePolicies(ctx, &iam.ListRolePoliciesInput{RoleName: s("node")})
	ok(t, err)
	p, err := w.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: s(ownBoundary)})
	ok(t, err)
	e, err := w.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: s("sandbox"), PrincipalArn: s(nodeARN)})
	ok(t, err)
	profile, err := w.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: s("p")})
	ok(t, err)
	a, err := w.eks.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{ClusterName: s("sandbox"), AssociationId: pods.Association.AssociationId})
	ok(t, err)
	if *a.Association.RoleArn != nodeARN {
		t.Errorf("the association's new role shows: %s", *a.Association.RoleArn)
	}
	k := w.describe(t)
	if n := len(profile.InstanceProfile.Tags) + len(r.Role.Tags) + len(attached.AttachedPolicies) + len(inline.PolicyNames) + len(p.Policy.Tags) + len(e.AccessEntry.KubernetesGroups) + len(k.Tags) +
		len(w.nodeGroup(t, "plain").Labels); n != 0 || *p.Policy.DefaultVersionId != "v1" || len(logTypesOn(k)) != 2 {
		t.Errorf("%d new things show in old answers; version %s, logging %v", n, *p.Policy.DefaultVersionId, logTypesOn(k))
	}
}
