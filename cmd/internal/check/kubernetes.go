package check

import (
	"context"
	"slices"
	"strings"

	karpenterversion "github.com/aws/karpenter-provider-aws/pkg/providers/version"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func (c *checker) apiServer(ctx context.Context) []Result {
	if _, err := c.ServerVersion(ctx); err != nil {
		return one(failed("", "%v", c.Explain(err)))
	}
	return one(ok("%s responds", c.Server))
}

// kubernetesVersion compares the API server's version with those that Karpenter supports.
func (c *checker) kubernetesVersion(ctx context.Context) []Result {
	const remedy = "take a Kubernetes version that docs/compatibility.md lists"
	text, err := c.ServerVersion(ctx)
	if err != nil {
		return c.unreadable(err)
	}
	const from, to = karpenterversion.MinK8sVersion, karpenterversion.MaxK8sVersion
	live, err := version.ParseGeneric(text)
	if err != nil {
		return one(warning(remedy, "its version %q is no version", text))
	}
	minor := version.MajorMinor(live.Major(), live.Minor())
	switch {
	case minor.LessThan(version.MustParseGeneric(from)):
		return one(failed(remedy, "Kubernetes %s is older than %s, the oldest that the embedded Karpenter supports", text, from))
	case version.MustParseGeneric(to).LessThan(minor):
		return one(warning("take a newer Poolwright", "Kubernetes %s is newer than %s, the newest that the embedded Karpenter supports", text, to))
	}
	return one(ok("Kubernetes %s is among %s to %s, which the embedded Karpenter supports", text, from, to))
}

// permissions checks whether whoever checks may write what an installation is made of.
func (c *checker) permissions(ctx context.Context) []Result {
	desired, err := c.installs()
	if err != nil {
		return one(failed("", "%v", err))
	}
	var denied []string
	for _, attributes := range desired {
		allowed, err := c.allowed(ctx, attributes)
		if err != nil {
			return c.unreadable(err)
		}
		if !allowed {
			denied = append(denied, rightText(attributes))
		}
	}
	if len(denied) > 0 {
		return one(failed("install with the credentials of a cluster administrator, or request these permissions",
			"you may not: %s", strings.Join(denied, ", ")))
	}
	// Whoever has all that a role grants may write the role without this right, too.
	escalate := authorizationv1.ResourceAttributes{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}
	switch allowed, err := c.allowed(ctx, escalate); {
	case err != nil:
		return c.unreadable(err)
	case !allowed:
		return one(warning("install with the credentials of a cluster administrator",
			"you may create each kind of object, but not escalate ClusterRoles: the API server refuses those that grant more than you have"))
	}
	return one(ok("you may create and patch each kind of object of an installation"))
}

// installs are the permissions by which an installation is applied, each once, sorted.
func (c *checker) installs() ([]authorizationv1.ResourceAttributes, error) {
	items, err := installation.Manifests{Namespace: c.Namespace}.Objects()
	if err != nil {
		return nil, err
	}
	desired := []authorizationv1.ResourceAttributes{}
	add := func(gk schema.GroupKind, apiVersion, namespace string) error {
		mapping, err := c.Kube.RESTMapper().RESTMapping(gk, apiVersion)
		if err != nil {
			return err
		}
		for _, verb := range []string{"get", "create", "patch"} {
			permission := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: mapping.Resource.Group, Resource: mapping.Resource.Resource}
			if !slices.Contains(desired, permission) {
				desired = append(desired, permission)
			}
		}
		return nil
	}
	for _, item := range items {
		if err := add(schema.GroupKind{Group: item.Key.Group, Kind: item.Key.Kind}, item.Version, item.Key.Namespace); err != nil {
			return nil, err
		}
	}
	for _, verb := range []string{"get", "create", "patch"} {
		// Its kind comes with the installation.
		desired = append(desired, authorizationv1.ResourceAttributes{Namespace: c.Namespace, Verb: verb, Group: v1alpha1.GroupVersion.Group, Resource: "syncs"})
	}
	slices.SortFunc(desired, func(a, b authorizationv1.ResourceAttributes) int { return strings.Compare(rightText(a), rightText(b)) })
	return desired, nil
}

func (c *checker) allowed(ctx context.Context, attributes authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}
	if err := c.Kube.Create(ctx, review); err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

func rightText(r authorizationv1.ResourceAttributes) string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// otherInstallation checks that none is in another namespace.
func (c *checker) otherInstallation(ctx context.Context) []Result {
	other, err := installation.ConflictingNamespace(ctx, c.Kube, c.Namespace)
	if err != nil {
		return c.unreadable(err)
	}
	if other != "" {
		return one(failed("pass -n "+other+", or run poolwright uninstall -n "+other+" first", "Poolwright is installed in namespace %s already", other))
	}
	live, err := installation.ReadLive(ctx, c.Kube, c.Namespace)
	if err != nil {
		return c.unreadable(err)
	}
	if live.Image != "" {
		return one(ok("Poolwright is installed in namespace %s already, with the image %s", c.Namespace, live.Image))
	}
	return one(ok("no other Poolwright is installed"))
}
