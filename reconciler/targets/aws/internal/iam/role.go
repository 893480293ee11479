package iam

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/policydoc"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// Roles are IAM roles: that of the nodes, and, for bootstrap, that of the
// controller itself.
type Roles struct{}

// issuerPlaceholder stands for the cluster's OIDC issuer in a desired trust document:
// only AWS has it.
const issuerPlaceholder = "<oidc-issuer>"

// Desired implements resource.Kind.
func (Roles) Desired(s resource.Declaration) []state.Item {
	var out []state.Item
	if node := s.Spec.NodeRole; node != nil {
		out = append(out, nodeRoleItem(s, *node))
	}
	if own := s.Spec.ControllerRole; own != nil {
		out = append(out, byBootstrap(s, s.Owned(resource.Global("Role", own.Name), resource.WaveSecond, v1alpha1.ManagementPolicy{Adopt: own.Adopt}, map[string]any{
			"trust":          controllerTrust(s, *own),
			"policies":       resource.Strings(controllerPolicies(s.Scope)),
			"inlinePolicies": []any{},
		})))
	}
	return out
}

func nodeRoleItem(s resource.Declaration, node v1alpha1.NodeRole) state.Item {
	allowed := nodePolicies()
	var arns, refused []string
	for _, n := range node.Policies {
		path, ok := allowed[n]
		if !ok {
			refused = append(refused, string(n))
			// No ARN is written like this: the role differs, whatever it has.
			path = "(not allowed) " + string(n)
		}
		arns = append(arns, s.ManagedPolicyARN(path))
	}
	slices.Sort(arns)
	attached := resource.Strings(slices.Compact(arns))
	object := map[string]any{"trust": nodeTrust(s.Scope), "policies": attached, "inlinePolicies": []any{}}
	if node.Adopt {
		// Who adopts a role keeps what else its owner gave it: no field of the
		// declaration could name those policies.
		object = map[string]any{"trust": nodeTrust(s.Scope), "managedPolicies": attached}
	}
	if node.PermissionsBoundary != "" {
		object["permissionsBoundary"] = s.IAMARN("policy/" + node.PermissionsBoundary)
	}
	item := s.Owned(resource.Global("Role", node.Name), resource.WaveSecond, node.ManagementPolicy, object)
	if len(refused) > 0 {
		item.ReadOnly = fmt.Sprintf("spec.nodeRole.policies: %s is not allowed for nodes: choose from %s", strings.Join(refused, ", "), allowList())
	}
	return item
}

// trust is a trust document of one statement.
func trust(principal map[string]any, actions []any, conditions map[string]any) map[string]any {
	s := map[string]any{"Effect": "Allow", "Principal": principal, "Action": actions}
	if conditions != nil {
		s["Condition"] = conditions
	}
	return map[string]any{"Version": "2012-10-17", "Statement": []any{s}}
}

func nodeTrust(p resource.Scope) map[string]any {
	service := "ec2.amazonaws.com"
	if p.Partition == "aws-cn" {
		service += ".cn"
	}
	return trust(map[string]any{"Service": []any{service}}, []any{"sts:AssumeRole"}, nil)
}

// controllerTrust lets only the controller's pods on this one cluster in.
func controllerTrust(s resource.Declaration, own v1alpha1.ControllerRole) map[string]any {
	if own.Identity == v1alpha1.IdentityIRSA {
		provider := s.IAMARN("oidc-provider/" + issuerPlaceholder)
		return trust(map[string]any{"Federated": []any{provider}}, []any{"sts:AssumeRoleWithWebIdentity"}, map[string]any{
			"StringEquals": map[string]any{
				issuerPlaceholder + ":aud": []any{"sts.amazonaws.com"},
				issuerPlaceholder + ":sub": []any{"system:serviceaccount:" + own.Namespace + ":" + own.ServiceAccount},
			},
		})
	}
	return trust(map[string]any{"Service": []any{"pods.eks.amazonaws.com"}}, []any{"sts:AssumeRole", "sts:TagSession"}, map[string]any{
		"StringEquals": map[string]any{
			"aws:SourceAccount":                         []any{s.Account},
			"aws:RequestTag/eks-cluster-arn":            []any{s.ARN("eks", "cluster/"+s.Cluster)},
			"aws:RequestTag/kubernetes-namespace":       []any{own.Namespace},
			"aws:RequestTag/kubernetes-service-account": []any{own.ServiceAccount},
		},
		"ArnEquals": map[string]any{"aws:SourceArn": []any{s.ARN("eks", "cluster/"+s.Cluster)}},
	})
}

// Read implements resource.Kind.
func (Roles) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	return resource.Each(keys, func(k state.Key) (resource.Live, error) { return readRole(ctx, c, k.Name) })
}

