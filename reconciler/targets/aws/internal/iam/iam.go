// Package iam has the kinds of AWS resources that give nodes and the controller their
// identity: IAM policies, roles and instance profiles, EKS access entries and pod identity
// associations. It writes nothing of the controller's own identity unless bootstrap does. Start
// reading at Roles.
package iam

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/smithy-go"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// OnlyBootstrap is why the controller's own identity is read-only: who
// could write it could give itself any power.
const OnlyBootstrap = "run `poolwright bootstrap` again: the running controller never writes its own role"

// needsNodes is why nothing of the controller's identity is written for a
// Cluster without a node role.
const needsNodes = "the controller's policies name the nodes' role: declare spec.nodeRole"

// byBootstrap marks what belongs to the controller's own identity.
func byBootstrap(s resource.Declaration, item state.Item) state.Item {
	switch {
	case !s.Bootstrap:
		item.ReadOnly = OnlyBootstrap
	case s.Spec.NodeRole == nil:
		item.ReadOnly = needsNodes
	}
	return item
}

// policyNames are those of the role and the policies that bootstrap writes.
func policyNames(p resource.Scope) iampolicy.Names { return iampolicy.NamesOf(p.Cluster, p.Region) }

// controllerPolicies are the ARNs of the policies of the controller's own role, sorted.
func controllerPolicies(p resource.Scope) []string {
	n := policyNames(p)
	return []string{p.IAMARN("policy/" + n.Deny), p.IAMARN("policy/" + n.Engine), p.IAMARN("policy/" + n.Resources)}
}

// roleName is the name of a role of this account; the whole ARN for another's.
func roleName(p resource.Scope, arn string) string {
	path, ok := strings.CutPrefix(arn, p.IAMARN("role/"))
	if !ok {
		return arn
	}
	return path[strings.LastIndex(path, "/")+1:]
}

// roleARN reads the ARN of a role, because adopted roles may have a path.
func roleARN(ctx context.Context, c *resource.Clients, name string) (string, error) {
	out, err := c.IAM.GetRole(ctx, &iam.GetRoleInput{RoleName: sdk.String(name)})
	if awserr.IsNotFound(err) {
		return "", awserr.NotPropagated(err)
	}
	if err != nil {
		return "", fmt.Errorf("reading role %q: %w", name, err)
	}
	return sdk.ToString(out.Role.Arn), nil
}

// unknownRole is EKS's message for a role that IAM has not propagated yet. Its code, InvalidParameterException, is that of
// every parameter, and the exception has no field that names the role.
var unknownRole = regexp.MustCompile(`(?i)(role|principal).*(does not exist|not found|cannot be found|could not be found|invalid principal|is invalid)`)

// roleNotPropagated reports whether EKS refuses a role that was made a moment ago.
func roleNotPropagated(err error) bool {
	var apiErr smithy.APIError
	return errors.As(err, &apiErr) && apiErr.ErrorCode() == "InvalidParameterException" && unknownRole.MatchString(apiErr.ErrorMessage())
}

// oidcIssuer is the cluster's OIDC issuer without its scheme.
func oidcIssuer(ctx context.Context, c *resource.Clients) (string, error) {
	out, err := c.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String(c.Scope.Cluster)})
	if err != nil {
		return "", fmt.Errorf("reading the OIDC issuer of cluster %q: %w", c.Scope.Cluster, err)
	}
	if out.Cluster == nil || out.Cluster.Identity == nil || out.Cluster.Identity.Oidc == nil {
		return "", nil
	}
	return strings.TrimPrefix(sdk.ToString(out.Cluster.Identity.Oidc.Issuer), "https://"), nil
}

// iamTags are tags as IAM takes them, sorted.
func iamTags(tags map[string]string) []iamtypes.Tag {
	var out []iamtypes.Tag
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, iamtypes.Tag{Key: sdk.String(k), Value: sdk.String(tags[k])})
	}
	return out
}

func fromIAMTags(tags []iamtypes.Tag) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	out := make(map[string]string, len(tags))
	for _, t := range tags {
		out[sdk.ToString(t.Key)] = sdk.ToString(t.Value)
	}
	return out
}

// tagEKS brings the tags of an EKS resource in line.
func tagEKS(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	arn, _, _ := strings.Cut(live.UID, "#")
	set, drop := tag.Diff(desired, live.Tags)
	if len(set) > 0 {
		if _, err := c.EKS.TagResource(ctx, &eks.TagResourceInput{ResourceArn: sdk.String(arn), Tags: set}); err != nil {
			return fmt.Errorf("tagging %s: %w", arn, err)
		}
	}
	if len(drop) > 0 {
		if _, err := c.EKS.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: sdk.String(arn), TagKeys: drop}); err != nil {
			return fmt.Errorf("untagging %s: %w", arn, err)
		}
	}
	return nil
}

// nodePolicies is the allow-list: every managed policy that a node role may
// have, with the path of its ARN.
func nodePolicies() map[v1alpha1.ManagedPolicyName]string {
	return map[v1alpha1.ManagedPolicyName]string{
		"AmazonEKSWorkerNodePolicy":          "AmazonEKSWorkerNodePolicy",
		"AmazonEKSWorkerNodeMinimalPolicy":   "AmazonEKSWorkerNodeMinimalPolicy",
		"AmazonEKS_CNI_Policy":               "AmazonEKS_CNI_Policy",
		"AmazonEC2ContainerRegistryReadOnly": "AmazonEC2ContainerRegistryReadOnly",
		"AmazonEC2ContainerRegistryPullOnly": "AmazonEC2ContainerRegistryPullOnly",
		"AmazonSSMManagedInstanceCore":       "AmazonSSMManagedInstanceCore",
		"AmazonEBSCSIDriverPolicy":           "service-role/AmazonEBSCSIDriverPolicy",
		"CloudWatchAgentServerPolicy":        "CloudWatchAgentServerPolicy",
	}
}

// allowList writes the names that a node role may have.
func allowList() string {
	var names []string
	for _, n := range slices.Sorted(maps.Keys(nodePolicies())) {
		names = append(names, string(n))
	}
	return strings.Join(names, ", ")
}

// attachable refuses policies outside of the allow-list, whatever the desired
// object has.
func attachable(p resource.Scope, arn string) error {
	for _, path := range nodePolicies() {
		if arn == p.ManagedPolicyARN(path) {
			return nil
		}
	}
	if slices.Contains(controllerPolicies(p), arn) {
		return nil
	}
	return fmt.Errorf("policy %s must not be attached: a node role may have %s", arn, allowList())
}
