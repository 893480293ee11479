// Package kinds lists the kinds that a cluster serves, and those that it will serve
// once the CustomResourceDefinitions of the same commit are there.
//
// It refuses to conclude from a partial discovery: a group whose discovery failed (an
// aggregated API that is down) is an error, not an unknown kind. Start reading at
// Catalog.
package kinds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Kind is one kind in one version, as the cluster serves it.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural in the URL.
	Resource string
	// Namespaced is whether its objects live in namespaces.
	Namespaced bool
	// Manageable is whether its objects can be listed, patched and deleted.
	Manageable bool
	// DeclaredOnly is true for a kind that only a CustomResourceDefinition in the
	// desired set defines: the cluster may not serve it yet.
	DeclaredOnly bool
}

// GVR is the resource's full name.
func (k Kind) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}
}

// RESTMapper caches the kinds. It is safe for concurrent use.
type RESTMapper struct {
	disco discovery.DiscoveryInterfaceWithContext

	mu       sync.RWMutex
	served   map[schema.GroupVersionKind]Kind
	promised map[schema.GroupVersionKind]Kind
	failed   map[schema.GroupVersion]error
}

// NewRESTMapper makes an empty RESTMapper that reads from disco.
func NewRESTMapper(disco discovery.DiscoveryInterfaceWithContext) *RESTMapper {
	return &RESTMapper{disco: disco}
}

// Refresh reads the cluster's kinds again. With aggregated discovery this is two
// requests, whatever the number of kinds.
func (c *RESTMapper) Refresh(ctx context.Context) error {
	_, lists, err := c.disco.ServerGroupsAndResourcesWithContext(ctx)
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return fmt.Errorf("reading the cluster's kinds: %w", err)
	}
	served := map[schema.GroupVersionKind]Kind{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			if k, ok := toKind(gv, r); ok {
				served[k.GroupVersionKind] = k
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served, c.failed = served, nil
	if partial != nil {
		c.failed = partial.Groups
	}
	return nil
}

func toKind(gv schema.GroupVersion, r metav1.APIResource) (Kind, bool) {
	if strings.Contains(r.Name, "/") {
		return Kind{}, false // A subresource.
	}
	gvk := gv.WithKind(r.Kind)
	if r.Group != "" {
		gvk.Group = r.Group
	}
	if r.Version != "" {
		gvk.Version = r.Version
	}
	manageable := slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "patch") && slices.Contains(r.Verbs, "delete")
	return Kind{GroupVersionKind: gvk, Resource: r.Name, Namespaced: r.Namespaced, Manageable: manageable}, true
}

// Failed lists the API groups for which the cluster could not report what it serves,
// with the reason of one version of each.
func (c *RESTMapper) Failed() map[string]error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make(map[string]error, len(c.failed))
	for gv, err := range c.failed {
		out[gv.Group] = err
	}
	return out
}

// Loaded reports whether Refresh has succeeded before.
func (c *RESTMapper) Loaded() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.served != nil
}

// Find returns the kind from memory. It reports false for a kind that is neither served
// nor promised, and an error where the cluster could not report it.
func (c *RESTMapper) Find(gvk schema.GroupVersionKind) (Kind, bool, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if k, ok := c.served[gvk]; ok {
		return k, true, nil
	}
	if k, ok := c.promised[gvk]; ok {
		return k, true, nil
	}
	if err := c.failed[gvk.GroupVersion()]; err != nil {
		return Kind{}, false, fmt.Errorf("reading the cluster's kinds of %s: %w", gvk.GroupVersion(), err)
	}
	return Kind{}, false, nil
}

// Lookup is FindAny, with a request to the cluster where memory has no such version.
func (c *RESTMapper) Lookup(ctx context.Context, gvk schema.GroupVersionKind) (Kind, bool, error) {
	if kind, ok, _ := c.Find(gvk); ok {
		return kind, true, nil
	}
	if err := c.Refresh(ctx); err != nil {
		return Kind{}, false, err
	}
	return c.FindAny(gvk)
}

// FindAny is Find for a kind in any version that is served, the given one
// first. It serves things whose recorded version is no longer there.
func (c *RESTMapper) FindAny(gvk schema.GroupVersionKind) (Kind, bool, error) {
	k, ok, err := c.Find(gvk)
	if ok {
		return k, true, nil
	}
	versions := c.Versions(gvk.Group, gvk.Kind)
	if len(versions) > 0 {
		return c.Find(schema.GroupVersionKind{Group: gvk.Group, Version: versions[0], Kind: gvk.Kind})
	}
	if err != nil {
		return Kind{}, false, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for gv, cause := range c.failed {
		if gv.Group == gvk.Group {
			return Kind{}, false, fmt.Errorf("reading the cluster's kinds of %s: %w", gv, cause)
		}
	}
	return Kind{}, false, nil
}

// Versions lists the versions in which the kind is served or promised.
func (c *RESTMapper) Versions(group, kind string) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var out []string
	for _, from := range []map[schema.GroupVersionKind]Kind{c.served, c.promised} {
		for gvk := range from {
			if gvk.Group == group && gvk.Kind == kind && !slices.Contains(out, gvk.Version) {
				out = append(out, gvk.Version)
			}
		}
	}
	slices.Sort(out)
	return out
}

// All lists the served kinds whose objects can be managed, one version each,
// sorted.
func (c *RESTMapper) All() []Kind {
	c.mu.RLock()
	defer c.mu.RUnlock()
	best := map[schema.GroupKind]Kind{}
	for gvk, k := range c.served {
		if old, ok := best[gvk.GroupKind()]; k.Manageable && (!ok || stabler(k.Version, old.Version)) {
			best[gvk.GroupKind()] = k
		}
	}
	out := make([]Kind, 0, len(best))
	for _, k := range best {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b Kind) int { return strings.Compare(a.GVR().String(), b.GVR().String()) })
	return out
}

// stabler prefers v1 to v1beta1 and v2 to v1.
func stabler(a, b string) bool {
	fa, fb := !strings.ContainsAny(a, "ab"), !strings.ContainsAny(b, "ab")
	if fa != fb {
		return fa
	}
	return a > b
}

// SetDeclared replaces the promised kinds by those that the given
// CustomResourceDefinitions define.
func (c *RESTMapper) SetDeclared(definitions []map[string]any) {
	promised := map[schema.GroupVersionKind]Kind{}
	for _, d := range definitions {
		for _, k := range Defined(d) {
			promised[k.GroupVersionKind] = k
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.promised = promised
}
