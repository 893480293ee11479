// Package api is the thin layer of requests to one API server: paged lists,
// server-side apply, deletions with preconditions, watches, and errors that
// are what a person can do.
//
// It refuses any memory of what it read, and client-side rate limits but those that are
// configured: the API server's own priority and fairness decides. Start reading at
// Client.
package api

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Client sends requests to one API server.
type Client struct {
	dyn   dynamic.Interface
	meta  metadata.Interface
	disco discovery.DiscoveryInterfaceWithContext
	// Manager is the field manager of all writes.
	Manager string
}

const (
	// pageSize is how many whole objects one response to List holds at most.
	pageSize = 500
	// namesPageSize is the same of Names: metadata takes a fraction of an object, and 10,000 objects are 14
	// requests less.
	namesPageSize = 5000
)

// New makes a Client that writes as manager. The config is not changed. Each request
// waits for the limiter, where there is one.
func New(config *rest.Config, manager string, warn rest.WarningHandlerWithContext, limiter flowcontrol.RateLimiter) (*Client, error) {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst, c.RateLimiter = -1, 0, limiter
	c.WarningHandler, c.WarningHandlerWithContext = nil, warn
	c.UserAgent = manager
	http, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", c.Host, err)
	}
	dyn, err := dynamic.NewForConfigAndClient(c, http)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", c.Host, err)
	}
	meta, err := metadata.NewForConfigAndClient(c, http)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", c.Host, err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(c, http)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", c.Host, err)
	}
	return &Client{dyn: dyn, meta: meta, disco: disco, Manager: manager}, nil
}

// Discovery reads the kinds that the cluster serves.
func (c *Client) Discovery() discovery.DiscoveryInterfaceWithContext { return c.disco }

// Ref names one object, or with an empty Name all of a resource in a
// namespace (empty: everywhere).
type Ref struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

// fieldSelector selects the object with the name, where there is one.
func (r Ref) fieldSelector() string {
	if r.Name == "" {
		return ""
	}
	return fields.OneTermEqualSelector(metav1.ObjectNameField, r.Name).String()
}

func (c *Client) at(r Ref) dynamic.ResourceInterface {
	if r.Namespace == "" {
		return c.dyn.Resource(r.Resource)
	}
	return c.dyn.Resource(r.Resource).Namespace(r.Namespace)
}

// Get reads one object from etcd, never from a cache that may be behind.
func (c *Client) Get(ctx context.Context, r Ref) (*unstructured.Unstructured, error) {
	return c.at(r).Get(ctx, r.Name, metav1.GetOptions{})
}

// List gives each object of the Ref that the label selector matches to visit, page by
// page, and returns the resourceVersion of the list. When a page token expires
// it starts again, so visit may get an object twice, the newest last.
func (c *Client) List(ctx context.Context, r Ref, selector string, visit func(*unstructured.Unstructured)) (string, error) {
	for attempt := 0; ; attempt++ {
		version, err := c.list(ctx, r, selector, visit)
		if err == nil || !apierrors.IsResourceExpired(err) || attempt == 2 {
			return version, err
		}
	}
}

func (c *Client) list(ctx context.Context, r Ref, selector string, visit func(*unstructured.Unstructured)) (string, error) {
	opts := metav1.ListOptions{LabelSelector: selector, FieldSelector: r.fieldSelector(), Limit: pageSize}
	for {
		page, err := c.at(r).List(ctx, opts)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			visit(&page.Items[i])
			page.Items[i].Object = nil // Let it go before the next page comes.
		}
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			return page.GetResourceVersion(), nil
		}
	}
}

// Names is List for the metadata alone, and takes a field selector too.
func (c *Client) Names(ctx context.Context, r Ref, labels, fields string, visit func(*metav1.PartialObjectMetadata)) error {
	var in metadata.ResourceInterface = c.meta.Resource(r.Resource)
	if r.Namespace != "" {
		in = c.meta.Resource(r.Resource).Namespace(r.Namespace)
	}
	opts := metav1.ListOptions{LabelSelector: labels, FieldSelector: fields, Limit: namesPageSize}
	for attempt := 0; ; {
		page, err := in.List(ctx, opts)
		if apierrors.IsResourceExpired(err) && attempt < 2 {
			attempt, opts.Continue = attempt+1, ""
			continue
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			return nil
		}
	}
}

// Watch streams changes of the objects of the Ref after the given version.
func (c *Client) Watch(ctx context.Context, r Ref, selector, version string, seconds int64) (watch.Interface, error) {
	return c.at(r).Watch(ctx, metav1.ListOptions{
		LabelSelector: selector, FieldSelector: r.fieldSelector(), ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
}

// ApplyOptions are how to apply.
type ApplyOptions struct {
	// Force takes fields from other managers.
	Force bool
	// DryRun lets the API server do everything but store.
	DryRun bool
	// Manager replaces the client's own, where not empty.
	Manager string
}

// Apply sends a server-side apply and returns the object as stored.
func (c *Client) Apply(ctx context.Context, r Ref, object map[string]any, o ApplyOptions) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	opts := metav1.PatchOptions{FieldManager: c.Manager, Force: &o.Force}
	if o.Manager != "" {
		opts.FieldManager = o.Manager
	}
	if o.DryRun {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	return c.at(r).Patch(ctx, r.Name, types.ApplyYAMLPatchType, body, opts)
}

// Patch sends a JSON patch.
func (c *Client) Patch(ctx context.Context, r Ref, patch []byte) (*unstructured.Unstructured, error) {
	return c.at(r).Patch(ctx, r.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: c.Manager})
}

// Create stores a new object.
func (c *Client) Create(ctx context.Context, r Ref, object map[string]any) (*unstructured.Unstructured, error) {
	return c.at(r).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldManager: c.Manager})
}

// Update replaces an object, when its resourceVersion is still the given one.
func (c *Client) Update(ctx context.Context, r Ref, object map[string]any) (*unstructured.Unstructured, error) {
	return c.at(r).Update(ctx, &unstructured.Unstructured{Object: object}, metav1.UpdateOptions{FieldManager: c.Manager})
}

// Delete deletes exactly the incarnation and version that are given, its
// dependants in the background. An empty version is no precondition.
func (c *Client) Delete(ctx context.Context, r Ref, uid types.UID, version string) error {
	background := metav1.DeletePropagationBackground
	pre := &metav1.Preconditions{UID: &uid}
	if version != "" {
		pre.ResourceVersion = &version
	}
	return c.at(r).Delete(ctx, r.Name, metav1.DeleteOptions{Preconditions: pre, PropagationPolicy: &background})
}
