package aws_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"

	iampolicy "github.com/poolwright/poolwright/config/iam"
)

const (
	theirQueue = "https://sqs.us-east-1.amazonaws.com/000000000000/theirs"
	everything = "arn:aws:iam::aws:policy/AdministratorAccess"
)

// denial is a call that must be denied, and for which action.
type denial struct {
	name, action string
	call         func(context.Context, *fixture) error
}

// foreign is what stands around the controller's own things: an instance and a
// template of another cluster, an instance of nobody's, our role, made by the
// controller, and a rule of another cluster under our prefix.
func (w *fixture) foreign(t *testing.T, controller *fixture) (theirs, nobodys string) {
	t.Helper()
	ctx, s := t.Context(), sdk.String
	theirs = w.launchFor(t, "theirs")
	w.template(t, "plain", w.image(t, "x86_64", "standard"))
	out, err := w.ec2.CreateFleet(ctx, fleet("plain", "on-demand", 1, pool{"m5.large", ourSubnet, 1}))
	ok(t, err)
	for _, step := range identitySteps() {
		ok(t, step.call(ctx, controller))
	}
	ok(t, drop(eventbridge.NewFromConfig(w.cfg).PutRule(ctx, &eventbridge.PutRuleInput{Name: s("poolwright-theirs-Rebalance"), EventPattern: s(`{"source":["aws.ec2"]}`),
		Tags: []eventstypes.Tag{{Key: s(ours), Value: s("us-east-1/theirs")}}})))
	ok(t, drop(eventbridge.NewFromConfig(w.cfg).PutRule(ctx, &eventbridge.PutRuleInput{Name: s(ourRule), EventPattern: s(`{"source":["aws.ec2"]}`),
		Tags: []eventstypes.Tag{{Key: s(ours), Value: s(mark)}, {Key: s(whenGone), Value: s("Orphan")}}})))
	return theirs, out.Instances[0].InstanceIds[0]
}

func TestWhatTheControllerMustNotDo(t *testing.T) {
	admin, controller := newEstate(t)
	theirs, nobodys := admin.foreign(t, controller)
	docs := written(t, iampolicy.Resources, iampolicy.Deny, iampolicy.Engine)
	for _, list := range [][]denial{deniedOnInstances(t, theirs, nobodys), deniedOnRoles(), deniedOnAccess(), deniedOnOthers()} {
		for _, d := range list {
			t.Run(d.name, func(t *testing.T) {
				before := len(admin.cloud.Calls())
				err := d.call(t.Context(), controller)
				var api smithy.APIError
				if !errors.As(err, &api) || !strings.Contains(api.ErrorCode(), "Denied") && api.ErrorCode() != "UnauthorizedOperation" ||
					!strings.Contains(api.ErrorMessage(), "is not authorized to perform: "+d.action+" ") {
					t.Fatalf("was not denied as %s: %v", d.action, err)
				}
				// The journal tells the same afterwards, and that nobody else is bound.
				calls := admin.cloud.Calls()[before:]
				last := calls[len(calls)-1]
				if denied := last.Denied(docs, nil); len(denied) == 0 || denied[0].Request.Action != d.action || last.Key != "CONTROLLER" {
					t.Errorf("the replay says %v", denied)
				}
				if err := d.call(t.Context(), admin); errors.As(err, &api) && (strings.Contains(api.ErrorCode(), "Denied") || api.ErrorCode() == "UnauthorizedOperation") {
					t.Errorf("the administrator is denied: %v", err)
				}
			})
		}
	}
}

