package aws_test

import (
	"context"
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
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	iampolicy "github.com/poolwright/poolwright/config/iam"
)

const (
	nodesARN  = "arn:aws:iam::000000000000:role/" + nodeRole
	ourQueue  = "https://sqs.us-east-1.amazonaws.com/000000000000/sandbox"
	ourSubnet = "subnet-0a000000000000001"
	ourRule   = "poolwright-sandbox-Rebalance"
	ourLogs   = "/aws/eks/sandbox/cluster"
)

// TestTheLoopMayDoItsWork makes, changes, claims and deletes each thing that a
// Cluster declares, by the loop's policy alone.
func TestTheLoopMayDoItsWork(t *testing.T) {
	admin, controller := newEstate(t)
	loop := written(t, iampolicy.Resources, iampolicy.Deny)
	admin.cloud.Restrict("CONTROLLER", loop, nil)
	for _, steps := range [][]step{identitySteps(), joiningSteps(), queueSteps(), controlSteps(), networkSteps(), readingSteps(), deletingSteps()} {
		take(t, controller, loop, steps)
	}
}

func identitySteps() []step {
	s := sdk.String
	return []step{
		{"create the role", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: s(nodeRole), AssumeRolePolicyDocument: s(trustEC2), PermissionsBoundary: s(ourBoundary), Tags: iamTags(ours, mark, "team", "ml")}))
		}},
		{"attach a policy", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: s(nodeRole), PolicyArn: s(workerNode)}))
		}},
		{"attach the policy with a path", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: s(nodeRole), PolicyArn: s("arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy")}))
		}},
		{"change the trust", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: s(nodeRole), PolicyDocument: s(trustEC2)}))
		}},
		{"bound it again", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.PutRolePermissionsBoundary(ctx, &iam.PutRolePermissionsBoundaryInput{RoleName: s(nodeRole), PermissionsBoundary: s(ourBoundary)}))
		}},
		{"tag it", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.TagRole(ctx, &iam.TagRoleInput{RoleName: s(nodeRole), Tags: iamTags(whenGone, "Delete")}))
		}},
		{"untag it", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.UntagRole(ctx, &iam.UntagRoleInput{RoleName: s(nodeRole), TagKeys: []string{"team"}}))
		}},
		{"create the profile", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: s(nodeRole), Tags: iamTags(ours, mark, whenGone, "Delete")}))
		}},
		{"tag the profile", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.TagInstanceProfile(ctx, &iam.TagInstanceProfileInput{InstanceProfileName: s(nodeRole), Tags: iamTags("team", "ml")}))
		}},
		{"put the role into it", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: s(nodeRole), RoleName: s(nodeRole)}))
		}},
	}
}

func joiningSteps() []step {
	s := sdk.String
	arn := func(ctx context.Context, w *fixture) *string {
		out, err := w.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: s("sandbox"), PrincipalArn: s(nodesARN)})
		if err != nil {
			return nil
		}
		return out.AccessEntry.AccessEntryArn
	}
	return []step{
		{"create the access entry", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: s("sandbox"), PrincipalArn: s(nodesARN), Type: s("EC2_LINUX"), Tags: map[string]string{ours: mark}}))
		}},
		{"tag it", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: arn(ctx, w), Tags: map[string]string{whenGone: "Delete", "team": "ml"}}))
		}},
		{"untag it", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: arn(ctx, w), TagKeys: []string{"team"}}))
		}},
	}
}

func queueSteps() []step {
	s, mine := sdk.String, map[string]string{ours: mark, whenGone: "Delete"}
	events := func(w *fixture) *eventbridge.Client { return eventbridge.NewFromConfig(w.cfg) }
	arn := "arn:aws:events:us-east-1:000000000000:rule/" + ourRule
	return []step{
		{"create the queue that is there", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: s("sandbox"), Tags: mine}))
		}},
		{"claim it", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: s(ourQueue), Tags: mine}))
		}},
		{"change it", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: s(ourQueue), Attributes: map[string]string{"MessageRetentionPeriod": "600"}}))
		}},
		{"untag it", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.UntagQueue(ctx, &sqs.UntagQueueInput{QueueUrl: s(ourQueue), TagKeys: []string{"team"}}))
		}},
		{"put a rule", func(ctx context.Context, w *fixture) error {
			return drop(events(w).PutRule(ctx, &eventbridge.PutRuleInput{Name: s(ourRule), EventPattern: s(`{"source":["aws.ec2"]}`), Tags: []eventstypes.Tag{
				{Key: s(ours), Value: s(mark)}, {Key: s(whenGone), Value: s("Delete")}}}))
		}},
		{"aim it", func(ctx context.Context, w *fixture) error {
			return drop(events(w).PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: s(ourRule), Targets: []eventstypes.Target{{Id: s("q"), Arn: s("arn:aws:sqs:us-east-1:000000000000:sandbox")}}}))
		}},
		{"change it", func(ctx context.Context, w *fixture) error {
			return drop(events(w).PutRule(ctx, &eventbridge.PutRuleInput{Name: s(ourRule), EventPattern: s(`{"source":["aws.ec2"]}`), State: eventstypes.RuleStateEnabled}))
		}},
		{"tag the rule", func(ctx context.Context, w *fixture) error {
			return drop(events(w).TagResource(ctx, &eventbridge.TagResourceInput{ResourceARN: s(arn), Tags: []eventstypes.Tag{{Key: s("team"), Value: s("ml")}}}))
		}},
		{"untag the rule", func(ctx context.Context, w *fixture) error {
			return drop(events(w).UntagResource(ctx, &eventbridge.UntagResourceInput{ResourceARN: s(arn), TagKeys: []string{"team"}}))
		}},
		{"take the target away", func(ctx context.Context, w *fixture) error {
			return drop(events(w).RemoveTargets(ctx, &eventbridge.RemoveTargetsInput{Rule: s(ourRule), Ids: []string{"q"}}))
		}},
	}
}

