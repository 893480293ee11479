package iam

import (
	"testing"

	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
)

func TestAReporterReadsWhatIsDeclaredAndNoMore(t *testing.T) {
	docs := []policy.Document{document(t, Report)}
	const (
		rule = "arn:aws:events:us-east-1:000000000000:rule/poolwright-sandbox-a"
		logs = "arn:aws:logs:us-east-1:000000000000:log-group:/aws/eks/sandbox/cluster"
		eks  = "arn:aws:eks:us-east-1:000000000000:"
	)
	for _, r := range []policy.Request{
		request("sqs:GetQueueUrl", queue), request("sqs:GetQueueAttributes", queue), request("sqs:ListQueueTags", queue),
		request("events:ListRules", "*"), request("events:ListTargetsByRule", rule), request("events:ListTagsForResource", rule),
		request("logs:DescribeLogGroups", "*"), request("logs:ListTagsForResource", logs), request("eks:DescribeCluster", eks+"cluster/sandbox"),
		request("eks:DescribeNodegroup", eks+"nodegroup/sandbox/g/u"), request("iam:GetRole", own), request("ec2:DescribeSubnets", "*"),
		request("servicequotas:ListServiceQuotas", "*"), request("pricing:GetProducts", "*", "aws:RequestedRegion=eu-central-1"),
	} {
		if d := policy.Evaluate(docs, nil, r); !d.Allowed {
			t.Error(d)
		}
	}
	for _, r := range []policy.Request{
		request("ec2:DescribeSubnets", "*", "aws:RequestedRegion=us-west-2"), request("ec2:DescribeInstanceAttribute", "*"),
		request("eks:DescribeCluster", eks+"cluster/other"), request("sqs:ReceiveMessage", queue), request("sqs:GetQueueAttributes", queue+"2"),
		request("logs:GetLogEvents", logs), request("logs:ListTagsForResource", logs+"2"), request("events:PutRule", rule), request("ssm:GetParameter", "*"),
		request("eks:UpdateClusterConfig", eks+"cluster/sandbox"), request("iam:TagRole", own), request("ec2:CreateTags", "*"),
	} {
		if d := policy.Evaluate(docs, nil, r); d.Allowed {
			t.Error(d)
		}
	}
}