func deniedOnInstances(t *testing.T, theirs, nobodys string) []denial {
	t.Helper()
	s := sdk.String
	return []denial{
		{"ending an instance of another cluster", "ec2:TerminateInstances", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{theirs}, DryRun: sdk.Bool(true)}))
		}},
		{"ending an instance without our tag", "ec2:TerminateInstances", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{nobodys}, DryRun: sdk.Bool(true)}))
		}},
		{"tagging an instance as ours", "ec2:CreateTags", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{nobodys}, DryRun: sdk.Bool(true), Tags: nodeTags("sandbox")}))
		}},
		{"naming an instance of another cluster", "ec2:CreateTags", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{theirs}, DryRun: sdk.Bool(true), Tags: tags("Name", "mine")}))
		}},
		{"making a template for another cluster", "ec2:CreateLaunchTemplate", func(ctx context.Context, w *fixture) error {
			return w.templateFor(ctx, t, "karpenter.k8s.aws/x", "theirs")
		}},
		{"launching for another cluster", "ec2:CreateFleet", func(ctx context.Context, w *fixture) error {
			in := w.fleetFor(t, "karpenter.k8s.aws/gpu", "theirs")
			in.DryRun = sdk.Bool(true)
			return drop(w.ec2.CreateFleet(ctx, in))
		}},
		{"launching from a template of another cluster", "ec2:CreateFleet", func(ctx context.Context, w *fixture) error {
			in := w.fleetFor(t, "karpenter.k8s.aws/gpu", "sandbox")
			in.DryRun = sdk.Bool(true)
			return drop(w.ec2.CreateFleet(ctx, in))
		}},
		{"running an instance without tags", "ec2:RunInstances", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.RunInstances(ctx, &ec2.RunInstancesInput{DryRun: sdk.Bool(true), MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), InstanceType: "m5.large",
				LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateName: s("plain")}, SubnetId: s(ourSubnet)}))
		}},
		{"deleting a template of another cluster", "ec2:DeleteLaunchTemplate", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: s("karpenter.k8s.aws/gpu"), DryRun: sdk.Bool(true)}))
		}},
		{"tagging a subnet with another tag", "ec2:CreateTags", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{ourSubnet}, DryRun: sdk.Bool(true), Tags: tags("kubernetes.io/role/elb", "1")}))
		}},
		{"taking another tag off a subnet", "ec2:DeleteTags", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{ourSubnet}, DryRun: sdk.Bool(true), Tags: tags("Name", "x")}))
		}},
		{"taking the mark of a cluster whose name begins alike off a subnet", "ec2:DeleteTags", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{ourSubnet}, DryRun: sdk.Bool(true), Tags: []types.Tag{{Key: s("poolwright.dev/discovery/sandbox-2")}}}))
		}},
		{"marking a subnet for another cluster's pools", "ec2:CreateTags", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{ourSubnet}, DryRun: sdk.Bool(true), Tags: tags("karpenter.sh/discovery", "theirs")}))
		}},
		{"taking all tags off a subnet", "ec2:DeleteTags", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{ourSubnet}, DryRun: sdk.Bool(true)}))
		}},
		{"taking another cluster's mark off a subnet", "ec2:DeleteTags", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{ourSubnet}, DryRun: sdk.Bool(true), Tags: []types.Tag{{Key: s("poolwright.dev/discovery/theirs")}}}))
		}},
	}
}

func deniedOnRoles() []denial {
	s := sdk.String
	create := func(name string, boundary *string, pairs ...string) func(context.Context, *fixture) error {
		return func(ctx context.Context, w *fixture) error {
			return drop(w.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: s(trustEC2), PermissionsBoundary: boundary, Tags: iamTags(pairs...)}))
		}
	}
	attach := func(role, arn string) func(context.Context, *fixture) error {
		return func(ctx context.Context, w *fixture) error {
			return drop(w.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: &role, PolicyArn: &arn}))
		}
	}
	return []denial{
		{"creating the role without a boundary", "iam:CreateRole", create(nodeRole, nil, ours, mark)},
		{"creating the role with another boundary", "iam:CreateRole", create(nodeRole, s(everything), ours, mark)},
		{"creating the role without our tag", "iam:CreateRole", create(nodeRole, s(ourBoundary))},
		{"creating another role", "iam:CreateRole", create("another", s(ourBoundary), ours, mark)},
		{"attaching AdministratorAccess", "iam:AttachRolePolicy", attach(nodeRole, everything)},
		{"attaching a policy to the controller's own role", "iam:AttachRolePolicy", attach(controllerRole, workerNode)},
		{"attaching a policy to somebody's role", "iam:AttachRolePolicy", attach("someone", workerNode)},
		{"taking the boundary away", "iam:DeleteRolePermissionsBoundary", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DeleteRolePermissionsBoundary(ctx, &iam.DeleteRolePermissionsBoundaryInput{RoleName: s(nodeRole)}))
		}},
		{"putting a wider boundary", "iam:PutRolePermissionsBoundary", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.PutRolePermissionsBoundary(ctx, &iam.PutRolePermissionsBoundaryInput{RoleName: s(nodeRole), PermissionsBoundary: s(everything)}))
		}},
		{"writing an inline policy", "iam:PutRolePolicy", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: s(nodeRole), PolicyName: s("x"), PolicyDocument: s(allowRead)}))
		}},
		{"changing who may be the controller", "iam:UpdateAssumeRolePolicy", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: s(controllerRole), PolicyDocument: s(trustEC2)}))
		}},
		{"deleting the controller's role", "iam:DeleteRole", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: s(controllerRole)}))
		}},
		{"rewriting the boundary", "iam:CreatePolicyVersion", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.CreatePolicyVersion(ctx, &iam.CreatePolicyVersionInput{PolicyArn: s(ourBoundary), PolicyDocument: s(allowRead)}))
		}},
		{"making a policy", "iam:CreatePolicy", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: s("x"), PolicyDocument: s(allowRead)}))
		}},
		{"claiming somebody's role", "iam:TagRole", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.TagRole(ctx, &iam.TagRoleInput{RoleName: s("someone"), Tags: iamTags(ours, mark)}))
		}},
		{"giving another role to instances", "iam:PassRole", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: s(nodeRole), RoleName: s("someone")}))
		}},
		{"putting our role into somebody's profile", "iam:AddRoleToInstanceProfile", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: s("someones"), RoleName: s(nodeRole)}))
		}},
	}
}

