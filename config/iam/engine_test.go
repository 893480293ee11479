package iam

import (
	"testing"

	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
)

// TestTheEngineIsHeldToEachOfItsConditions takes one thing at a time away from
// calls that are allowed.
func TestTheEngineIsHeldToEachOfItsConditions(t *testing.T) {
	docs := []policy.Document{document(t, Engine)}
	const (
		here     = "arn:aws:ec2:us-east-1:000000000000:"
		profiles = "arn:aws:iam::000000000000:instance-profile/"
		path     = profiles + "karpenter/us-east-1/sandbox/u/p"

		requestOwned, requestCluster, requestPool = "aws:RequestTag/kubernetes.io/cluster/sandbox=owned", "aws:RequestTag/eks:eks-cluster-name=sandbox", "aws:RequestTag/karpenter.sh/nodepool=gpu"
		hasOwned, hasPool                         = "aws:ResourceTag/kubernetes.io/cluster/sandbox=owned", "aws:ResourceTag/karpenter.sh/nodepool=gpu"
		hasRegion, hasClass                       = "aws:ResourceTag/topology.kubernetes.io/region=us-east-1", "aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass=gpu"
	)
	for name, test := range map[string]struct {
		action, resource string
		needs            []string // without any one of them it is denied
		with             []string // must not change the decision
		denied           []string // with any one of them it is denied
	}{
		"launching":            {action: "ec2:RunInstances", resource: here + "instance/*", needs: []string{requestOwned, requestCluster, requestPool}},
		"making a template":    {action: "ec2:CreateLaunchTemplate", resource: here + "launch-template/*", needs: []string{requestOwned, requestPool}},
		"tagging a launch":     {action: "ec2:CreateTags", resource: here + "volume/*", needs: []string{requestOwned, "ec2:CreateAction=CreateFleet"}},
		"using a template":     {action: "ec2:CreateFleet", resource: here + "launch-template/lt-1", needs: []string{hasOwned, hasPool}},
		"ending an instance":   {action: "ec2:TerminateInstances", resource: here + "instance/i-1", needs: []string{hasOwned, hasPool}},
		"reading the region":   {action: "ec2:DescribeInstances", resource: "*", denied: []string{"aws:RequestedRegion=us-west-2"}},
		"reading quotas":       {action: "servicequotas:ListServiceQuotas", resource: "*", denied: []string{"aws:RequestedRegion=us-west-2"}},
		"AWS's default quotas": {action: "servicequotas:ListAWSDefaultServiceQuotas", resource: "*", denied: []string{"aws:RequestedRegion=us-west-2"}},
		"making a profile":     {action: "iam:CreateInstanceProfile", resource: path, needs: []string{requestOwned}},
		"changing its profile": {action: "iam:DeleteInstanceProfile", resource: path, needs: []string{hasOwned, hasRegion, hasClass}},
		"changing an old one":  {action: "iam:DeleteInstanceProfile", resource: profiles + "sandbox_1", needs: []string{hasOwned, hasRegion, hasClass}},
		"naming an instance": {
			action: "ec2:CreateTags", resource: here + "instance/i-1", needs: []string{hasOwned, hasPool, "aws:TagKeys=Name"},
			with: []string{requestCluster, "aws:TagKeys=karpenter.sh/nodeclaim"}, denied: []string{"aws:TagKeys=team", "aws:RequestTag/eks:eks-cluster-name=other"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			decide := func(want bool, pairs []string) {
				t.Helper()
				if d := policy.Evaluate(docs, nil, request(test.action, test.resource, pairs...)); d.Allowed != want {
					t.Errorf("with %q: %s", pairs, d)
				}
			}
			decide(true, test.needs)
			for i := range test.needs {
				decide(false, append(append([]string(nil), test.needs[:i]...), test.needs[i+1:]...))
			}
			for _, more := range test.with {
				decide(true, append(append([]string(nil), test.needs...), more))
			}
			for _, more := range test.denied {
				decide(false, append(append([]string(nil), test.needs...), more))
			}
		})
	}
}
