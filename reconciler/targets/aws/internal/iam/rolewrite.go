package iam

import (
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/policydoc"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// Write makes the role, with its trust, boundary and tags in one request, so
// that no role of ours ever exists without them; policies come after. Where a
// role exists, it has what it needs at each moment, as far as the quota of policies has room: policies are attached before former ones are
// detached, those that deny first and last. Only a new trust comes after what the role had and before
// what it gets.
func (Roles) Write(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	name, which := desired.Key.Name, "policies"
	if _, adopted := desired.Object["managedPolicies"]; adopted {
		which = "managedPolicies"
	}
	policies := listed(desired.Object[which])
	if err := allAttachable(c.Scope, policies); err != nil {
		return err
	}
	doc, err := trustText(ctx, c, desired.Object["trust"])
	if err != nil {
		return err
	}
	if live.Object == nil {
		if err := createRole(ctx, c, desired, doc); err != nil {
			return err
		}
		return attach(ctx, c, name, policies)
	}
	if err := tagRole(ctx, c, desired, live); err != nil {
		return err
	}
	if err := boundRole(ctx, c, desired, live); err != nil {
		return err
	}
	have := listed(live.Object[which])
	missing, former := without(policies, have), without(have, policies)
	trusted := state.Equal(desired.Object["trust"], live.Object["trust"])
	if !trusted {
		// Whoever is let in gets nothing of what the role had, and whoever was gets nothing that is new.
		allows, first := slices.DeleteFunc(slices.Clone(former), denies), slices.DeleteFunc(slices.Clone(missing), func(arn string) bool { return !denies(arn) })
		if err := exchange(ctx, c, name, first, allows); err != nil {
			return err
		}
		missing, former = without(missing, first), without(former, allows)
	}
	if _, declared := desired.Object["inlinePolicies"]; declared && live.Ours {
		if err := dropInline(ctx, c, name, listed(live.Object["inlinePolicies"])); err != nil {
			return err
		}
	}
	if !trusted {
		_, err := c.IAM.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: sdk.String(name), PolicyDocument: sdk.String(doc)})
		if err != nil {
			return fmt.Errorf("changing the trust of role %q: %w", name, err)
		}
	}
	return exchange(ctx, c, name, missing, former)
}

// allAttachable returns why one of the policies cannot be attached, or nil.
func allAttachable(scope resource.Scope, arns []string) error {
	for _, arn := range arns {
		if err := attachable(scope, arn); err != nil {
			return err
		}
	}
	return nil
}

// trustText is the text of a desired trust document, with the cluster's issuer in
// the place of its placeholder.
func trustText(ctx context.Context, c *resource.Clients, trust any) (string, error) {
	text, err := policydoc.Text(trust)
	if err != nil || !strings.Contains(text, issuerPlaceholder) {
		return text, err
	}
	issuer, err := oidcIssuer(ctx, c)
	if err != nil {
		return "", err
	}
	if issuer == "" {
		return "", fmt.Errorf("cluster %q has no OIDC issuer, so IRSA cannot work: declare identity PodIdentity in spec.controllerRole", c.Scope.Cluster)
	}
	return policydoc.Text(policydoc.Replace(trust, issuerPlaceholder, issuer))
}

func createRole(ctx context.Context, c *resource.Clients, desired state.Item, doc string) error {
	name := desired.Key.Name
	in := &iam.CreateRoleInput{
		RoleName: sdk.String(name), AssumeRolePolicyDocument: sdk.String(doc), Tags: iamTags(tag.Declared(desired)),
		Description: sdk.String("Made by Poolwright for the EKS cluster " + c.Scope.Cluster),
	}
	boundary, declared := desired.Object["permissionsBoundary"].(string)
	if !declared && !slices.ContainsFunc(listed(desired.Object["policies"]), func(arn string) bool { return slices.Contains(controllerPolicies(c.Scope), arn) }) {
		// A declaration that adopts leaves the boundary of an existing role
		// alone; a new one is bounded all the same.
		boundary = c.Scope.IAMARN("policy/" + policyNames(c.Scope).Boundary)
	}
	if boundary != "" {
		in.PermissionsBoundary = sdk.String(boundary)
	}
	_, err := c.IAM.CreateRole(ctx, in)
	switch {
	case awserr.IsNotFound(err):
		return unbound(ctx, c, boundary, err)
	case awserr.Exists(err):
		return awserr.NotPropagated(err)
	case err != nil:
		return fmt.Errorf("creating role %q: %w", name, err)
	}
	return nil
}

// unbound explains why IAM did not find a boundary: it was made a moment ago,
// or it does not exist.
func unbound(ctx context.Context, c *resource.Clients, boundary string, err error) error {
	_, getErr := c.IAM.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: sdk.String(boundary)})
	if awserr.IsNotFound(getErr) {
		return fmt.Errorf("the permissions boundary %s does not exist: run `poolwright bootstrap`, or name another in spec.nodeRole.permissionsBoundary", boundary)
	}
	return awserr.NotPropagated(err)
}

func boundRole(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	boundary, declared := desired.Object["permissionsBoundary"].(string)
	if !declared || live.Object["permissionsBoundary"] == boundary {
		return nil
	}
	_, err := c.IAM.PutRolePermissionsBoundary(ctx, &iam.PutRolePermissionsBoundaryInput{
		RoleName: sdk.String(desired.Key.Name), PermissionsBoundary: sdk.String(boundary),
	})
	if awserr.IsNotFound(err) {
		return unbound(ctx, c, boundary, err)
	}
	if err != nil {
		return fmt.Errorf("bounding role %q: %w", desired.Key.Name, err)
	}
	return nil
}

