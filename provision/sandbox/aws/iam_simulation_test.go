package aws_test

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"
)

func TestASimulationDecidesByTheRolesPoliciesAndItsBoundary(t *testing.T) {
	w := newFixture(t, nil)
	ctx, name := t.Context(), sdk.String("controller")
	policyOf := func(name, document string) *string {
		out, err := w.iam.CreatePolicy(ctx, &iam.CreatePolicyInput{PolicyName: &name, PolicyDocument: &document})
		ok(t, err)
		return out.Policy.Arn
	}
	statement := func(effect, action, rest string) string {
		return `{"Version":"2012-10-17","Statement":[{"Effect":"` + effect + `","Action":"` + action + `","Resource":"*"` + rest + `}]}`
	}
	made, err := w.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: name, AssumeRolePolicyDocument: sdk.String(trustEC2),
		PermissionsBoundary: policyOf("bound", statement("Allow", "ec2:*", ""))})
	ok(t, err)
	ok(t, drop(w.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: name, PolicyName: sdk.String("inline"),
		PolicyDocument: sdk.String(statement("Allow", "ec2:Describe*", `,"Condition":{"StringEquals":{"aws:RequestedRegion":"eu-west-1"}}`))})))
	for policy, document := range map[string]string{
		"one":  `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["ec2:StopInstances","sqs:GetQueueUrl"],"Resource":"arn:aws:ec2:eu-west-1:111122223333:instance/i-1"}]}`,
		"deny": statement("Deny", "ec2:DescribeImages", ""),
	} {
		ok(t, drop(w.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: name, PolicyArn: policyOf(policy, document)})))
	}
	simulate := func(role *string, actions, resources []string, region string) (map[string]string, error) {
		in := &iam.SimulatePrincipalPolicyInput{PolicySourceArn: role, ActionNames: actions, ResourceArns: resources}
		if region != "" {
			in.ContextEntries = []iamtypes.ContextEntry{{ContextKeyName: sdk.String("aws:RequestedRegion"), ContextKeyType: iamtypes.ContextKeyTypeEnumString, ContextKeyValues: []string{region}}}
		}
		out, err := w.iam.SimulatePrincipalPolicy(ctx, in)
		if err != nil {
			return nil, err
		}
		got := map[string]string{}
		for _, r := range out.EvaluationResults {
			got[*r.EvalActionName] = string(r.EvalDecision)
			for _, one := range r.ResourceSpecificResults {
				got[*r.EvalActionName+" on "+*one.EvalResourceName] = string(one.EvalResourceDecision)
			}
		}
		return got, nil
	}
	got, err := simulate(made.Role.Arn, []string{"ec2:DescribeSubnets", "ec2:DescribeImages", "ec2:RunInstances"}, nil, "eu-west-1")
	ok(t, err)
	if d := cmp.Diff(map[string]string{"ec2:DescribeSubnets": "allowed", "ec2:DescribeImages": "explicitDeny", "ec2:RunInstances": "implicitDeny"}, got); d != "" {
		t.Error(d)
	}
	got, err = simulate(made.Role.Arn, []string{"ec2:DescribeSubnets", "sqs:GetQueueUrl"}, []string{"arn:aws:ec2:eu-west-1:111122223333:instance/i-1"}, "")
	ok(t, err)
	if d := cmp.Diff(map[string]string{"ec2:DescribeSubnets": "implicitDeny", "sqs:GetQueueUrl": "implicitDeny"}, got); d != "" {
		t.Errorf("without the region, and beyond the boundary:\n%s", d)
	}
	got, err = simulate(made.Role.Arn, []string{"ec2:StopInstances"}, []string{"arn:aws:ec2:eu-west-1:111122223333:instance/i-1", "arn:aws:ec2:eu-west-1:111122223333:instance/i-2"}, "")
	ok(t, err)
	if d := cmp.Diff(map[string]string{"ec2:StopInstances": "implicitDeny", "ec2:StopInstances on arn:aws:ec2:eu-west-1:111122223333:instance/i-1": "allowed",
		"ec2:StopInstances on arn:aws:ec2:eu-west-1:111122223333:instance/i-2": "implicitDeny"}, got); d != "" {
		t.Error(d)
	}
	_, err = simulate(sdk.String("arn:aws:iam::111122223333:role/nobody"), []string{"ec2:StopInstances"}, nil, "")
	wantCode(t, err, "NoSuchEntity")
	_, err = simulate(made.Role.Arn, []string{"ec2:Describe*"}, nil, "")
	wantCode(t, err, "InvalidInput")
}
