package iam

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
)

// These tests ask of the policies what the sandbox cannot ask: other regions,
// services that it does not emulate, and what bounds a node. What it can ask is in
// the tests of provision/sandbox/aws.

func document(t *testing.T, write func(Values) (string, error)) policy.Document {
	t.Helper()
	text, err := write(sandbox())
	if err != nil {
		t.Fatal(err)
	}
	d, err := policy.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// request reads "key=value" pairs; the region is ours where none is given.
func request(action, resource string, pairs ...string) policy.Request {
	r := policy.Request{Action: action, Resource: resource, Context: map[string][]string{"aws:RequestedRegion": {"us-east-1"}}}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		if key == "aws:RequestedRegion" {
			r.Context[key] = nil
		}
		r.Context[key] = append(r.Context[key], value)
	}
	return r
}

const (
	node     = "arn:aws:iam::000000000000:role/KarpenterNodeRole-sandbox"
	own      = "arn:aws:iam::000000000000:role/poolwright-sandbox-us-east-1"
	boundary = "arn:aws:iam::000000000000:policy/poolwright-boundary-sandbox-us-east-1"
	ourTag   = "aws:ResourceTag/poolwright.dev/cluster=us-east-1/sandbox"
	queue    = "arn:aws:sqs:us-east-1:000000000000:sandbox"
)

