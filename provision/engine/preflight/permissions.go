package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Caller is who the credentials of a configuration are of.
type Caller struct {
	// Account is the twelve-digit account, ARN the user, or the session of a role.
	Account, ARN string
}

// ReadCaller requests who the credentials are of, which AWS denies nobody. Without a region it is one that every
// account has.
func ReadCaller(ctx context.Context, cfg aws.Config) (Caller, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	out, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return Caller{}, fmt.Errorf("reading who the AWS credentials are of: %w", err)
	}
	return Caller{Account: aws.ToString(out.Account), ARN: aws.ToString(out.Arn)}, nil
}

// PodIdentityRole is the ARN of the role that an EKS Pod Identity association gives a service account; empty where
// there is none.
func PodIdentityRole(ctx context.Context, cfg aws.Config, cluster, namespace, serviceAccount string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	client := eks.NewFromConfig(cfg)
	list, err := client.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{ClusterName: &cluster, Namespace: &namespace, ServiceAccount: &serviceAccount})
	if err != nil {
		return "", fmt.Errorf("listing the EKS Pod Identity associations of cluster %s: %w", cluster, err)
	}
	if len(list.Associations) == 0 {
		return "", nil
	}
	id := list.Associations[0].AssociationId
	one, err := client.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{ClusterName: &cluster, AssociationId: id})
	if err != nil {
		return "", fmt.Errorf("describing EKS Pod Identity association %s: %w", aws.ToString(id), err)
	}
	if one.Association == nil {
		return "", nil
	}
	return aws.ToString(one.Association.RoleArn), nil
}

// Permission is what a statement of a policy allows: each action on one of the resources at least.
type Permission struct{ Actions, Resources []string }

// Permissions are the statements of a policy document that allow without a condition, or in one region: what a
// simulation decides as AWS does. Those that depend on tags are left out, as are actions with a wildcard, which IAM
// does not simulate. The document is one of config/iam: another form of it is an error.
func Permissions(document string) ([]Permission, error) {
	var policy struct {
		Statement []struct {
			Effect           string
			Action, Resource oneOrMore
			Condition        map[string]map[string]any
		}
	}
	if err := json.Unmarshal([]byte(document), &policy); err != nil {
		return nil, fmt.Errorf("reading the policy: %w", err)
	}
	var out []Permission
	for _, statement := range policy.Statement {
		actions := slices.DeleteFunc(statement.Action, func(action string) bool { return strings.Contains(action, "*") })
		if statement.Effect == "Allow" && onlyRegion(statement.Condition) && len(actions) > 0 {
			out = append(out, Permission{Actions: actions, Resources: statement.Resource})
		}
	}
	return out, nil
}

// oneOrMore is a list in a policy document, which may be written as one value.
type oneOrMore []string

// UnmarshalJSON implements json.Unmarshaler.
func (m *oneOrMore) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*m = oneOrMore{""}
		return json.Unmarshal(raw, &(*m)[0])
	}
	return json.Unmarshal(raw, (*[]string)(m))
}

// onlyRegion reports whether a statement has no other condition than one of the region.
func onlyRegion(condition map[string]map[string]any) bool {
	if len(condition) == 0 {
		return true
	}
	equals := condition["StringEquals"]
	return equals[requestedRegion] != nil && len(condition) == 1 && len(equals) == 1
}

// requestedRegion is the condition key of the region that a request goes to.
const requestedRegion = "aws:RequestedRegion"

// DeniedActions has IAM simulate the permissions for a role, and returns the actions that its policies and its boundary
// deny in the configuration's region, sorted, and how many were simulated. Policies of the organization are not part of a simulation. It requires
// iam:SimulatePrincipalPolicy on the role, of the credentials of the configuration.
func DeniedActions(ctx context.Context, cfg aws.Config, role string, permissions []Permission) (denied []string, simulated int, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	client, allowed := iam.NewFromConfig(cfg), map[string]bool{}
	for _, permission := range permissions {
		if err := simulate(ctx, client, role, cfg.Region, permission, allowed); err != nil {
			return nil, 0, err
		}
	}
	for action, is := range allowed {
		if !is {
			denied = append(denied, action)
		}
	}
	slices.Sort(denied)
	return denied, len(allowed), nil
}

// simulate adds to allowed each action of a permission, and whether it is allowed on one of the resources.
// Without the region a statement that denies all other regions would deny it.
func simulate(ctx context.Context, client *iam.Client, role, region string, permission Permission, allowed map[string]bool) error {
	in := &iam.SimulatePrincipalPolicyInput{PolicySourceArn: &role, ActionNames: permission.Actions, ResourceArns: permission.Resources,
		ContextEntries: []iamtypes.ContextEntry{{ContextKeyName: aws.String(requestedRegion), ContextKeyType: iamtypes.ContextKeyTypeEnumString, ContextKeyValues: []string{region}}}}
	for _, action := range permission.Actions {
		if _, known := allowed[action]; !known {
			allowed[action] = false
		}
	}
	pages := iam.NewSimulatePrincipalPolicyPaginator(client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("simulating the permissions of %s: %w", role, err)
		}
		for _, result := range page.EvaluationResults {
			i := slices.IndexFunc(permission.Actions, func(action string) bool { return strings.EqualFold(action, aws.ToString(result.EvalActionName)) })
			if i >= 0 && allows(result) {
				allowed[permission.Actions[i]] = true
			}
		}
	}
	return nil
}

// allows reports whether a result allows the action on one of its resources.
func allows(result iamtypes.EvaluationResult) bool {
	if result.EvalDecision == iamtypes.PolicyEvaluationDecisionTypeAllowed {
		return true
	}
	return slices.ContainsFunc(result.ResourceSpecificResults, func(r iamtypes.ResourceSpecificResult) bool {
		return r.EvalResourceDecision == iamtypes.PolicyEvaluationDecisionTypeAllowed
	})
}
