// Package garbagecollection is Karpenter's controller that terminates instances without a
// NodeClaim, with NodeClaims as they are in the API server. It refuses to decide by a cache, and
// what it finds is terminated only where the engine's gates allow it. Start reading at
// NewController.
package garbagecollection

import (
	"context"
	"fmt"
	"slices"
	"time"

	upstream "github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclaim/garbagecollection"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision/engine/instancetypes"
)

// NewController returns Karpenter's controller. Nodes come from api; NodeClaims from live, which
// reads from the API server.
func NewController(api client.Client, live client.Reader, cloud cloudprovider.CloudProvider) *upstream.Controller {
	return upstream.NewController(liveClient{api, live}, launchedProvider{instancetypes.Without{CloudProvider: cloud}, live})
}

// liveClient is the client of the controller that terminates instances without a
// NodeClaim. It lists NodeClaims from the API server: one that the cache lacks must
// keep its instance.
type liveClient struct {
	client.Client
	live client.Reader
}

func (c liveClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if claims, ok := list.(*karpv1.NodeClaimList); ok {
		return c.live.List(ctx, claims, options...)
	}
	return c.Client.List(ctx, list, options...)
}

// launchedProvider lists instances for the controller that terminates those without a NodeClaim.
type launchedProvider struct {
	cloudprovider.CloudProvider
	live client.Reader
}

// List implements cloudprovider.CloudProvider. It leaves out an instance that may be the one of a
// NodeClaim whose status has no provider ID yet: where the API server was away when EC2 launched
// it, the write is tried again after up to a minute, which is later than a collection. An instance
// that a crash has left behind is listed as soon as its NodeClaim has another.
func (p launchedProvider) List(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	instances, err := p.CloudProvider.List(ctx)
	if err != nil || len(instances) == 0 {
		return instances, err
	}
	var claims karpv1.NodeClaimList
	if err := p.live.List(ctx, &claims); err != nil {
		return nil, fmt.Errorf("listing the NodeClaims that are being launched: %w", err)
	}
	launching := slices.DeleteFunc(claims.Items, func(c karpv1.NodeClaim) bool {
		return c.Status.ProviderID != "" || !c.DeletionTimestamp.IsZero()
	})
	return slices.DeleteFunc(slices.Clone(instances), func(instance *karpv1.NodeClaim) bool {
		return slices.ContainsFunc(launching, func(c karpv1.NodeClaim) bool { return mayBeOf(instance, c) })
	}), nil
}

// clockSkew is by how much the clocks of EC2 and of the API server may differ.
const clockSkew = 30 * time.Second

// mayBeOf reports whether an instance can be the one that was launched for a NodeClaim. Until its
// status has the provider ID, the pool and the time are all that both have.
func mayBeOf(instance *karpv1.NodeClaim, c karpv1.NodeClaim) bool {
	return instance.Labels[karpv1.NodePoolLabelKey] == c.Labels[karpv1.NodePoolLabelKey] &&
		!instance.CreationTimestamp.Add(clockSkew).Before(c.CreationTimestamp.Time)
}
