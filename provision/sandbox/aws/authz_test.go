package aws_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
)

const (
	nodeRole       = "sandbox-nodes"
	controllerRole = "poolwright-sandbox-us-east-1"
	ourBoundary    = "arn:aws:iam::000000000000:policy/poolwright-boundary-sandbox-us-east-1"
	ours           = "poolwright.dev/cluster"
	mark           = "us-east-1/sandbox"
	whenGone       = "poolwright.dev/deletion-policy"
)

// as is the same fixture for another caller.
func (w *fixture) as(key string) *fixture {
	out := *w
	out.cfg = w.cfg.Copy()
	out.cfg.Credentials = sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
		return sdk.Credentials{AccessKeyID: key, SecretAccessKey: key}, nil
	})
	c := out.cfg
	out.ec2, out.eks, out.iam, out.pricing = ec2.NewFromConfig(c), eks.NewFromConfig(c), iam.NewFromConfig(c), pricing.NewFromConfig(c)
	out.sqs, out.ssm, out.sts = sqs.NewFromConfig(c), ssm.NewFromConfig(c), sts.NewFromConfig(c)
	return &out
}

// written are policies of config/iam for this fixture's cluster.
func written(t *testing.T, write ...func(iampolicy.Values) (string, error)) []policy.Document {
	t.Helper()
	var out []policy.Document
	for _, w := range write {
		text, err := w(iampolicy.Values{Partition: "aws", Region: "us-east-1", Account: "000000000000", Cluster: "sandbox", NodeRole: nodeRole, Queue: "sandbox"})
		ok(t, err)
		d, err := policy.Parse(text)
		ok(t, err)
		out = append(out, d)
	}
	return out
}

// newEstate is an account in which bootstrap has been, and other clusters are.
// It returns the administrator's fixture and the controller's, who is held to the
// policies of the loop and of the engine.
func newEstate(t *testing.T) (admin, controller *fixture) {
	t.Helper()
	admin = newFixture(t, func(c *sandboxaws.Config) {
		cluster(c)
		c.Queues = []string{"sandbox", "theirs"}
		c.Roles = []string{"someone", "shared"}
		c.Profiles = map[string]string{"someones": "someone"}
	})
	ctx, s := t.Context(), sdk.String
	_, err := admin.iam.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: s("poolwright-boundary-sandbox-us-east-1"), PolicyDocument: s(allowRead)})
	ok(t, err)
	_, err = admin.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: s(controllerRole), AssumeRolePolicyDocument: s(trustEC2), Tags: iamTags(ours, mark, whenGone, "Delete")})
	ok(t, err)
	controller = admin.as("CONTROLLER")
	admin.cloud.Restrict("CONTROLLER", written(t, iampolicy.Resources, iampolicy.Deny, iampolicy.Engine), nil)
	return admin, controller
}

// step is one call that must succeed.
type step struct {
	name string
	call func(context.Context, *fixture) error
}

// take makes the steps in turn, and shows that the administrator's view of what
// they asked is that of the policies.
func take(t *testing.T, w *fixture, docs []policy.Document, steps []step) {
	t.Helper()
	for _, s := range steps {
		before := len(w.cloud.Calls())
		if err := s.call(t.Context(), w); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		for _, call := range w.cloud.Calls()[before:] {
			if len(call.Authorizations) == 0 && call.Operation != "GetCallerIdentity" {
				t.Errorf("%s: %s asked nothing", s.name, call.Operation)
			}
			for _, d := range call.Denied(docs, nil) {
				t.Errorf("%s: %s", s.name, d)
			}
		}
	}
}

func TestDenialsHaveTheServicesErrorFormat(t *testing.T) {
	w := newFixture(t, cluster)
	nobody := w.as("NOBODY")
	lift := w.cloud.Restrict("NOBODY", nil, nil)
	ctx := t.Context()
	for _, test := range []struct {
		service, code, action, resource string
		call                            func(*fixture) error
	}{
		{"EC2", "UnauthorizedOperation", "ec2:DescribeInstances", "*", func(w *fixture) error {
			return drop(w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{}))
		}},
		{"EC2 in a dry run", "UnauthorizedOperation", "ec2:DescribeSubnets", "*", func(w *fixture) error {
			return drop(w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{DryRun: sdk.Bool(true)}))
		}},
		{"IAM", "AccessDenied", "iam:GetRole", "arn:aws:iam::000000000000:role/none", func(w *fixture) error {
			return drop(w.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: sdk.String("none")}))
		}},
		{"EKS", "AccessDeniedException", "eks:DescribeCluster", "arn:aws:eks:us-east-1:000000000000:cluster/sandbox", func(w *fixture) error {
			return drop(w.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String("sandbox")}))
		}},
		{"SSM", "AccessDeniedException", "ssm:GetParameter", "arn:aws:ssm:us-east-1::parameter/aws/service/x", func(w *fixture) error {
			return drop(w.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: sdk.String("/aws/service/x")}))
		}},
		{"SQS", "AccessDenied", "sqs:GetQueueUrl", "arn:aws:sqs:us-east-1:000000000000:sandbox", func(w *fixture) error {
			return drop(w.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: sdk.String("sandbox")}))
		}},
	} {
		t.Run(test.service, func(t *testing.T) {
			err := test.call(nobody)
			wantCode(t, err, test.code)
			var api smithy.APIError
			for _, texts := range []string{"assumed-role/sandbox/nobody", "is not authorized to perform: " + test.action, "on resource: " + test.resource, "no identity-based policy"} {
				if !errors.As(err, &api) || !strings.Contains(api.ErrorMessage(), texts) {
					t.Errorf("%q is not said: %v", texts, err)
				}
			}
			if got := code(test.call(w)); got == test.code {
				t.Errorf("the administrator was denied, too")
			}
		})
	}
	ok(t, drop(nobody.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})))
	lift()
	ok(t, drop(nobody.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})))
}

