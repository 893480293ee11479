package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/poolwright/poolwright/reconciler/state"
)

// write makes the role, with its trust, boundary and tags in one request, so
// that no role of ours ever exists without them; policies come after. Where a
// role exists, what takes power away comes before what gives it.
func (roles) write(ctx context.Context, c *clients, wanted state.Item, live liveResource) error {
	name, which := wanted.Key.Name, "policies"
	if _, adopted := wanted.Object["managedPolicies"]; adopted {
		which = "managedPolicies"
	}
	policies := listed(wanted.Object[which])
	for _, arn := range policies {
		if err := c.place.attachable(arn); err != nil {
			return err
		}
	}
	doc, err := c.issued(ctx, wanted.Object["trust"])
	if err != nil {
		return err
	}
	if live.object == nil {
		if err := createRole(ctx, c, wanted, doc); err != nil {
			return err
		}
		return attach(ctx, c, name, policies)
	}
	if err := tagRole(ctx, c, wanted, live); err != nil {
		return err
	}
	if err := boundRole(ctx, c, wanted, live); err != nil {
		return err
	}
	have := listed(live.object[which])
	if err := detach(ctx, c, name, without(have, policies)); err != nil {
		return err
	}
	if _, asked := wanted.Object["inlinePolicies"]; asked && live.ours {
		if err := dropInline(ctx, c, name, listed(live.object["inlinePolicies"])); err != nil {
			return err
		}
	}
	if !state.Equal(wanted.Object["trust"], live.object["trust"]) {
		_, err := c.iam.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: sdk.String(name), PolicyDocument: sdk.String(doc)})
		if err != nil {
			return fmt.Errorf("changing the trust of role %q: %w", name, err)
		}
	}
	return attach(ctx, c, name, without(policies, have))
}

// issued is the text of a wanted trust document, with the cluster's issuer in
// the place of its placeholder.
func (c *clients) issued(ctx context.Context, trust any) (string, error) {
	text, err := documentText(trust)
	if err != nil || !strings.Contains(text, issuerPlaceholder) {
		return text, err
	}
	issuer, err := c.issuer(ctx)
	if err != nil {
		return "", err
	}
	if issuer == "" {
		return "", fmt.Errorf("cluster %q has no OIDC issuer, so IRSA cannot work: declare identity PodIdentity in spec.controllerRole", c.place.Cluster)
	}
	return documentText(renamed(trust, issuerPlaceholder, issuer))
}

func createRole(ctx context.Context, c *clients, wanted state.Item, doc string) error {
	name := wanted.Key.Name
	in := &iam.CreateRoleInput{
		RoleName: sdk.String(name), AssumeRolePolicyDocument: sdk.String(doc), Tags: iamTags(tagsOf(wanted)),
		Description: sdk.String("Made by Poolwright for the EKS cluster " + c.place.Cluster),
	}
	boundary, asked := wanted.Object["permissionsBoundary"].(string)
	if !asked && !slices.ContainsFunc(listed(wanted.Object["policies"]), func(arn string) bool { return slices.Contains(c.place.powers(), arn) }) {
		// A declaration that adopts leaves the boundary of an existing role
		// alone; a new one is bounded all the same.
		boundary = c.place.iamARN("policy/" + c.place.names().Boundary)
	}
	if boundary != "" {
		in.PermissionsBoundary = sdk.String(boundary)
	}
	_, err := c.iam.CreateRole(ctx, in)
	switch {
	case gone(err):
		return c.unbound(ctx, boundary, err)
	case exists(err):
		return notYet(err)
	case err != nil:
		return fmt.Errorf("creating role %q: %w", name, err)
	}
	return nil
}

// unbound explains why IAM did not find a boundary: it was made a moment ago,
// or it does not exist.
func (c *clients) unbound(ctx context.Context, boundary string, err error) error {
	_, look := c.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: sdk.String(boundary)})
	if gone(look) {
		return fmt.Errorf("the permissions boundary %s does not exist: run `poolwright bootstrap`, or name another in spec.nodeRole.permissionsBoundary", boundary)
	}
	return notYet(err)
}