func readRole(ctx context.Context, c *resource.Clients, name string) (resource.Live, error) {
	out, err := c.IAM.GetRole(ctx, &iam.GetRoleInput{RoleName: sdk.String(name)})
	if awserr.IsNotFound(err) {
		return resource.Live{}, nil
	}
	if err != nil {
		return resource.Live{}, fmt.Errorf("reading role %q: %w", name, err)
	}
	attached, inline, err := rolePolicies(ctx, c, name)
	if awserr.IsNotFound(err) {
		return resource.Live{}, nil
	}
	if err != nil {
		return resource.Live{}, err
	}
	doc, err := policydoc.Parse(sdk.ToString(out.Role.AssumeRolePolicyDocument))
	if err != nil {
		return resource.Live{}, fmt.Errorf("reading the trust of role %q: %w", name, err)
	}
	observed := resource.Live{UID: sdk.ToString(out.Role.Arn) + "#" + sdk.ToString(out.Role.RoleId), Tags: fromIAMTags(out.Role.Tags)}
	observed.Ours = c.Scope.Owns(observed.Tags)
	if doc, observed.Notes, err = withoutIssuer(ctx, c, doc); err != nil {
		return resource.Live{}, err
	}
	managed := slices.DeleteFunc(slices.Clone(attached), func(arn string) bool { return !strings.HasPrefix(arn, c.Scope.ManagedPolicyARN("")) })
	observed.Object = map[string]any{
		"trust": doc, "policies": resource.Strings(attached), "managedPolicies": resource.Strings(managed), "inlinePolicies": resource.Strings(inline), "tags": tag.Object(observed.Tags),
	}
	if b := out.Role.PermissionsBoundary; b != nil {
		observed.Object["permissionsBoundary"] = sdk.ToString(b.PermissionsBoundaryArn)
	}
	if _, made := observed.Tags[tag.DeletionPolicy]; !made || !observed.Ours {
		observed.Notes = append(observed.Notes, foreignPolicies(c, attached, managed, inline)...)
	}
	slices.SortFunc(observed.Notes, finding.Finding.Compare)
	return observed, nil
}

// foreignPolicies names the policies of a role of others that no field of a
// declaration could name.
func foreignPolicies(c *resource.Clients, attached, managed, inline []string) []finding.Finding {
	var out []finding.Finding
	var names []string
	for _, arn := range without(without(attached, managed), controllerPolicies(c.Scope)) {
		names = append(names, arn[strings.LastIndex(arn, "/")+1:])
	}
	if slices.Sort(names); len(names) > 0 {
		out = append(out, finding.New(codeForeignPolicies, "it has policies of this account that are not Poolwright's: %s", finding.As("policies", names, strings.Join(names, ", "))))
	}
	if len(inline) > 0 {
		out = append(out, finding.New(codeForeignPolicies, "it has inline policies that are not Poolwright's: %s", finding.As("inlinePolicies", inline, strings.Join(inline, ", "))))
	}
	return out
}

// WithGrants implements resource.GrantsExtra: the boundary of what Poolwright makes is not required
// of a role that somebody else made. One that the declaration names is.
func (Roles) WithGrants(at resource.Scope, desired, found map[string]any) map[string]any {
	ours := at.IAMARN("policy/" + policyNames(at).Boundary)
	if desired["permissionsBoundary"] != ours {
		return found
	}
	out := maps.Clone(found)
	out["permissionsBoundary"] = ours
	return out
}

// rolePolicies lists the ARNs of the attached policies and the names of the
// inline ones.
func rolePolicies(ctx context.Context, c *resource.Clients, name string) (attached, inline []string, err error) {
	managed := iam.NewListAttachedRolePoliciesPaginator(c.IAM, &iam.ListAttachedRolePoliciesInput{RoleName: sdk.String(name)})
	for managed.HasMorePages() {
		page, err := managed.NextPage(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the policies of role %q: %w", name, err)
		}
		for _, p := range page.AttachedPolicies {
			attached = append(attached, sdk.ToString(p.PolicyArn))
		}
	}
	own := iam.NewListRolePoliciesPaginator(c.IAM, &iam.ListRolePoliciesInput{RoleName: sdk.String(name)})
	for own.HasMorePages() {
		page, err := own.NextPage(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the inline policies of role %q: %w", name, err)
		}
		inline = append(inline, page.PolicyNames...)
	}
	slices.Sort(inline)
	return attached, inline, nil
}

// withoutIssuer writes a live trust document as the desired one is written: without
// statement ids, which mean nothing, and with a word for the cluster's issuer.
func withoutIssuer(ctx context.Context, c *resource.Clients, doc map[string]any) (map[string]any, []finding.Finding, error) {
	federated := false
	statements, _ := doc["Statement"].([]any)
	for _, s := range statements {
		if m, ok := s.(map[string]any); ok {
			delete(m, "Sid")
			federated = federated || strings.Contains(fmt.Sprint(m["Principal"]), ":oidc-provider/")
		}
	}
	if !federated {
		return doc, nil, nil
	}
	issuer, err := oidcIssuer(ctx, c)
	if err != nil || issuer == "" {
		return doc, nil, err
	}
	provider := c.Scope.IAMARN("oidc-provider/" + issuer)
	if !strings.Contains(fmt.Sprint(statements), provider) {
		return doc, nil, nil
	}
	translated, _ := policydoc.Replace(doc, issuer, issuerPlaceholder).(map[string]any)
	_, err = c.IAM.GetOpenIDConnectProvider(ctx, &iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: sdk.String(provider)})
	switch {
	case awserr.IsNotFound(err):
		return translated, []finding.Finding{finding.New(codeOIDCProviderMissing, "the cluster has no IAM OIDC provider, so no pod can take this role: "+
			"`eksctl utils associate-iam-oidc-provider --cluster %s --region %s --approve`", finding.NewFact("cluster", c.Scope.Cluster), finding.NewFact("region", c.Scope.Region))}, nil
	case awserr.Denied(err):
		return translated, []finding.Finding{finding.New(codePermissionMissing, "whether the cluster has an IAM OIDC provider is unknown: denied %s",
			finding.NewFact("action", "iam:GetOpenIDConnectProvider"))}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("reading the OIDC provider of cluster %q: %w", c.Scope.Cluster, err)
	}
	return translated, nil, nil
}
