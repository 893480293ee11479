package aws

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
)

// roles are IAM roles: that of the nodes, and, for bootstrap, that of the
// controller itself.
type roles struct{}

// issuerPlaceholder stands for the cluster's OIDC issuer in a wanted trust document:
// only AWS knows it.
const issuerPlaceholder = "<oidc-issuer>"

func (roles) want(s scope) []state.Item {
	var out []state.Item
	if node := s.spec.NodeRole; node != nil {
		out = append(out, s.nodeRole(*node))
	}
	if own := s.spec.ControllerRole; own != nil {
		out = append(out, s.own(s.made(global("Role", own.Name), waveSecond, v1alpha1.Part{Adopt: own.Adopt}, map[string]any{
			"trust":          s.controllerTrust(*own),
			"policies":       strs(s.powers()),
			"inlinePolicies": []any{},
		})))
	}
	return out
}

func (s scope) nodeRole(node v1alpha1.NodeRole) state.Item {
	allowed := nodePolicies()
	var arns, refused []string
	for _, n := range node.Policies {
		path, ok := allowed[n]
		if !ok {
			refused = append(refused, string(n))
			// No ARN is written like this: the role differs, whatever it has.
			path = "(not allowed) " + string(n)
		}
		arns = append(arns, s.awsPolicyARN(path))
	}
	slices.Sort(arns)
	attached := strs(slices.Compact(arns))
	object := map[string]any{"trust": s.nodeTrust(), "policies": attached, "inlinePolicies": []any{}}
	if node.Adopt {
		// Who adopts a role keeps what else its owner gave it: no field of the
		// declaration could name those policies.
		object = map[string]any{"trust": s.nodeTrust(), "managedPolicies": attached}
	}
	if node.PermissionsBoundary != "" {
		object["permissionsBoundary"] = s.iamARN("policy/" + node.PermissionsBoundary)
	}
	item := s.made(global("Role", node.Name), waveSecond, node.Part, object)
	if len(refused) > 0 {
		item.CompareOnly = fmt.Sprintf("spec.nodeRole.policies: %s is not allowed for nodes: choose from %s", strings.Join(refused, ", "), allowList())
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

func (p place) nodeTrust() map[string]any {
	service := "ec2.amazonaws.com"
	if p.Partition == "aws-cn" {
		service += ".cn"
	}
	return trust(map[string]any{"Service": []any{service}}, []any{"sts:AssumeRole"}, nil)
}

// controllerTrust lets only the controller's pods on this one cluster in.
func (s scope) controllerTrust(own v1alpha1.ControllerRole) map[string]any {
	if own.Identity == v1alpha1.IdentityIRSA {
		provider := s.iamARN("oidc-provider/" + issuerPlaceholder)
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
			"aws:RequestTag/eks-cluster-arn":            []any{s.arn("eks", "cluster/"+s.Cluster)},
			"aws:RequestTag/kubernetes-namespace":       []any{own.Namespace},
			"aws:RequestTag/kubernetes-service-account": []any{own.ServiceAccount},
		},
		"ArnEquals": map[string]any{"aws:SourceArn": []any{s.arn("eks", "cluster/"+s.Cluster)}},
	})
}

func (roles) read(ctx context.Context, c *clients, keys []state.Key) map[state.Key]liveResource {
	return oneByOne(keys, func(k state.Key) (liveResource, error) { return readRole(ctx, c, k.Name) })
}

// oneByOne reads things that AWS shows one by one.
func oneByOne(keys []state.Key, read func(state.Key) (liveResource, error)) map[state.Key]liveResource {
	out := make(map[state.Key]liveResource, len(keys))
	for _, k := range keys {
		seen, err := read(k)
		switch {
		case err != nil:
			out[k] = liveResource{err: err}
		case seen.object != nil || seen.missing != "" || len(seen.notes) > 0:
			out[k] = seen
		}
	}
	return out
}