func TestTheControllerIsHeldToItsRegionAndRole(t *testing.T) {
	docs := []policy.Document{document(t, Resources), document(t, Deny), document(t, Engine)}
	owned := []string{"aws:ResourceTag/kubernetes.io/cluster/sandbox=owned", "aws:ResourceTag/karpenter.sh/nodepool=gpu"}
	west := "aws:RequestedRegion=us-west-2"
	for name, test := range map[string]struct {
		request policy.Request
		want    bool
	}{
		"our instance":                         {request("ec2:TerminateInstances", "arn:aws:ec2:us-east-1:000000000000:instance/i-1", owned...), true},
		"an instance of ours elsewhere":        {request("ec2:TerminateInstances", "arn:aws:ec2:us-west-2:000000000000:instance/i-1", append(owned, west)...), false},
		"an instance of another account":       {request("ec2:TerminateInstances", "arn:aws:ec2:us-east-1:999999999999:instance/i-1", owned...), false},
		"subnets here":                         {request("ec2:DescribeSubnets", "*"), true},
		"subnets elsewhere":                    {request("ec2:DescribeSubnets", "*", west), false},
		"our queue's name elsewhere":           {request("sqs:SetQueueAttributes", "arn:aws:sqs:us-west-2:000000000000:sandbox", west), false},
		"our rule's name elsewhere":            {request("events:PutRule", "arn:aws:events:us-west-2:000000000000:rule/poolwright-sandbox-a", west), false},
		"our cluster's name elsewhere":         {request("eks:UpdateClusterConfig", "arn:aws:eks:us-west-2:000000000000:cluster/sandbox", west), false},
		"prices, which are sold in few places": {request("pricing:GetProducts", "*", "aws:RequestedRegion=eu-central-1"), true},
		"a shared subnet of another account":   {request("ec2:RunInstances", "arn:aws:ec2:us-east-1:999999999999:subnet/subnet-1"), true},

		"an interruption's key":         {request("kms:Decrypt", "arn:aws:kms:us-east-1:000000000000:key/k", "kms:EncryptionContext:aws:sqs:arn="+queue), true},
		"another secret under that key": {request("kms:Decrypt", "arn:aws:kms:us-east-1:000000000000:key/k", "kms:EncryptionContext:aws:sqs:arn="+queue+"2"), false},
		"a secret without context":      {request("kms:Decrypt", "arn:aws:kms:us-east-1:000000000000:key/k"), false},

		"giving the node role to instances":                    {request("iam:PassRole", node, "iam:PassedToService=ec2.amazonaws.com"), true},
		"giving the node role to a function":                   {request("iam:PassRole", node, "iam:PassedToService=lambda.amazonaws.com"), false},
		"giving the own role to instances":                     {request("iam:PassRole", own, "iam:PassedToService=ec2.amazonaws.com"), false},
		"giving a role of that name's end":                     {request("iam:PassRole", "arn:aws:iam::000000000000:role/a/KarpenterNodeRole-sandbox", "iam:PassedToService=ec2.amazonaws.com"), false},
		"becoming another role":                                {request("sts:AssumeRole", node), false},
		"becoming an administrator":                            {request("iam:AttachRolePolicy", own, ourTag, "iam:PolicyARN=arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"), false},
		"widening the own policy":                              {request("iam:CreatePolicyVersion", "arn:aws:iam::000000000000:policy/poolwright-resources-sandbox-us-east-1", ourTag), false},
		"going back to an old policy":                          {request("iam:SetDefaultPolicyVersion", "arn:aws:iam::000000000000:policy/poolwright-resources-sandbox-us-east-1", ourTag), false},
		"making a user":                                        {request("iam:CreateUser", "arn:aws:iam::000000000000:user/a", "aws:RequestTag/poolwright.dev/cluster=us-east-1/sandbox"), false},
		"making a key":                                         {request("iam:CreateAccessKey", "arn:aws:iam::000000000000:user/a"), false},
		"trusting another issuer":                              {request("iam:CreateOpenIDConnectProvider", "arn:aws:iam::000000000000:oidc-provider/a"), false},
		"a policy of the same name of ours":                    {request("iam:AttachRolePolicy", node, ourTag, "iam:PolicyARN=arn:aws:iam::000000000000:policy/AmazonEKS_CNI_Policy"), false},
		"an allowed policy":                                    {request("iam:AttachRolePolicy", node, ourTag, "iam:PolicyARN=arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"), true},
		"an allowed policy on a role of another cluster":       {request("iam:AttachRolePolicy", node, "aws:ResourceTag/poolwright.dev/cluster=us-east-1/b", "iam:PolicyARN=arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"), false},
		"an allowed policy on a role that is not tagged":       {request("iam:AttachRolePolicy", node, "iam:PolicyARN=arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"), false},
		"taking a policy off, whichever it is":                 {request("iam:DetachRolePolicy", node, ourTag, "iam:PolicyARN=arn:aws:iam::aws:policy/AdministratorAccess"), true},
		"claiming the role of another cluster":                 {request("iam:TagRole", node, "aws:ResourceTag/poolwright.dev/cluster=us-east-1/b", "aws:RequestTag/poolwright.dev/cluster=us-east-1/sandbox"), false},
		"claiming the role of nobody":                          {request("iam:TagRole", node, "aws:RequestTag/poolwright.dev/cluster=us-east-1/sandbox"), true},
		"a profile under another cluster's path":               {request("iam:CreateInstanceProfile", "arn:aws:iam::000000000000:instance-profile/karpenter/us-east-1/b/u/p", "aws:RequestTag/kubernetes.io/cluster/sandbox=owned"), false},
		"a node group of a cluster whose name begins alike":    {request("eks:UpdateNodegroupConfig", "arn:aws:eks:us-east-1:000000000000:nodegroup/sandbox-2/g/u"), false},
		"the logs of a cluster whose name begins alike":        {request("logs:PutRetentionPolicy", "arn:aws:logs:us-east-1:000000000000:log-group:/aws/eks/sandbox-2/cluster"), false},
		"the logs as CloudWatch names them with all streams":   {request("logs:PutRetentionPolicy", "arn:aws:logs:us-east-1:000000000000:log-group:/aws/eks/sandbox/cluster:*"), true},
		"an access entry of another principal":                 {request("eks:DeleteAccessEntry", "arn:aws:eks:us-east-1:000000000000:access-entry/sandbox/role/000000000000/admin/u", ourTag), false},
		"more permissions for an access entry":                 {request("eks:AssociateAccessPolicy", "arn:aws:eks:us-east-1:000000000000:access-entry/sandbox/role/000000000000/KarpenterNodeRole-sandbox/u", ourTag), false},
		"tagging a new access entry, wherever EKS requires it": {request("eks:TagResource", "arn:aws:eks:us-east-1:000000000000:/createaccessentry", "aws:RequestTag/poolwright.dev/cluster=us-east-1/sandbox"), true},
		"tagging it where EKS names nothing":                   {request("eks:TagResource", "*", "aws:RequestTag/poolwright.dev/cluster=us-east-1/sandbox"), true},
		"tagging it for another cluster":                       {request("eks:TagResource", "*", "aws:RequestTag/poolwright.dev/cluster=us-east-1/b"), false},
		"tagging another cluster as ours":                      {request("eks:TagResource", "arn:aws:eks:us-east-1:000000000000:cluster/b", "aws:RequestTag/poolwright.dev/cluster=us-east-1/sandbox"), false},
		"tagging the cluster as ours":                          {request("eks:TagResource", "arn:aws:eks:us-east-1:000000000000:cluster/sandbox", "aws:RequestTag/poolwright.dev/cluster=us-east-1/sandbox"), false},
		"tagging another's access entry as ours":               {request("eks:TagResource", "arn:aws:eks:us-east-1:000000000000:access-entry/sandbox/role/000000000000/admin/u", "aws:RequestTag/poolwright.dev/cluster=us-east-1/sandbox"), false},
		"the queue of this name's cluster in another region":   {request("sqs:SetQueueAttributes", queue, "aws:ResourceTag/poolwright.dev/cluster=us-west-2/sandbox"), false},
		"deleting the role of the other region's cluster":      {request("iam:DeleteRole", node, "aws:ResourceTag/poolwright.dev/cluster=us-west-2/sandbox", "aws:ResourceTag/poolwright.dev/deletion-policy=Delete"), false},
		"deleting our role":                                    {request("iam:DeleteRole", node, ourTag, "aws:ResourceTag/poolwright.dev/deletion-policy=Delete"), true},
		"deleting the cluster":                                 {request("eks:DeleteCluster", "arn:aws:eks:us-east-1:000000000000:cluster/sandbox"), false},
		"reading user data":                                    {request("ec2:DescribeInstanceAttribute", "arn:aws:ec2:us-east-1:000000000000:instance/i-1", owned...), false},
	} {
		t.Run(name, func(t *testing.T) {
			if d := policy.Evaluate(docs, nil, test.request); d.Allowed != test.want {
				t.Error(d)
			}
		})
	}
}