func TestABoundaryBindsACaller(t *testing.T) {
	w := newFixture(t, nil)
	all, err := policy.Parse(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`)
	ok(t, err)
	bound := written(t, iampolicy.Boundary)[0]
	w.cloud.Restrict("NODE", []policy.Document{all}, &bound)
	node := w.as("NODE")
	ok(t, drop(node.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})))
	err = drop(node.iam.ListRoles(t.Context(), &iam.ListRolesInput{}))
	wantCode(t, err, "AccessDenied")
	if !strings.Contains(err.Error(), "no permissions boundary allows") {
		t.Error(err)
	}
}

func TestAFleetNeedsPermissionForEverythingThatItUses(t *testing.T) {
	w := newFixture(t, nil)
	id := w.launchFor(t, "sandbox")
	requested := map[string][]string{}
	for _, call := range w.cloud.Calls() {
		if call.Operation == "CreateFleet" {
			for _, q := range call.Authorizations {
				requested[q.Action+" "+q.Resource] = q.Context["aws:RequestTag/karpenter.sh/nodepool"]
			}
		}
	}
	const here = "arn:aws:ec2:us-east-1:000000000000:"
	for request, pool := range map[string]string{
		"ec2:CreateFleet " + here + "fleet/*": "gpu", "ec2:CreateTags " + here + "fleet/*": "gpu",
		"ec2:RunInstances " + here + "instance/*": "gpu", "ec2:CreateTags " + here + "instance/*": "gpu",
		"ec2:RunInstances " + here + "volume/*": "gpu", "ec2:RunInstances " + here + "network-interface/*": "gpu",
		"ec2:RunInstances " + here + "subnet/" + w.subnets(t)["us-east-1a"]:                       "",
		"ec2:RunInstances " + here + "security-group/" + w.group(t):                               "",
		"ec2:RunInstances arn:aws:ec2:us-east-1::image/" + w.image(t, "x86_64", "standard"):       "",
		"iam:PassRole arn:aws:iam::000000000000:role/" + sandboxaws.DefaultConfig().Roles[0]:      "",
		"ec2:CreateFleet " + here + "launch-template/" + w.templateID(t, "karpenter.k8s.aws/gpu"): "",
	} {
		got, has := requested[request]
		if !has || strings.Join(got, "") != pool {
			t.Errorf("%s: asked %v, with pool %v, want %q", request, has, got, pool)
		}
	}
	if !strings.HasPrefix(id, "i-") {
		t.Error(id)
	}
}

// templateID finds a launch template by its name.
func (w *fixture) templateID(t *testing.T, name string) string {
	t.Helper()
	out, err := w.ec2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{name}})
	ok(t, err)
	return *out.LaunchTemplates[0].LaunchTemplateId
}

// nodeTags are what Karpenter tags all that it launches with.
func nodeTags(cluster string) []types.Tag {
	return tags("kubernetes.io/cluster/"+cluster, "owned", "eks:eks-cluster-name", cluster, "karpenter.sh/nodepool", "gpu", "karpenter.k8s.aws/ec2nodeclass", "gpu")
}

func tagged(cluster string, kinds ...types.ResourceType) (out []types.TagSpecification) {
	for _, k := range kinds {
		out = append(out, types.TagSpecification{ResourceType: k, Tags: nodeTags(cluster)})
	}
	return out
}

// templateFor makes a launch template as Karpenter does for a cluster.
func (w *fixture) templateFor(ctx context.Context, t *testing.T, name, cluster string) error {
	t.Helper()
	data := &types.RequestLaunchTemplateData{
		ImageId: sdk.String(w.image(t, "x86_64", "standard")),
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{
			DeviceIndex: sdk.Int32(0), Groups: []string{w.group(t)}}},
		TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeNetworkInterface, Tags: nodeTags(cluster)}},
	}
	if out, err := w.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: sdk.String("p-" + cluster)}); err == nil {
		data.IamInstanceProfile = &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: out.InstanceProfile.InstanceProfileName}
	}
	return drop(w.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: sdk.String(name), LaunchTemplateData: data, TagSpecifications: tagged(cluster, types.ResourceTypeLaunchTemplate),
	}))
}

// fleetFor is a fleet of one instance for a cluster.
func (w *fixture) fleetFor(t *testing.T, template, cluster string) *ec2.CreateFleetInput {
	t.Helper()
	in := fleet(template, "on-demand", 1, pool{"m5.large", w.subnets(t)["us-east-1a"], 1})
	in.TagSpecifications = tagged(cluster, types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeFleet)
	return in
}

// launchFor launches an instance for a cluster, as its engine would.
func (w *fixture) launchFor(t *testing.T, cluster string) string {
	t.Helper()
	ctx, profile := t.Context(), sdk.String("p-"+cluster)
	roles, err := w.iam.ListRoles(ctx, &iam.ListRolesInput{})
	ok(t, err)
	_, err = w.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: profile})
	ok(t, err)
	ok(t, drop(w.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: profile, RoleName: roles.Roles[0].RoleName})))
	ok(t, w.templateFor(ctx, t, "karpenter.k8s.aws/gpu", cluster))
	out, err := w.ec2.CreateFleet(ctx, w.fleetFor(t, "karpenter.k8s.aws/gpu", cluster))
	ok(t, err)
	if len(out.Instances) != 1 {
		t.Fatalf("no instance: %v", out.Errors)
	}
	return out.Instances[0].InstanceIds[0]
}