func boundRole(ctx context.Context, c *clients, wanted state.Item, live liveResource) error {
	boundary, asked := wanted.Object["permissionsBoundary"].(string)
	if !asked || live.object["permissionsBoundary"] == boundary {
		return nil
	}
	_, err := c.iam.PutRolePermissionsBoundary(ctx, &iam.PutRolePermissionsBoundaryInput{
		RoleName: sdk.String(wanted.Key.Name), PermissionsBoundary: sdk.String(boundary),
	})
	if gone(err) {
		return c.unbound(ctx, boundary, err)
	}
	if err != nil {
		return fmt.Errorf("bounding role %q: %w", wanted.Key.Name, err)
	}
	return nil
}

func tagRole(ctx context.Context, c *clients, wanted state.Item, live liveResource) error {
	set, drop := retagged(wanted, live)
	if len(set) > 0 {
		if _, err := c.iam.TagRole(ctx, &iam.TagRoleInput{RoleName: sdk.String(wanted.Key.Name), Tags: iamTags(set)}); err != nil {
			return fmt.Errorf("tagging role %q: %w", wanted.Key.Name, err)
		}
	}
	if len(drop) > 0 {
		if _, err := c.iam.UntagRole(ctx, &iam.UntagRoleInput{RoleName: sdk.String(wanted.Key.Name), TagKeys: drop}); err != nil {
			return fmt.Errorf("untagging role %q: %w", wanted.Key.Name, err)
		}
	}
	return nil
}

// attach gives the role policies. A role that was made a second ago may not be
// found yet.
func attach(ctx context.Context, c *clients, role string, arns []string) error {
	for _, arn := range arns {
		_, err := c.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: sdk.String(role), PolicyArn: sdk.String(arn)})
		if gone(err) {
			return notYet(err)
		}
		if err != nil {
			return fmt.Errorf("attaching %s to role %q: %w", arn, role, err)
		}
	}
	return nil
}

func detach(ctx context.Context, c *clients, role string, arns []string) error {
	for _, arn := range arns {
		_, err := c.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: sdk.String(role), PolicyArn: sdk.String(arn)})
		if err != nil && !gone(err) {
			return fmt.Errorf("detaching %s from role %q: %w", arn, role, err)
		}
	}
	return nil
}

func dropInline(ctx context.Context, c *clients, role string, names []string) error {
	for _, n := range names {
		_, err := c.iam.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: sdk.String(role), PolicyName: sdk.String(n)})
		if err != nil && !gone(err) {
			return fmt.Errorf("deleting inline policy %q of role %q: %w", n, role, err)
		}
	}
	return nil
}

// remove takes the role out of our instance profiles, and everything off it,
// before it goes. A profile of somebody else keeps the role: its instances
// would lose their identity.
func (roles) remove(ctx context.Context, c *clients, k state.Key, live liveResource) error {
	mine, err := profilesOf(ctx, c, k.Name)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, profile := range mine {
		if err := takeOut(ctx, c, profile, k.Name); err != nil {
			return err
		}
	}
	if err := detach(ctx, c, k.Name, listed(live.object["policies"])); err != nil {
		return err
	}
	if err := dropInline(ctx, c, k.Name, listed(live.object["inlinePolicies"])); err != nil {
		return err
	}
	_, err = c.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: sdk.String(k.Name)})
	if err != nil && !gone(err) {
		return fmt.Errorf("deleting role %q: %w", k.Name, err)
	}
	return nil
}

// profilesOf lists our instance profiles that hold the role; one that is not
// ours is an error that names it.
func profilesOf(ctx context.Context, c *clients, role string) ([]string, error) {
	var mine, others []string
	pages := iam.NewListInstanceProfilesForRolePaginator(c.iam, &iam.ListInstanceProfilesForRoleInput{RoleName: sdk.String(role)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the instance profiles of role %q: %w", role, err)
		}
		for _, p := range page.InstanceProfiles {
			// IAM's lists come without tags.
			seen, err := readProfile(ctx, c, sdk.ToString(p.InstanceProfileName))
			if err != nil {
				return nil, err
			}
			if seen.ours {
				mine = append(mine, sdk.ToString(p.InstanceProfileName))
			} else if seen.object != nil {
				others = append(others, sdk.ToString(p.InstanceProfileName))
			}
		}
	}
	if len(others) > 0 {
		return nil, fmt.Errorf("role %q is still in instance profiles that Poolwright did not make: %s; take it out of them first "+
			"(those that Karpenter made go with their EC2NodeClass)", role, strings.Join(others, ", "))
	}
	return mine, nil
}

// listed are the strings of a canonical list.
func listed(v any) []string {
	list, _ := v.([]any)
	out := make([]string, 0, len(list))
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// without are the elements of a that b does not have.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