// TestLoggingIsAllThatChangesOfTheCluster adds to an allowed call each setting
// for which EKS has a condition key.
func TestLoggingIsAllThatChangesOfTheCluster(t *testing.T) {
	docs := []policy.Document{document(t, Resources), document(t, Deny), document(t, Engine)}
	const cluster = "arn:aws:eks:us-east-1:000000000000:cluster/sandbox"
	if d := policy.Evaluate(docs, nil, request("eks:UpdateClusterConfig", cluster)); !d.Allowed {
		t.Error(d)
	}
	for _, key := range []string{
		"authenticationMode=API", "blockStorageEnabled=true", "computeConfigEnabled=false", "controlPlaneScalingTier=x", "deletionProtection=false",
		"elasticLoadBalancingEnabled=true", "endpointPrivateAccess=false", "endpointPublicAccess=true", "supportType=EXTENDED", "zonalShiftEnabled=true",
	} {
		if d := policy.Evaluate(docs, nil, request("eks:UpdateClusterConfig", cluster, "eks:"+key)); d.Allowed {
			t.Errorf("%s: %s", key, d)
		}
	}
}

func TestMarksOfOthersStay(t *testing.T) {
	own, adopting := sandbox(), sandbox()
	adopting.DiscoveryOld = "*"
	const (
		key, marker      = "karpenter.sh/discovery", "poolwright.dev/discovery/sandbox"
		send, has, owner = "aws:RequestTag/" + key, "aws:ResourceTag/" + key, "aws:ResourceTag/" + marker
	)
	keys := []string{"aws:TagKeys=" + key, "aws:TagKeys=" + marker}
	for name, test := range map[string]struct {
		action      string
		pairs       []string
		want, adopt bool
	}{
		"a subnet without marks":                      {"ec2:CreateTags", append(keys, send+"=sandbox"), true, true},
		"a subnet that has the tag already":           {"ec2:CreateTags", append(keys, send+"=sandbox", has+"=sandbox"), true, true},
		"another's tag":                               {"ec2:CreateTags", append(keys, send+"=sandbox", has+"=theirs"), false, true},
		"an old tag of ours":                          {"ec2:CreateTags", append(keys, send+"=sandbox", has+"=old", owner+"=Delete"), true, true},
		"a value that is not declared":                {"ec2:CreateTags", append(keys, send+"=theirs"), false, false},
		"the marker of another key":                   {"ec2:CreateTags", []string{"aws:TagKeys=" + marker + "/0a1b2c3d"}, true, true},
		"the marker of a cluster that begins alike":   {"ec2:CreateTags", []string{"aws:TagKeys=" + marker + "-2"}, false, false},
		"taking our marks off":                        {"ec2:DeleteTags", append(keys, has+"=sandbox", owner+"=Delete"), true, true},
		"taking another's mark off":                   {"ec2:DeleteTags", append(keys, has+"=theirs"), false, true},
		"taking a marker off that begins alike":       {"ec2:DeleteTags", []string{"aws:TagKeys=" + marker + "-2"}, false, false},
		"taking a value off that is not the declared": {"ec2:DeleteTags", append(keys, send+"=theirs", has+"=theirs"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, try := range []struct {
				v    Values
				want bool
			}{{own, test.want}, {adopting, test.adopt}} {
				var docs []policy.Document
				for _, write := range []func(Values) (string, error){Resources, Deny} {
					text, err := write(try.v)
					if err != nil {
						t.Fatal(err)
					}
					d, err := policy.Parse(text)
					if err != nil {
						t.Fatal(err)
					}
					docs = append(docs, d)
				}
				if d := policy.Evaluate(docs, nil, request(test.action, "arn:aws:ec2:us-east-1:000000000000:subnet/subnet-1", test.pairs...)); d.Allowed != try.want {
					t.Errorf("over %q: %s", try.v.DiscoveryOld, d)
				}
			}
		})
	}
}

