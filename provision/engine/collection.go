package engine

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/poolwright/poolwright/provision/engine/garbagecollection"
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
		inner:      garbagecollection.NewController(p.client, p.live, p.cloud),
		allowed:    p.collection,
		retryAfter: collectionRetry,
	}
}

// collectionGuard is what must hold before instances without a NodeClaim are
// terminated: no instance in use beyond what the gates allow. The gates are checked every
// few minutes; a collection takes ten seconds to come round, so this checks them itself.
// It does not wait for fresh caches, which takes up to a minute after a failed request:
// what decides is read past them.
func (e *Engine) collectionGuard(mgr manager.Manager, config aws.Config) func(context.Context) error {
	if e.config.AllowGarbageCollection != nil {
		return e.config.AllowGarbageCollection
	}
	return gate.Gates{
		Cluster: e.config.Settings.Cluster, Region: e.config.Settings.Region, Account: e.config.Settings.Account,
		REST: e.config.REST, Kube: mgr.GetAPIReader(), AWS: config, Clock: e.clock,
	}.CheckGarbageCollection
}
