package iam

import (
	"context"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// InstanceProfiles are IAM instance profiles, for EC2NodeClasses that name one.
type InstanceProfiles struct{}

// Desired implements resource.Kind.
func (InstanceProfiles) Desired(s resource.Declaration) []state.Item {
	node := s.Spec.NodeRole
	if node == nil || node.InstanceProfile == "" {
		return nil
	}
	return []state.Item{s.Owned(resource.Global("InstanceProfile", node.InstanceProfile), resource.WaveThird, node.ManagementPolicy, map[string]any{"role": node.Name})}
}

// Read implements resource.Kind.
func (InstanceProfiles) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	return resource.Each(keys, func(k state.Key) (resource.Live, error) { return readProfile(ctx, c, k.Name) })
}

func readProfile(ctx context.Context, c *resource.Clients, name string) (resource.Live, error) {
	out, err := c.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: sdk.String(name)})
	if awserr.IsNotFound(err) {
		return resource.Live{}, nil
	}
	if err != nil {
		return resource.Live{}, fmt.Errorf("reading instance profile %q: %w", name, err)
	}
	p := out.InstanceProfile
	observed := resource.Live{UID: sdk.ToString(p.Arn) + "#" + sdk.ToString(p.InstanceProfileId), Tags: fromIAMTags(p.Tags)}
	observed.Ours = c.Scope.Owns(observed.Tags)
	observed.Object = map[string]any{"tags": tag.Object(observed.Tags)}
	for _, r := range p.Roles { // IAM allows one at most
		observed.Object["role"] = sdk.ToString(r.RoleName)
	}
	return observed, nil
}

// Write makes the profile and puts its role in; a profile holds one role, so
// another goes first.
func (InstanceProfiles) Write(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	name := desired.Key.Name
	if live.Object == nil {
		_, err := c.IAM.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: sdk.String(name), Tags: iamTags(tag.Declared(desired))})
		if awserr.Exists(err) {
			return awserr.NotPropagated(err)
		}
		if err != nil {
			return fmt.Errorf("creating instance profile %q: %w", name, err)
		}
	} else if err := tagProfile(ctx, c, desired, live); err != nil {
		return err
	}
	role, _ := desired.Object["role"].(string)
	have, _ := live.Object["role"].(string)
	if have == role {
		return nil
	}
	if have != "" {
		if err := replaceable(ctx, c, name, role); err != nil {
			return err
		}
		if err := removeRole(ctx, c, name, have); err != nil {
			return err
		}
	}
	_, err := c.IAM.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: sdk.String(name), RoleName: sdk.String(role)})
	if awserr.IsNotFound(err) {
		return awserr.NotPropagated(err)
	}
	if err != nil {
		return fmt.Errorf("putting role %q into instance profile %q: %w", role, name, err)
	}
	return nil
}

// replaceable makes sure that the role may be put into a profile before another
// is taken out of it: IAM reports whether that is allowed before it reports that the
// profile is full.
func replaceable(ctx context.Context, c *resource.Clients, profile, role string) error {
	_, err := c.IAM.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: sdk.String(profile), RoleName: sdk.String(role)})
	switch {
	case err == nil || awserr.Code(err) == "LimitExceeded":
		return nil
	case awserr.IsNotFound(err):
		return awserr.NotPropagated(err)
	}
	return fmt.Errorf("putting role %q into instance profile %q, before another is taken out of it: %w", role, profile, err)
}

func tagProfile(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	set, drop := tag.Diff(desired, live.Tags)
	if len(set) > 0 {
		if _, err := c.IAM.TagInstanceProfile(ctx, &iam.TagInstanceProfileInput{InstanceProfileName: sdk.String(desired.Key.Name), Tags: iamTags(set)}); err != nil {
			return fmt.Errorf("tagging instance profile %q: %w", desired.Key.Name, err)
		}
	}
	if len(drop) > 0 {
		if _, err := c.IAM.UntagInstanceProfile(ctx, &iam.UntagInstanceProfileInput{InstanceProfileName: sdk.String(desired.Key.Name), TagKeys: drop}); err != nil {
			return fmt.Errorf("untagging instance profile %q: %w", desired.Key.Name, err)
		}
	}
	return nil
}

func removeRole(ctx context.Context, c *resource.Clients, profile, role string) error {
	_, err := c.IAM.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: sdk.String(profile), RoleName: sdk.String(role)})
	if err != nil && !awserr.IsNotFound(err) {
		return fmt.Errorf("taking role %q out of instance profile %q: %w", role, profile, err)
	}
	return nil
}

// Remove implements resource.Kind.
func (InstanceProfiles) Remove(ctx context.Context, c *resource.Clients, k state.Key, live resource.Live) error {
	if role, ok := live.Object["role"].(string); ok {
		if err := removeRole(ctx, c, k.Name, role); err != nil {
			return err
		}
	}
	_, err := c.IAM.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: sdk.String(k.Name)})
	if err != nil && !awserr.IsNotFound(err) {
		return fmt.Errorf("deleting instance profile %q: %w", k.Name, err)
	}
	return nil
}
