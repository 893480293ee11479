package aws

import (
	"context"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/poolwright/poolwright/reconciler/state"
)

// profiles are IAM instance profiles, for EC2NodeClasses that name one.
type profiles struct{}

func (profiles) want(s scope) []state.Item {
	node := s.spec.NodeRole
	if node == nil || node.InstanceProfile == "" {
		return nil
	}
	return []state.Item{s.made(global("InstanceProfile", node.InstanceProfile), waveThird, node.Part, map[string]any{"role": node.Name})}
}

func (profiles) read(ctx context.Context, c *clients, keys []state.Key) map[state.Key]liveResource {
	return oneByOne(keys, func(k state.Key) (liveResource, error) { return readProfile(ctx, c, k.Name) })
}

func readProfile(ctx context.Context, c *clients, name string) (liveResource, error) {
	out, err := c.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: sdk.String(name)})
	if gone(err) {
		return liveResource{}, nil
	}
	if err != nil {
		return liveResource{}, fmt.Errorf("reading instance profile %q: %w", name, err)
	}
	p := out.InstanceProfile
	seen := liveResource{uid: sdk.ToString(p.Arn) + "#" + sdk.ToString(p.InstanceProfileId), tags: fromIAMTags(p.Tags)}
	seen.ours = c.place.owned(seen.tags)
	seen.object = map[string]any{"tags": tagObject(seen.tags)}
	for _, r := range p.Roles { // IAM allows one at most
		seen.object["role"] = sdk.ToString(r.RoleName)
	}
	return seen, nil
}

// write makes the profile and puts its role in; a profile holds one role, so
// another goes first.
func (profiles) write(ctx context.Context, c *clients, wanted state.Item, live liveResource) error {
	name := wanted.Key.Name
	if live.object == nil {
		_, err := c.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: sdk.String(name), Tags: iamTags(tagsOf(wanted))})
		if exists(err) {
			return notYet(err)
		}
		if err != nil {
			return fmt.Errorf("creating instance profile %q: %w", name, err)
		}
	} else if err := tagProfile(ctx, c, wanted, live); err != nil {
		return err
	}
	role, _ := wanted.Object["role"].(string)
	have, _ := live.object["role"].(string)
	if have == role {
		return nil
	}
	if have != "" {
		if err := replaceable(ctx, c, name, role); err != nil {
			return err
		}
		if err := takeOut(ctx, c, name, have); err != nil {
			return err
		}
	}
	_, err := c.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: sdk.String(name), RoleName: sdk.String(role)})
	if gone(err) {
		return notYet(err)
	}
	if err != nil {
		return fmt.Errorf("putting role %q into instance profile %q: %w", role, name, err)
	}
	return nil
}

// replaceable makes sure that the role may be put into a profile before another
// is taken out of it: IAM reports whether that is allowed before it reports that the
// profile is full.
func replaceable(ctx context.Context, c *clients, profile, role string) error {
	_, err := c.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: sdk.String(profile), RoleName: sdk.String(role)})
	switch {
	case err == nil || codeOf(err) == "LimitExceeded":
		return nil
	case gone(err):
		return notYet(err)
	}
	return fmt.Errorf("putting role %q into instance profile %q, before another is taken out of it: %w", role, profile, err)
}

func tagProfile(ctx context.Context, c *clients, wanted state.Item, live liveResource) error {
	set, drop := retagged(wanted, live)
	if len(set) > 0 {
		if _, err := c.iam.TagInstanceProfile(ctx, &iam.TagInstanceProfileInput{InstanceProfileName: sdk.String(wanted.Key.Name), Tags: iamTags(set)}); err != nil {
			return fmt.Errorf("tagging instance profile %q: %w", wanted.Key.Name, err)
		}
	}
	if len(drop) > 0 {
		if _, err := c.iam.UntagInstanceProfile(ctx, &iam.UntagInstanceProfileInput{InstanceProfileName: sdk.String(wanted.Key.Name), TagKeys: drop}); err != nil {
			return fmt.Errorf("untagging instance profile %q: %w", wanted.Key.Name, err)
		}
	}
	return nil
}

func takeOut(ctx context.Context, c *clients, profile, role string) error {
	_, err := c.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: sdk.String(profile), RoleName: sdk.String(role)})
	if err != nil && !gone(err) {
		return fmt.Errorf("taking role %q out of instance profile %q: %w", role, profile, err)
	}
	return nil
}

func (profiles) remove(ctx context.Context, c *clients, k state.Key, live liveResource) error {
	if role, ok := live.object["role"].(string); ok {
		if err := takeOut(ctx, c, k.Name, role); err != nil {
			return err
		}
	}
	_, err := c.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: sdk.String(k.Name)})
	if err != nil && !gone(err) {
		return fmt.Errorf("deleting instance profile %q: %w", k.Name, err)
	}
	return nil
}
