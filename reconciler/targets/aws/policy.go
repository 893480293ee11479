package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	permissions "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// policies are the customer managed policies that bootstrap writes: what the
// controller's role may and must not do (loop, limits, engine), and what bounds the roles that it
// makes.
type policies struct{}

func (policies) want(s scope) []state.Item {
	var out []state.Item
	n := s.names()
	if own := s.spec.ControllerRole; own != nil {
		part := v1alpha1.Part{Adopt: own.Adopt}
		out = append(out, s.policy(n.Boundary, part, permissions.Boundary), s.policy(n.Engine, part, permissions.Engine),
			s.policy(n.Limits, part, permissions.Limits), s.policy(n.Loop, part, permissions.Loop))
	} else if node := s.spec.NodeRole; node != nil && node.PermissionsBoundary == n.Boundary {
		out = append(out, s.policy(n.Boundary, node.Part, permissions.Boundary))
	}
	return out
}

func (s scope) policy(name string, part v1alpha1.Part, write func(permissions.Values) (string, error)) state.Item {
	doc, err := s.permissions(name, write)
	item := s.own(s.made(global("Policy", name), waveFirst, part, map[string]any{"document": doc}))
	if err != nil {
		item.CompareOnly = err.Error()
	}
	return item
}

// permissions is the canonical document of one of the policies.
func (s scope) permissions(name string, write func(permissions.Values) (string, error)) (map[string]any, error) {
	v := permissions.Values{Partition: s.Partition, Region: s.Region, Account: s.Account, Cluster: s.Cluster}
	node := s.spec.NodeRole
	if node == nil {
		return nil, errors.New(needsNodes)
	}
	v.NodeRole, v.InstanceProfile, v.PermissionsBoundary = node.Name, node.InstanceProfile, node.PermissionsBoundary
	v.Queue = s.Cluster
	if s.spec.InterruptionQueue != nil {
		v.Queue = s.spec.InterruptionQueue.Name
	}
	if other := s.spec.Engine.InterruptionQueue; other != "" && name == s.names().Engine {
		v.Queue = other
	}
	if own := s.spec.ControllerRole; own != nil {
		v.ControllerRole = own.Name
	}
	if d := s.spec.Discovery; d != nil {
		v.DiscoveryKey, v.DiscoveryValue = d.Key, d.Value
		if d.Adopt {
			v.DiscoveryOld = "*"
		}
	}
	text, err := write(v)
	if err != nil {
		return nil, fmt.Errorf("writing the policy %s: %w", name, err)
	}
	return document(text)
}

func (policies) read(ctx context.Context, c *clients, keys []state.Key) map[state.Key]liveResource {
	return oneByOne(keys, func(k state.Key) (liveResource, error) { return readPolicy(ctx, c, k.Name) })
}

func readPolicy(ctx context.Context, c *clients, name string) (liveResource, error) {
	arn := sdk.String(c.place.iamARN("policy/" + name))
	out, err := c.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: arn})
	if gone(err) {
		return liveResource{}, nil
	}
	if err != nil {
		return liveResource{}, fmt.Errorf("reading policy %q: %w", name, err)
	}
	version, err := c.iam.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: arn, VersionId: out.Policy.DefaultVersionId})
	if gone(err) {
		return liveResource{}, nil
	}
	if err != nil {
		return liveResource{}, fmt.Errorf("reading version %s of policy %q: %w", sdk.ToString(out.Policy.DefaultVersionId), name, err)
	}
	doc, err := document(sdk.ToString(version.PolicyVersion.Document))
	if err != nil {
		return liveResource{}, fmt.Errorf("reading policy %q: %w", name, err)
	}
	seen := liveResource{uid: *arn + "#" + sdk.ToString(out.Policy.PolicyId), tags: fromIAMTags(out.Policy.Tags)}
	seen.ours = c.place.owned(seen.tags)
	seen.object = map[string]any{"document": doc, "tags": tagObject(seen.tags)}
	return seen, nil
}

