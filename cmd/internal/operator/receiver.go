package operator

import (
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/poolwright/poolwright/reconciler/receiver"
)

// addReceiver puts the webhook server on the manager, if it has an address.
func (a *app) addReceiver(mgr manager.Manager) error {
	if a.cfg.ReceiverAddress == "" || a.cfg.ReceiverAddress == "0" {
		return nil
	}
	server := receiver.New(receiver.Config{
		Address: a.cfg.ReceiverAddress, Namespace: a.cfg.Namespace,
		Syncs: mgr.GetClient(), Direct: a.direct, Clock: clock.RealClock{}, Log: a.cfg.Logger.WithName("webhook"),
	})
	if err := metrics.Registry.Register(server.Metrics()); err != nil {
		return fmt.Errorf("registering the webhooks' metric: %w", err)
	}
	if err := mgr.Add(server); err != nil {
		return fmt.Errorf("registering the webhook server: %w", err)
	}
	return nil
}