// TestTheBoundaryLeavesNodesTheirWork asks for what the allowed policies give,
// each for what it is for, and for what no node must ever do.
func TestTheBoundaryLeavesNodesTheirWork(t *testing.T) {
	all, err := policy.Parse(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`)
	if err != nil {
		t.Fatal(err)
	}
	bound := document(t, Boundary)
	for _, action := range []string{
		"ec2:DescribeInstances", "ec2:DescribeVolumesModifications", "eks:DescribeCluster", "eks-auth:AssumeRoleForPodIdentity",
		"ecr:GetAuthorizationToken", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "ecr:BatchImportUpstreamImage", "ecr:DescribeImageScanFindings",
		"ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:ModifyNetworkInterfaceAttribute",
		"ssm:UpdateInstanceInformation", "ssm:DescribeAssociation", "ssm:DescribeDocument", "ssm:GetDeployablePatchSnapshotForInstance", "ssm:GetDocument", "ssm:GetManifest",
		"ssm:ListAssociations", "ssm:ListInstanceAssociations", "ssm:PutComplianceItems", "ssm:PutConfigurePackageResult", "ssm:PutInventory",
		"ssm:UpdateAssociationStatus", "ssm:UpdateInstanceAssociationStatus", "ssmmessages:OpenDataChannel", "ec2messages:GetMessages",
		"ec2:CreateVolume", "ec2:AttachVolume", "ec2:DetachVolume", "ec2:ModifyVolume", "ec2:DeleteVolume", "ec2:CreateSnapshot", "ec2:DeleteSnapshot",
		"cloudwatch:PutMetricData", "logs:DescribeLogGroups", "logs:DescribeLogStreams", "logs:CreateLogStream", "logs:PutLogEvents", "xray:PutTraceSegments", "xray:GetSamplingRules",
	} {
		if d := policy.Evaluate([]policy.Document{all}, &bound, request(action, "*")); !d.Allowed {
			t.Errorf("a node needs it: %s", d)
		}
	}
	for _, r := range []policy.Request{
		request("ssm:GetParameter", "arn:aws:ssm:us-east-1::parameter/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia/recommended/image_id"),
		request("ssm:GetParameters", "arn:aws:ssm:us-east-1::parameter/aws/service/bottlerocket/aws-k8s-1.34/x86_64/latest/image_id"),
		request("ssm:GetParameter", "arn:aws:ssm:us-east-1:000000000000:parameter/AmazonCloudWatch-linux"),
		request("logs:PutLogEvents", "arn:aws:logs:us-east-1:000000000000:log-group:/aws/containerinsights/sandbox/application:log-stream:a"),
	} {
		if d := policy.Evaluate([]policy.Document{all}, &bound, r); !d.Allowed {
			t.Errorf("a node needs it: %s", d)
		}
	}
	for _, r := range []policy.Request{
		request("ssm:GetParameter", "arn:aws:ssm:us-east-1:000000000000:parameter/database/password"), request("ssm:GetParameters", "arn:aws:ssm:us-east-1:000000000000:parameter/a"),
		request("ssm:GetParametersByPath", "arn:aws:ssm:us-east-1:000000000000:parameter/"), request("ssm:GetParameterHistory", "arn:aws:ssm:us-east-1:000000000000:parameter/a"),
		request("ssm:DescribeParameters", "*"), request("ssm:GetCommandInvocation", "*"), request("ssm:ListCommandInvocations", "*"),
		request("ec2:DescribeInstanceAttribute", "arn:aws:ec2:us-east-1:000000000000:instance/i-1"), request("ec2:DescribeLaunchTemplateVersions", "*"),
		request("logs:PutLogEvents", "arn:aws:logs:us-east-1:000000000000:log-group:/aws/eks/sandbox/cluster:log-stream:kube-apiserver-audit-1"),
		request("logs:PutRetentionPolicy", "arn:aws:logs:us-east-1:000000000000:log-group:/aws/eks/sandbox/cluster:*"),
		request("iam:CreateUser", "*"), request("iam:AttachRolePolicy", node), request("iam:PassRole", own), request("sts:AssumeRole", own),
		request("ec2:RunInstances", "arn:aws:ec2:us-east-1:000000000000:instance/*"), request("ec2:TerminateInstances", "arn:aws:ec2:us-east-1:000000000000:instance/i-1"),
		request("ec2:CreateTags", "arn:aws:ec2:us-east-1:000000000000:instance/i-1"), request("ec2:CreateTags", "arn:aws:ec2:us-east-1:000000000000:subnet/s"),
		request("ec2:CreateVolume", "*", "aws:RequestedRegion=us-west-2"), request("eks:CreateAccessEntry", "*"), request("eks:UpdateClusterConfig", "*"),
		request("s3:GetObject", "arn:aws:s3:::b/o"), request("secretsmanager:GetSecretValue", "*"), request("kms:Decrypt", "*"),
		request("ecr:PutImage", "*"), request("ecr:DeleteRepository", "*"), request("sqs:DeleteQueue", queue), request("ssm:SendCommand", "*"), request("ssm:PutParameter", "*"),
		request("logs:DeleteLogGroup", "*"), request("organizations:LeaveOrganization", "*"),
	} {
		if d := policy.Evaluate([]policy.Document{all}, &bound, r); d.Allowed {
			t.Errorf("no node needs it: %s", d)
		}
	}
}

// TestTheAllowListIsThatOfTheAPI compares the policies that the controller may attach
// with those that a Cluster may name.
func TestTheAllowListIsThatOfTheAPI(t *testing.T) {
	loop := []policy.Document{document(t, Resources), document(t, Deny)}
	for _, name := range nodePolicies(t) {
		arns := 0
		for _, path := range []string{"", "service-role/"} {
			arn := "arn:aws:iam::aws:policy/" + path + name
			if policy.Evaluate(loop, nil, request("iam:AttachRolePolicy", node, ourTag, "iam:PolicyARN="+arn)).Allowed {
				arns++
			}
		}
		if arns != 1 {
			t.Errorf("the controller may attach %s under %d ARNs, not under one", name, arns)
		}
	}
	for _, name := range []string{"AmazonEKSWorkerNodeAdminPolicy", "AmazonEKSClusterPolicy", "AmazonEC2ContainerRegistryFullAccess", "AmazonEC2ContainerRegistryPowerUser", "PowerUserAccess", "IAMFullAccess"} {
		if d := policy.Evaluate(loop, nil, request("iam:AttachRolePolicy", node, ourTag, "iam:PolicyARN=arn:aws:iam::aws:policy/"+name)); d.Allowed {
			t.Error(d)
		}
	}
}

// nodePolicies reads the enumeration of the CRD.
func nodePolicies(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile("../crd/poolwright.dev_clusters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd any
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	list := find(crd, "AmazonEKSWorkerNodePolicy")
	if len(list) == 0 {
		t.Fatal("the CRD has no enumeration of node policies")
	}
	return list
}

// find looks for the enumeration that holds a value.
func find(v any, value string) []string {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if out := find(e, value); out != nil {
				return out
			}
		}
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			} else if found := find(e, value); found != nil {
				return found
			}
		}
		if slices.Contains(out, value) {
			return out
		}
	}
	return nil
}
