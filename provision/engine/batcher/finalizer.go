package batcher

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// FinalizedClient returns inner with Karpenter's finalizer on each NodeClaim that it creates, for the
// provisioner. Karpenter's lifecycle controller requests an instance only for a NodeClaim with the finalizer, and
// adds it by a patch that fails with a conflict where another controller has written the NodeClaim's first
// conditions meanwhile: one request, or two, before each launch. A NodeClaim that is deleted while no engine runs
// stays until one does, also where it has no instance yet.
func FinalizedClient(inner client.Client) client.Client { return finalizedClient{inner} }

type finalizedClient struct{ client.Client }

// Create adds the finalizer to a NodeClaim.
func (c finalizedClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if claim, ok := object.(*karpv1.NodeClaim); ok {
		controllerutil.AddFinalizer(claim, karpv1.TerminationFinalizer)
	}
	return c.Client.Create(ctx, object, options...)
}
