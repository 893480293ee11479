package aws

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

	permissions "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// What the kinds of identity (policies, roles, instance profiles, access
// entries, pod identity) have in common: their names, and how tags move.

// onlyBootstrap is why the controller's own identity is only compared: who
// could write it could give itself any power.
const onlyBootstrap = "run `poolwright bootstrap` again: the running controller never writes its own role"

// needsNodes is why nothing of the controller's identity is written for a
// Cluster without a node role.
const needsNodes = "the controller's policies name the nodes' role: declare spec.nodeRole"

// own marks a part of the controller's own identity.
func (s scope) own(item state.Item) state.Item {
	switch {
	case !s.bootstrap:
		item.CompareOnly = onlyBootstrap
	case s.spec.NodeRole == nil:
		item.CompareOnly = needsNodes
	}
	return item
}

// names are those of the role and the policies that bootstrap writes.
func (p place) names() permissions.Names { return permissions.NamesOf(p.Cluster, p.Region) }

// powers are the ARNs of the policies of the controller's own role, sorted,
// which is good: what denies is attached before what it bounds.
func (p place) powers() []string {
	n := p.names()
	return []string{p.iamARN("policy/" + n.Engine), p.iamARN("policy/" + n.Limits), p.iamARN("policy/" + n.Loop)}
}

// roleName is the name of a role of this account; the whole ARN for another's.
func (p place) roleName(arn string) string {
	path, ok := strings.CutPrefix(arn, p.iamARN("role/"))
	if !ok {
		return arn
	}
	return path[strings.LastIndex(path, "/")+1:]
}

// roleARN asks for the ARN of a role, because adopted roles may have a path.
func (c *clients) roleARN(ctx context.Context, name string) (string, error) {
	out, err := c.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: sdk.String(name)})
	if gone(err) {
		return "", notYet(err)
	}
	if err != nil {
		return "", fmt.Errorf("reading role %q: %w", name, err)
	}
	return sdk.ToString(out.Role.Arn), nil
}

// unknownRole is how EKS words that it has not heard of a role; the code alone
// is that of every mistake.
var unknownRole = regexp.MustCompile(`(?i)(role|principal).*(does not exist|not found|cannot be found|could not be found|invalid principal|is invalid)`)

// unheard reports whether EKS refuses a role that was made a moment ago.
func unheard(err error) bool {
	var said smithy.APIError
	return errors.As(err, &said) && said.ErrorCode() == "InvalidParameterException" && unknownRole.MatchString(said.ErrorMessage())
}

// issuer is the cluster's OIDC issuer without its scheme.
func (c *clients) issuer(ctx context.Context) (string, error) {
	out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String(c.place.Cluster)})
	if err != nil {
		return "", fmt.Errorf("reading the OIDC issuer of cluster %q: %w", c.place.Cluster, err)
	}
	if out.Cluster == nil || out.Cluster.Identity == nil || out.Cluster.Identity.Oidc == nil {
		return "", nil
	}
	return strings.TrimPrefix(sdk.ToString(out.Cluster.Identity.Oidc.Issuer), "https://"), nil
}

// retagged is which tags to set and which to take away so that the live ones
// become the wanted ones. Others' tags stay; of ours, only the deletion policy
// can have become too much, when the part was adopted since.
func retagged(wanted state.Item, live liveResource) (set map[string]string, drop []string) {
	want := tagsOf(wanted)
	set = map[string]string{}
	for k, v := range want {
		if have, ok := live.tags[k]; !ok || have != v {
			set[k] = v
		}
	}
	if _, has := live.tags[policyTag]; has {
		if _, wants := want[policyTag]; !wants {
			drop = append(drop, policyTag)
		}
	}
	return set, drop
}

// iamTags are tags as IAM takes them, sorted.
func iamTags(tags map[string]string) []iamtypes.Tag {
	var out []iamtypes.Tag
	for _, k := range sortedKeys(tags) {
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
func (c *clients) tagEKS(ctx context.Context, wanted state.Item, live liveResource) error {
	arn, _, _ := strings.Cut(live.uid, "#")
	set, drop := retagged(wanted, live)
	if len(set) > 0 {
		if _, err := c.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: sdk.String(arn), Tags: set}); err != nil {
			return fmt.Errorf("tagging %s: %w", arn, err)
		}
	}
	if len(drop) > 0 {
		if _, err := c.eks.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: sdk.String(arn), TagKeys: drop}); err != nil {
			return fmt.Errorf("untagging %s: %w", arn, err)
		}
	}
	return nil
}

// nodePolicies is the allow-list: every managed policy that a node role may
// have, with the path of its ARN.
func nodePolicies() map[v1alpha1.NodePolicy]string {
	return map[v1alpha1.NodePolicy]string{
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
	return strings.Join(texts(slices.Sorted(maps.Keys(nodePolicies()))), ", ")
}

// attachable refuses policies outside of the allow-list, whatever the wanted
// object says.
func (p place) attachable(arn string) error {
	for _, path := range nodePolicies() {
		if arn == p.awsPolicyARN(path) {
			return nil
		}
	}
	if slices.Contains(p.powers(), arn) {
		return nil
	}
	return fmt.Errorf("policy %s must not be attached: a node role may have %s", arn, allowList())
}