func (policies) write(ctx context.Context, c *clients, wanted state.Item, live liveResource) error {
	name, arn := wanted.Key.Name, c.place.iamARN("policy/"+wanted.Key.Name)
	text, err := documentText(wanted.Object["document"])
	if err != nil {
		return err
	}
	if live.object == nil {
		_, err := c.iam.CreatePolicy(ctx, &iam.CreatePolicyInput{
			PolicyName: sdk.String(name), PolicyDocument: sdk.String(text), Tags: iamTags(tagsOf(wanted)),
			Description: sdk.String("Made by Poolwright for the EKS cluster " + c.place.Cluster),
		})
		if exists(err) {
			return notYet(err)
		}
		if err != nil {
			return fmt.Errorf("creating policy %q: %w", name, err)
		}
		return nil
	}
	if err := tagPolicy(ctx, c, wanted, live); err != nil {
		return err
	}
	if state.Equal(wanted.Object["document"], live.object["document"]) {
		return nil
	}
	if err := pruneVersions(ctx, c, arn); err != nil {
		return err
	}
	_, err = c.iam.CreatePolicyVersion(ctx, &iam.CreatePolicyVersionInput{PolicyArn: sdk.String(arn), PolicyDocument: sdk.String(text), SetAsDefault: true})
	if err != nil {
		return fmt.Errorf("changing policy %q: %w", name, err)
	}
	return nil
}

func tagPolicy(ctx context.Context, c *clients, wanted state.Item, live liveResource) error {
	set, drop := retagged(wanted, live)
	if len(set) > 0 {
		if _, err := c.iam.TagPolicy(ctx, &iam.TagPolicyInput{PolicyArn: sdk.String(c.place.iamARN("policy/" + wanted.Key.Name)), Tags: iamTags(set)}); err != nil {
			return fmt.Errorf("tagging policy %q: %w", wanted.Key.Name, err)
		}
	}
	if len(drop) > 0 {
		if _, err := c.iam.UntagPolicy(ctx, &iam.UntagPolicyInput{PolicyArn: sdk.String(c.place.iamARN("policy/" + wanted.Key.Name)), TagKeys: drop}); err != nil {
			return fmt.Errorf("untagging policy %q: %w", wanted.Key.Name, err)
		}
	}
	return nil
}

// mostVersions is how many versions IAM keeps of a policy.
const mostVersions = 5

// pruneVersions deletes the oldest versions that are not in force, so that one more
// fits.
func pruneVersions(ctx context.Context, c *clients, arn string) error {
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
func idleVersions(ctx context.Context, c *clients, arn string) ([]string, error) {
	var idle []iamtypes.PolicyVersion
	pages := iam.NewListPolicyVersionsPaginator(c.iam, &iam.ListPolicyVersionsInput{PolicyArn: sdk.String(arn)})
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

func deleteVersion(ctx context.Context, c *clients, arn, id string) error {
	_, err := c.iam.DeletePolicyVersion(ctx, &iam.DeletePolicyVersionInput{PolicyArn: sdk.String(arn), VersionId: sdk.String(id)})
	if err != nil && !gone(err) {
		return fmt.Errorf("deleting version %s of %s: %w", id, arn, err)
	}
	return nil
}

// remove deletes the policy with its versions, unless it still bounds a role:
// without its boundary a role could do all that its policies say.
func (policies) remove(ctx context.Context, c *clients, k state.Key, _ liveResource) error {
	arn := c.place.iamARN("policy/" + k.Name)
	out, err := c.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: sdk.String(arn)})
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading policy %q: %w", k.Name, err)
	}
	if bound := sdk.ToInt32(out.Policy.PermissionsBoundaryUsageCount); bound > 0 {
		return fmt.Errorf("policy %q is still the permissions boundary of %d roles or users: delete them, or give them another boundary, first", k.Name, bound)
	}
	idle, err := idleVersions(ctx, c, arn)
	if gone(err) {
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
	_, err = c.iam.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: sdk.String(arn)})
	if err != nil && !gone(err) {
		return fmt.Errorf("deleting policy %q: %w", k.Name, err)
	}
	return nil
}