func deniedOnAccess() []denial {
	s := sdk.String
	entry := func(principal, kind string) func(context.Context, *fixture) error {
		return func(ctx context.Context, w *fixture) error {
			return drop(w.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: s("sandbox"), PrincipalArn: &principal, Type: &kind}))
		}
	}
	config := func(in eks.UpdateClusterConfigInput) func(context.Context, *fixture) error {
		return func(ctx context.Context, w *fixture) error {
			input := in
			input.Name = s("sandbox")
			return drop(w.eks.UpdateClusterConfig(ctx, &input))
		}
	}
	return []denial{
		{"letting another role join", "eks:CreateAccessEntry", entry("arn:aws:iam::000000000000:role/someone", "EC2_LINUX")},
		{"letting the nodes' role do as it likes", "eks:CreateAccessEntry", entry(nodesARN, "STANDARD")},
		{"giving pods a role", "eks:CreatePodIdentityAssociation", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{ClusterName: s("sandbox"), Namespace: s("a"), ServiceAccount: s("b"), RoleArn: s(nodesARN)}))
		}},
		{"changing who may enter at all", "eks:UpdateClusterConfig", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.UpdateClusterConfig(ctx, &eks.UpdateClusterConfigInput{Name: s("sandbox"), AccessConfig: &ekstypes.UpdateAccessConfigRequest{AuthenticationMode: "API"}}))
		}},
		{"opening the cluster to every address", "eks:UpdateClusterConfig", config(eks.UpdateClusterConfigInput{ResourcesVpcConfig: &ekstypes.VpcConfigRequest{EndpointPublicAccess: sdk.Bool(true)}})},
		{"closing the cluster's private door", "eks:UpdateClusterConfig", config(eks.UpdateClusterConfigInput{ResourcesVpcConfig: &ekstypes.VpcConfigRequest{EndpointPrivateAccess: sdk.Bool(false)}})},
		{"letting the cluster be deleted", "eks:UpdateClusterConfig", config(eks.UpdateClusterConfigInput{DeletionProtection: sdk.Bool(false)})},
		{"paying for extended support", "eks:UpdateClusterConfig", config(eks.UpdateClusterConfigInput{UpgradePolicy: &ekstypes.UpgradePolicyRequest{SupportType: "EXTENDED"}})},
		{"paying for a larger control plane", "eks:UpdateClusterConfig", config(eks.UpdateClusterConfigInput{ControlPlaneScalingConfig: &ekstypes.ControlPlaneScalingConfig{Tier: "tier-xl"}})},
		{"shifting the cluster out of a zone", "eks:UpdateClusterConfig", config(eks.UpdateClusterConfigInput{ZonalShiftConfig: &ekstypes.ZonalShiftConfigRequest{Enabled: sdk.Bool(true)}})},
		{"turning EKS's own volumes on", "eks:UpdateClusterConfig", config(eks.UpdateClusterConfigInput{StorageConfig: &ekstypes.StorageConfigRequest{BlockStorage: &ekstypes.BlockStorage{Enabled: sdk.Bool(true)}}})},
		{"turning EKS's own load balancers on", "eks:UpdateClusterConfig", config(eks.UpdateClusterConfigInput{KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigRequest{ElasticLoadBalancing: &ekstypes.ElasticLoadBalancing{Enabled: sdk.Bool(true)}}})},
		{"changing another cluster", "eks:UpdateClusterConfig", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.UpdateClusterConfig(ctx, &eks.UpdateClusterConfigInput{Name: s("theirs"), Logging: &ekstypes.Logging{}}))
		}},
		{"tagging the cluster", "eks:TagResource", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: s("arn:aws:eks:us-east-1:000000000000:cluster/sandbox"), Tags: map[string]string{"a": "b"}}))
		}},
	}
}

