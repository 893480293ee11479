package engine

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/poolwright/poolwright/provision/engine/gate"
)

// collectionGuard is what must hold before instances without a NodeClaim are
// terminated: a fresh view, and no instance in use beyond what the gates allow. The gates
// are checked every few minutes; a collection takes ten seconds to come round, so this
// checks them itself.
func (e *Engine) collectionGuard(mgr manager.Manager, config aws.Config) func(context.Context) error {
	allowed := e.config.AllowGarbageCollection
	if allowed == nil {
		allowed = gate.Gates{
			Cluster: e.config.Settings.Cluster, Region: e.config.Settings.Region, Account: e.config.Settings.Account,
			REST: e.config.REST, Kube: mgr.GetAPIReader(), AWS: config, Clock: e.clock,
		}.CheckGarbageCollection
	}
	return func(ctx context.Context) error {
		if err := e.fresh.Check(ctx); err != nil {
			return err
		}
		return allowed(ctx)
	}
}