func tagRole(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	set, drop := tag.Diff(desired, live.Tags)
	if len(set) > 0 {
		if _, err := c.IAM.TagRole(ctx, &iam.TagRoleInput{RoleName: sdk.String(desired.Key.Name), Tags: iamTags(set)}); err != nil {
			return fmt.Errorf("tagging role %q: %w", desired.Key.Name, err)
		}
	}
	if len(drop) > 0 {
		if _, err := c.IAM.UntagRole(ctx, &iam.UntagRoleInput{RoleName: sdk.String(desired.Key.Name), TagKeys: drop}); err != nil {
			return fmt.Errorf("untagging role %q: %w", desired.Key.Name, err)
		}
	}
	return nil
}

// denies reports whether a policy is one of Poolwright's that deny.
func denies(arn string) bool { return iampolicy.Denies(arn[strings.LastIndex(arn, "/")+1:]) }

// deniesFirst are the policies with those that deny at the beginning.
func deniesFirst(arns []string) []string {
	allows := slices.DeleteFunc(slices.Clone(arns), denies)
	return slices.Concat(without(arns, allows), allows)
}

// allowsFirst are the policies with those that deny at the end.
func allowsFirst(arns []string) []string {
	allows := slices.DeleteFunc(slices.Clone(arns), denies)
	return slices.Concat(allows, without(arns, allows))
}

// exchange attaches the missing policies, then detaches the former ones. Where the account's quota of
// policies for a role has none left, a former one goes before it.
func exchange(ctx context.Context, c *resource.Clients, role string, missing, former []string) error {
	former = allowsFirst(former)
	for _, arn := range deniesFirst(missing) {
		err := attach(ctx, c, role, []string{arn})
		for awserr.Code(err) == "LimitExceeded" && len(former) > 0 {
			if err := detach(ctx, c, role, former[:1]); err != nil {
				return err
			}
			former = former[1:]
			err = attach(ctx, c, role, []string{arn})
		}
		if err != nil {
			return err
		}
	}
	return detach(ctx, c, role, former)
}

// attach gives the role policies, those that deny first. A role that was made a second ago may not be
// found yet.
func attach(ctx context.Context, c *resource.Clients, role string, arns []string) error {
	for _, arn := range deniesFirst(arns) {
		_, err := c.IAM.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: sdk.String(role), PolicyArn: sdk.String(arn)})
		if awserr.IsNotFound(err) {
			return awserr.NotPropagated(err)
		}
		if err != nil {
			return fmt.Errorf("attaching %s to role %q: %w", arn, role, err)
		}
	}
	return nil
}

// detach takes policies off the role, those that deny last.
func detach(ctx context.Context, c *resource.Clients, role string, arns []string) error {
	for _, arn := range allowsFirst(arns) {
		_, err := c.IAM.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: sdk.String(role), PolicyArn: sdk.String(arn)})
		if err != nil && !awserr.IsNotFound(err) {
			return fmt.Errorf("detaching %s from role %q: %w", arn, role, err)
		}
	}
	return nil
}

func dropInline(ctx context.Context, c *resource.Clients, role string, names []string) error {
	for _, n := range names {
		_, err := c.IAM.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: sdk.String(role), PolicyName: sdk.String(n)})
		if err != nil && !awserr.IsNotFound(err) {
			return fmt.Errorf("deleting inline policy %q of role %q: %w", n, role, err)
		}
	}
	return nil
}

// Remove takes the role out of our instance profiles, and everything off it,
// before it goes. A profile of somebody else keeps the role: its instances
// would lose their identity.
func (Roles) Remove(ctx context.Context, c *resource.Clients, k state.Key, live resource.Live) error {
	mine, err := profilesOf(ctx, c, k.Name)
	if awserr.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, profile := range mine {
		if err := removeRole(ctx, c, profile, k.Name); err != nil {
			return err
		}
	}
	if err := detach(ctx, c, k.Name, listed(live.Object["policies"])); err != nil {
		return err
	}
	if err := dropInline(ctx, c, k.Name, listed(live.Object["inlinePolicies"])); err != nil {
		return err
	}
	_, err = c.IAM.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: sdk.String(k.Name)})
	if err != nil && !awserr.IsNotFound(err) {
		return fmt.Errorf("deleting role %q: %w", k.Name, err)
	}
	return nil
}

// profilesOf lists our instance profiles that hold the role; one that is not
// ours is an error that names it.
func profilesOf(ctx context.Context, c *resource.Clients, role string) ([]string, error) {
	var mine, others []string
	pages := iam.NewListInstanceProfilesForRolePaginator(c.IAM, &iam.ListInstanceProfilesForRoleInput{RoleName: sdk.String(role)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the instance profiles of role %q: %w", role, err)
		}
		for _, p := range page.InstanceProfiles {
			// IAM's lists come without tags.
			observed, err := readProfile(ctx, c, sdk.ToString(p.InstanceProfileName))
			if err != nil {
				return nil, err
			}
			if observed.Ours {
				mine = append(mine, sdk.ToString(p.InstanceProfileName))
			} else if observed.Object != nil {
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