func deniedOnOthers() []denial {
	s := sdk.String
	events := func(w *fixture) *eventbridge.Client { return eventbridge.NewFromConfig(w.cfg) }
	return []denial{
		{"deleting another queue", "sqs:DeleteQueue", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: s(theirQueue)}))
		}},
		{"deleting our queue, which is not to go", "sqs:DeleteQueue", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: s(ourQueue)}))
		}},
		{"reading another queue's messages", "sqs:ReceiveMessage", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: s(theirQueue)}))
		}},
		{"changing another cluster's rule", "events:PutRule", func(ctx context.Context, w *fixture) error {
			return drop(events(w).PutRule(ctx, &eventbridge.PutRuleInput{Name: s("poolwright-theirs-Rebalance"), EventPattern: s(`{"source":["x"]}`)}))
		}},
		{"changing a rule of others", "events:PutRule", func(ctx context.Context, w *fixture) error {
			return drop(events(w).PutRule(ctx, &eventbridge.PutRuleInput{Name: s("backup"), EventPattern: s(`{"source":["x"]}`)}))
		}},
		{"sending events elsewhere", "events:PutTargets", func(ctx context.Context, w *fixture) error {
			return drop(events(w).PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: s(ourRule), Targets: []eventstypes.Target{
				{Id: s("a"), Arn: s("arn:aws:sqs:us-east-1:000000000000:sandbox")}, {Id: s("b"), Arn: s("arn:aws:sqs:us-east-1:999999999999:spy")}}}))
		}},
		{"deleting our rule, which is not to go", "events:DeleteRule", func(ctx context.Context, w *fixture) error {
			return drop(events(w).DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: s(ourRule)}))
		}},
		{"deleting the log group", "logs:DeleteLogGroup", func(ctx context.Context, w *fixture) error {
			return drop(cloudwatchlogs.NewFromConfig(w.cfg).DeleteLogGroup(ctx, &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: s(ourLogs)}))
		}},
		{"keeping another group's logs for a day", "logs:PutRetentionPolicy", func(ctx context.Context, w *fixture) error {
			return drop(cloudwatchlogs.NewFromConfig(w.cfg).PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: s("/aws/eks/theirs/cluster"), RetentionInDays: sdk.Int32(1)}))
		}},
		{"reading the account's own parameters", "ssm:GetParameter", func(ctx context.Context, w *fixture) error {
			return drop(w.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: s("/prod/database/password")}))
		}},
	}
}

func TestWhoOnlyReportsWritesNothing(t *testing.T) {
	admin, controller := newEstate(t)
	for _, s := range identitySteps() {
		ok(t, s.call(t.Context(), controller))
	}
	report := written(t, iampolicy.Report)
	admin.cloud.Restrict("REPORTER", report, nil)
	reporter := admin.as("REPORTER")
	take(t, reporter, report, readingSteps())
	for _, steps := range [][]step{identitySteps(), queueSteps(), controlSteps(), networkSteps(), deletingSteps()} {
		for _, s := range steps {
			before := len(admin.cloud.Calls())
			err := s.call(t.Context(), reporter)
			for _, call := range admin.cloud.Calls()[before:] {
				if call.Code == "" {
					t.Errorf("%s: %s was allowed (%v)", s.name, call.Operation, err)
				}
			}
		}
	}
}