func controlSteps() []step {
	s := sdk.String
	logs := func(w *fixture) *cloudwatchlogs.Client { return cloudwatchlogs.NewFromConfig(w.cfg) }
	return []step{
		{"turn logs on", func(ctx context.Context, w *fixture) error {
			return drop(w.logs(ctx, []ekstypes.LogType{"scheduler"}, nil))
		}},
		{"scale a node group", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{ClusterName: s("sandbox"), NodegroupName: s("system"), Labels: &ekstypes.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"a": "b"}}}))
		}},
		{"create the log group", func(ctx context.Context, w *fixture) error {
			err := drop(logs(w).CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: s(ourLogs), Tags: map[string]string{ours: mark}}))
			if code(err) == "ResourceAlreadyExistsException" {
				return nil
			}
			return err
		}},
		{"set its retention", func(ctx context.Context, w *fixture) error {
			return drop(logs(w).PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: s(ourLogs), RetentionInDays: sdk.Int32(30)}))
		}},
	}
}

func networkSteps() []step {
	marks := tags("karpenter.sh/discovery", "sandbox", "poolwright.dev/discovery/sandbox", "Delete")
	return []step{
		{"mark a subnet", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{ourSubnet}, Tags: marks}))
		}},
		{"mark a security group", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{"sg-0000000000000aaa1"}, Tags: marks}))
		}},
		{"take the mark off", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{"sg-0000000000000aaa1"}, Tags: []types.Tag{marks[0], {Key: marks[1].Key}}}))
		}},
	}
}

func readingSteps() []step {
	s := sdk.String
	return []step{
		{"read the role", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: s(controllerRole)}))
		}},
		{"read its policies", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: s(controllerRole)}))
		}},
		{"read its inline policies", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.ListRolePolicies(ctx, &iam.ListRolePoliciesInput{RoleName: s(controllerRole)}))
		}},
		{"read its profiles", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.ListInstanceProfilesForRole(ctx, &iam.ListInstanceProfilesForRoleInput{RoleName: s(nodeRole)}))
		}},
		{"read the boundary", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: s(ourBoundary)}))
		}},
		{"read its text", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: s(ourBoundary), VersionId: s("v1")}))
		}},
		{"read the associations", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{ClusterName: s("sandbox")}))
		}},
		{"read the quotas", func(ctx context.Context, w *fixture) error {
			return drop(servicequotas.NewFromConfig(w.cfg).ListServiceQuotas(ctx, &servicequotas.ListServiceQuotasInput{ServiceCode: s("ec2")}))
		}},
		{"read AWS's defaults", func(ctx context.Context, w *fixture) error {
			return drop(servicequotas.NewFromConfig(w.cfg).ListAWSDefaultServiceQuotas(ctx, &servicequotas.ListAWSDefaultServiceQuotasInput{ServiceCode: s("ec2")}))
		}},
		{"read what is used of them", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{}))
		}},
	}
}

func deletingSteps() []step {
	s := sdk.String
	return []step{
		{"delete the rule", func(ctx context.Context, w *fixture) error {
			return drop(eventbridge.NewFromConfig(w.cfg).DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: s(ourRule)}))
		}},
		{"delete the queue", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: s(ourQueue)}))
		}},
		{"delete the access entry", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: s("sandbox"), PrincipalArn: s(nodesARN)}))
		}},
		{"take the role out of the profile", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: s(nodeRole), RoleName: s(nodeRole)}))
		}},
		{"delete the profile", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: s(nodeRole)}))
		}},
		{"detach a policy", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: s(nodeRole), PolicyArn: s(workerNode)}))
		}},
		{"detach the other", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: s(nodeRole), PolicyArn: s("arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy")}))
		}},
		{"delete the role", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: s(nodeRole)}))
		}},
	}
}
