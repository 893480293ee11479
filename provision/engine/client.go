package engine

import (
	"context"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// engineClient is the client that every controller of the engine gets. It replaces invalid AMI aliases of
// EC2NodeClasses in the API server's responses to writes; the cache has a
// transform for the same.
type engineClient struct{ client.Client }

// newClientFunc wraps the manager's way of building its client.
func newClientFunc(build client.NewClientFunc) client.NewClientFunc {
	if build == nil {
		build = client.New
	}
	return func(config *rest.Config, options client.Options) (client.Client, error) {
		inner, err := build(config, options)
		if err != nil {
			return nil, err
		}
		return &engineClient{inner}, nil
	}
}

func (c *engineClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return withValidAliases(object, c.Client.Get(ctx, key, object, options...))
}

func (c *engineClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return withValidAliases(object, c.Client.Create(ctx, object, options...))
}

func (c *engineClient) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return withValidAliases(object, c.Client.Update(ctx, object, options...))
}

func (c *engineClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return withValidAliases(object, c.Client.Patch(ctx, object, patch, options...))
}

func (c *engineClient) Status() client.SubResourceWriter {
	return engineStatus{c.Client.Status()}
}

// engineStatus replaces them in the responses to status writes.
type engineStatus struct{ client.SubResourceWriter }

func (s engineStatus) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	return withValidAliases(object, s.SubResourceWriter.Update(ctx, object, options...))
}

func (s engineStatus) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	return withValidAliases(object, s.SubResourceWriter.Patch(ctx, object, patch, options...))
}

func withValidAliases(object client.Object, err error) error {
	if class, ok := object.(*awsv1.EC2NodeClass); ok {
		ReplaceInvalidAliases(class)
	}
	return err
}

// guardedClient lets reads pass and checks before every write: it is given to the queue
// that carries disruptions out, because between the decision's first read and its last
// step lie fifteen seconds of validation.
type guardedClient struct {
	client.Client
	allowed func(context.Context) error
}

func (c guardedClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := c.allowed(ctx); err != nil {
		return err
	}
	return c.Client.Delete(ctx, object, options...)
}

func (c guardedClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if err := c.allowed(ctx); err != nil {
		return err
	}
	return c.Client.Patch(ctx, object, patch, options...)
}

func (c guardedClient) Status() client.SubResourceWriter {
	return guardedStatus{c.Client.Status(), c.allowed}
}

type guardedStatus struct {
	client.SubResourceWriter
	allowed func(context.Context) error
}

func (s guardedStatus) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	if err := s.allowed(ctx); err != nil {
		return err
	}
	return s.SubResourceWriter.Patch(ctx, object, patch, options...)
}
