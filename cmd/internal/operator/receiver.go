package operator

import (
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

<<<<<<< HEAD:cmd/internal/operator/receiver.go
=======
	"github.com/poolwright/poolwright/provision/pricelist/published"
	"github.com/poolwright/poolwright/reconciler/history/collector"
>>>>>>> market:cmd/internal/operator/optional.go
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
<<<<<<< HEAD:cmd/internal/operator/receiver.go
=======

// addPriceList puts what publishes prices and offerings on the manager, if they are to be published and read.
func (a *app) addPriceList(mgr manager.Manager, fenced client.Client) error {
	if !a.cfg.PublishPrices || a.engine == nil {
		return nil
	}
	err := mgr.Add(&published.Publisher{
		Live: fenced, Cached: mgr.GetClient(), Namespace: a.cfg.Namespace, Offerings: a.engine.Offerings,
		Clock: clock.RealClock{}, Log: a.cfg.Logger.WithName("price-list"),
	})
	if err != nil {
		return fmt.Errorf("registering the publisher of the price list: %w", err)
	}
	return nil
}

// addHistory puts what records the history on the manager, if it is to be recorded.
func (a *app) addHistory(mgr manager.Manager, fenced client.Client) error {
	if a.history == nil {
		return nil
	}
	cfg := collector.Config{
		Cached: mgr.GetClient(), Live: fenced, Namespace: a.cfg.Namespace, Nodes: a.engine != nil,
		Registry: metrics.Registry, Clock: clock.RealClock{}, Log: a.cfg.Logger.WithName("history"),
	}
	if a.engine != nil {
		cfg.Offerings = a.engine.Offerings
	}
	return a.history.AddTo(mgr, cfg)
}
>>>>>>> market:cmd/internal/operator/optional.go
