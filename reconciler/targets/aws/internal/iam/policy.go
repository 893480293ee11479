package iam

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/policydoc"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// Policies are the customer managed policies that bootstrap writes: what the
// controller's role may and must not do (loop, limits, engine), and what bounds the roles that it
// makes.
type Policies struct{}

// Desired implements resource.Kind.
func (Policies) Desired(s resource.Declaration) []state.Item {
	var out []state.Item
	n := policyNames(s.Scope)
	if own := s.Spec.ControllerRole; own != nil {
		management := v1alpha1.ManagementPolicy{Adopt: own.Adopt}
		out = append(out, policyItem(s, n.Boundary, management, iampolicy.Boundary), policyItem(s, n.Engine, management, iampolicy.Engine),
			policyItem(s, n.Deny, management, iampolicy.Deny), policyItem(s, n.Resources, management, iampolicy.Resources))
	} else if node := s.Spec.NodeRole; node != nil && node.PermissionsBoundary == n.Boundary {
		out = append(out, policyItem(s, n.Boundary, node.ManagementPolicy, iampolicy.Boundary))
	}
	return out
}

func policyItem(s resource.Declaration, name string, management v1alpha1.ManagementPolicy, write func(iampolicy.Values) (string, error)) state.Item {
	doc, err := policyDocument(s, name, write)
	item := byBootstrap(s, s.Owned(resource.Global("Policy", name), resource.WaveFirst, management, map[string]any{"document": doc}))
	if err != nil {
		item.ReadOnly = err.Error()
	}
	return item
}

// policyDocument is the canonical document of one of the policies.
func policyDocument(s resource.Declaration, name string, write func(iampolicy.Values) (string, error)) (map[string]any, error) {
	v := iampolicy.Values{Partition: s.Partition, Region: s.Region, Account: s.Account, Cluster: s.Cluster}
	node := s.Spec.NodeRole
	if node == nil {
		return nil, errors.New(needsNodes)
	}
	v.NodeRole, v.InstanceProfile, v.PermissionsBoundary = node.Name, node.InstanceProfile, node.PermissionsBoundary
	v.Queue = s.Cluster
	if s.Spec.InterruptionQueue != nil {
		v.Queue = s.Spec.InterruptionQueue.Name
	}
	if other := s.Spec.Engine.InterruptionQueue; other != "" && name == policyNames(s.Scope).Engine {
		v.Queue = other
	}
	if own := s.Spec.ControllerRole; own != nil {
		v.ControllerRole = own.Name
	}
	if d := s.Spec.Discovery; d != nil {
		v.DiscoveryKey, v.DiscoveryValue = d.Key, d.Value
		if d.Adopt {
			v.DiscoveryOld = "*"
		}
	}
	text, err := write(v)
	if err != nil {
		return nil, fmt.Errorf("writing the policy %s: %w", name, err)
	}
	return policydoc.Parse(text)
}

// Read implements resource.Kind.
func (Policies) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	return resource.Each(keys, func(k state.Key) (resource.Live, error) { return readPolicy(ctx, c, k.Name) })
}

func readPolicy(ctx context.Context, c *resource.Clients, name string) (resource.Live, error) {
	arn := sdk.String(c.Scope.IAMARN("policy/" + name))
	out, err := c.IAM.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: arn})
	if awserr.IsNotFound(err) {
		return resource.Live{}, nil
	}
	if err != nil {
		return resource.Live{}, fmt.Errorf("reading policy %q: %w", name, err)
	}
	version, err := c.IAM.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: arn, VersionId: out.Policy.DefaultVersionId})
	if awserr.IsNotFound(err) {
		return resource.Live{}, nil
	}
	if err != nil {
		return resource.Live{}, fmt.Errorf("reading version %s of policy %q: %w", sdk.ToString(out.Policy.DefaultVersionId), name, err)
	}
	doc, err := policydoc.Parse(sdk.ToString(version.PolicyVersion.Document))
	if err != nil {
		return resource.Live{}, fmt.Errorf("reading policy %q: %w", name, err)
	}
	observed := resource.Live{UID: *arn + "#" + sdk.ToString(out.Policy.PolicyId), Tags: fromIAMTags(out.Policy.Tags)}
	observed.Ours = c.Scope.Owns(observed.Tags)
	observed.Object = map[string]any{"document": doc, "tags": tag.Object(observed.Tags)}
	return observed, nil
}

