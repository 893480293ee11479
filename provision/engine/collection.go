package engine

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	instancecollection "github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclaim/garbagecollection"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/poolwright/poolwright/provision/engine/gate"
)

// instanceCollectionName is the provider's name for the controller that
// terminates instances without a NodeClaim.
const instanceCollectionName = "instance.garbagecollection"

// collectionController terminates instances without a NodeClaim: at the start, and every ten
// seconds in the first minutes after it.
func collectionController(p *parts) *gatedController {
	return &gatedController{
		name:       instanceCollectionName,
		inner:      instancecollection.NewController(collectionClient{p.client, p.live}, withoutOverlays{p.cloud}),
		allowed:    p.collection,
		retryAfter: collectionRetry,
	}
}

// collectionGuard is what must hold before instances without a NodeClaim are
// terminated: no instance in use beyond what the gates allow. The gates are checked every
// few minutes; a collection takes ten seconds to come round, so this checks them itself.
// It does not wait for fresh caches, which takes up to a minute after a failed request:
// what decides is read by collectionClient, past them.
func (e *Engine) collectionGuard(mgr manager.Manager, config aws.Config) func(context.Context) error {
	if e.config.AllowGarbageCollection != nil {
		return e.config.AllowGarbageCollection
	}
	return gate.Gates{
		Cluster: e.config.Settings.Cluster, Region: e.config.Settings.Region, Account: e.config.Settings.Account,
		REST: e.config.REST, Kube: mgr.GetAPIReader(), AWS: config, Clock: e.clock,
	}.CheckGarbageCollection
}

// collectionClient is the client of the controller that terminates instances without a
// NodeClaim. It lists NodeClaims from the API server: one that the cache lacks must
// keep its instance.
type collectionClient struct {
	client.Client
	live client.Reader
}

func (c collectionClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if claims, ok := list.(*karpv1.NodeClaimList); ok {
		return c.live.List(ctx, claims, options...)
	}
	return c.Client.List(ctx, list, options...)
}

// withoutOverlays lists instances without the NodeOverlays of their NodePools, which decide
// nothing about an instance without a NodeClaim. Karpenter's own list is an error as long as
// those of any instance's NodePool are not evaluated: for a moment after the start, and for as long as
// the instance types of the NodePool cannot be read.
type withoutOverlays struct{ cloudprovider.CloudProvider }

func (w withoutOverlays) List(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	options := *coreoptions.FromContext(ctx)
	options.FeatureGates.NodeOverlay = false
	return w.CloudProvider.List(coreoptions.ToContext(ctx, &options))
}