func readRole(ctx context.Context, c *clients, name string) (liveResource, error) {
	out, err := c.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: sdk.String(name)})
	if gone(err) {
		return liveResource{}, nil
	}
	if err != nil {
		return liveResource{}, fmt.Errorf("reading role %q: %w", name, err)
	}
	attached, inline, err := rolePolicies(ctx, c, name)
	if gone(err) {
		return liveResource{}, nil
	}
	if err != nil {
		return liveResource{}, err
	}
	doc, err := document(sdk.ToString(out.Role.AssumeRolePolicyDocument))
	if err != nil {
		return liveResource{}, fmt.Errorf("reading the trust of role %q: %w", name, err)
	}
	seen := liveResource{uid: sdk.ToString(out.Role.Arn) + "#" + sdk.ToString(out.Role.RoleId), tags: fromIAMTags(out.Role.Tags)}
	seen.ours = c.place.owned(seen.tags)
	if doc, seen.notes, err = c.unissued(ctx, doc); err != nil {
		return liveResource{}, err
	}
	managed := slices.DeleteFunc(slices.Clone(attached), func(arn string) bool { return !strings.HasPrefix(arn, c.place.awsPolicyARN("")) })
	seen.object = map[string]any{
		"trust": doc, "policies": strs(attached), "managedPolicies": strs(managed), "inlinePolicies": strs(inline), "tags": tagObject(seen.tags),
	}
	if b := out.Role.PermissionsBoundary; b != nil {
		seen.object["permissionsBoundary"] = sdk.ToString(b.PermissionsBoundaryArn)
	}
	if _, made := seen.tags[policyTag]; !made || !seen.ours {
		seen.notes = append(seen.notes, c.foreignPolicies(attached, managed, inline)...)
	}
	slices.Sort(seen.notes)
	return seen, nil
}

// foreignPolicies names the policies of a role of others that no field of a
// declaration could name.
func (c *clients) foreignPolicies(attached, managed, inline []string) []string {
	var out, names []string
	for _, arn := range without(without(attached, managed), c.place.powers()) {
		names = append(names, arn[strings.LastIndex(arn, "/")+1:])
	}
	if slices.Sort(names); len(names) > 0 {
		out = append(out, "it has policies of this account that Poolwright does not know: "+strings.Join(names, ", "))
	}
	if len(inline) > 0 {
		out = append(out, "it has inline policies that Poolwright does not know: "+strings.Join(inline, ", "))
	}
	return out
}

// withGrants: the boundary of what Poolwright makes is not asked of a role that
// somebody else made. One that the declaration names is.
func (roles) withGrants(at place, wanted, found map[string]any) map[string]any {
	ours := at.iamARN("policy/" + at.names().Boundary)
	if wanted["permissionsBoundary"] != ours {
		return found
	}
	out := maps.Clone(found)
	out["permissionsBoundary"] = ours
	return out
}

// rolePolicies lists the ARNs of the attached policies and the names of the
// inline ones.
func rolePolicies(ctx context.Context, c *clients, name string) (attached, inline []string, err error) {
	managed := iam.NewListAttachedRolePoliciesPaginator(c.iam, &iam.ListAttachedRolePoliciesInput{RoleName: sdk.String(name)})
	for managed.HasMorePages() {
		page, err := managed.NextPage(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the policies of role %q: %w", name, err)
		}
		for _, p := range page.AttachedPolicies {
			attached = append(attached, sdk.ToString(p.PolicyArn))
		}
	}
	own := iam.NewListRolePoliciesPaginator(c.iam, &iam.ListRolePoliciesInput{RoleName: sdk.String(name)})
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

// unissued writes a live trust document as the wanted one is written: without
// statement ids, which mean nothing, and with a word for the cluster's issuer.
func (c *clients) unissued(ctx context.Context, doc map[string]any) (map[string]any, []string, error) {
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
	issuer, err := c.issuer(ctx)
	if err != nil || issuer == "" {
		return doc, nil, err
	}
	provider := c.place.iamARN("oidc-provider/" + issuer)
	if !strings.Contains(fmt.Sprint(statements), provider) {
		return doc, nil, nil
	}
	translated, _ := renamed(doc, issuer, issuerPlaceholder).(map[string]any)
	_, err = c.iam.GetOpenIDConnectProvider(ctx, &iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: sdk.String(provider)})
	switch {
	case gone(err):
		return translated, []string{fmt.Sprintf("the cluster has no IAM OIDC provider, so no pod can take this role: "+
			"`eksctl utils associate-iam-oidc-provider --cluster %s --region %s --approve`", c.place.Cluster, c.place.Region)}, nil
	case denied(err):
		return translated, []string{"whether the cluster has an IAM OIDC provider is unknown: denied iam:GetOpenIDConnectProvider"}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("reading the OIDC provider of cluster %q: %w", c.place.Cluster, err)
	}
	return translated, nil, nil
}