// Write implements resource.Kind.
func (Policies) Write(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	name, arn := desired.Key.Name, c.Scope.IAMARN("policy/"+desired.Key.Name)
	text, err := policydoc.Text(desired.Object["document"])
	if err != nil {
		return err
	}
	if live.Object == nil {
		_, err := c.IAM.CreatePolicy(ctx, &iam.CreatePolicyInput{
			PolicyName: sdk.String(name), PolicyDocument: sdk.String(text), Tags: iamTags(tag.Declared(desired)),
			Description: sdk.String("Made by Poolwright for the EKS cluster " + c.Scope.Cluster),
		})
		if awserr.Exists(err) {
			return awserr.NotPropagated(err)
		}
		if err != nil {
			return fmt.Errorf("creating policy %q: %w", name, err)
		}
		return nil
	}
	if err := tagPolicy(ctx, c, desired, live); err != nil {
		return err
	}
	if state.Equal(desired.Object["document"], live.Object["document"]) {
		return nil
	}
	if err := pruneVersions(ctx, c, arn); err != nil {
		return err
	}
	_, err = c.IAM.CreatePolicyVersion(ctx, &iam.CreatePolicyVersionInput{PolicyArn: sdk.String(arn), PolicyDocument: sdk.String(text), SetAsDefault: true})
	if err != nil {
		return fmt.Errorf("changing policy %q: %w", name, err)
	}
	return nil
}

func tagPolicy(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	set, drop := tag.Diff(desired, live.Tags)
	if len(set) > 0 {
		if _, err := c.IAM.TagPolicy(ctx, &iam.TagPolicyInput{PolicyArn: sdk.String(c.Scope.IAMARN("policy/" + desired.Key.Name)), Tags: iamTags(set)}); err != nil {
			return fmt.Errorf("tagging policy %q: %w", desired.Key.Name, err)
		}
	}
	if len(drop) > 0 {
		if _, err := c.IAM.UntagPolicy(ctx, &iam.UntagPolicyInput{PolicyArn: sdk.String(c.Scope.IAMARN("policy/" + desired.Key.Name)), TagKeys: drop}); err != nil {
			return fmt.Errorf("untagging policy %q: %w", desired.Key.Name, err)
		}
	}
	return nil
}

// mostVersions is how many versions IAM keeps of a policy.
const mostVersions = 5

// pruneVersions deletes the oldest versions that are not in force, so that one more
// fits.
func pruneVersions(ctx context.Context, c *resource.Clients, arn string) error {
	idle, err := idleVersions(ctx, c, arn)
	if err != nil {
		return err
	}
	for len(idle) >= mostVersions-1 {
		if err := deleteVersion(ctx, c, arn, idle[0]); err != nil {
			return err
		}
		idle = idle[1:]
	}
	return nil
}

// idleVersions lists the versions that are not in force, oldest first.
func idleVersions(ctx context.Context, c *resource.Clients, arn string) ([]string, error) {
	var idle []iamtypes.PolicyVersion
	pages := iam.NewListPolicyVersionsPaginator(c.IAM, &iam.ListPolicyVersionsInput{PolicyArn: sdk.String(arn)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the versions of %s: %w", arn, err)
		}
		for _, v := range page.Versions {
			if !v.IsDefaultVersion {
				idle = append(idle, v)
			}
		}
	}
	// By number where a second holds several: v9 comes before v10.
	slices.SortFunc(idle, func(a, b iamtypes.PolicyVersion) int {
		if byTime := created(a).Compare(created(b)); byTime != 0 {
			return byTime
		}
		return versionNumber(a) - versionNumber(b)
	})
	out := make([]string, len(idle))
	for i, v := range idle {
		out[i] = sdk.ToString(v.VersionId)
	}
	return out, nil
}

func created(v iamtypes.PolicyVersion) time.Time { return sdk.ToTime(v.CreateDate) }

func versionNumber(v iamtypes.PolicyVersion) int {
	n := 0
	if _, err := fmt.Sscanf(sdk.ToString(v.VersionId), "v%d", &n); err != nil {
		return 0
	}
	return n
}

func deleteVersion(ctx context.Context, c *resource.Clients, arn, id string) error {
	_, err := c.IAM.DeletePolicyVersion(ctx, &iam.DeletePolicyVersionInput{PolicyArn: sdk.String(arn), VersionId: sdk.String(id)})
	if err != nil && !awserr.IsNotFound(err) {
		return fmt.Errorf("deleting version %s of %s: %w", id, arn, err)
	}
	return nil
}

// Remove deletes the policy with its versions, unless it still bounds a role:
// without its boundary a role could do all that its policies allow.
func (Policies) Remove(ctx context.Context, c *resource.Clients, k state.Key, _ resource.Live) error {
	arn := c.Scope.IAMARN("policy/" + k.Name)
	out, err := c.IAM.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: sdk.String(arn)})
	if awserr.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading policy %q: %w", k.Name, err)
	}
	if bound := sdk.ToInt32(out.Policy.PermissionsBoundaryUsageCount); bound > 0 {
		return fmt.Errorf("policy %q is still the permissions boundary of %d roles or users: delete them, or give them another boundary, first", k.Name, bound)
	}
	idle, err := idleVersions(ctx, c, arn)
	if awserr.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, id := range idle {
		if err := deleteVersion(ctx, c, arn, id); err != nil {
			return err
		}
	}
	_, err = c.IAM.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: sdk.String(arn)})
	if err != nil && !awserr.IsNotFound(err) {
		return fmt.Errorf("deleting policy %q: %w", k.Name, err)
	}
	return nil
}
