package operator

import (
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/poolwright/poolwright/provision/pricelist/published"
	"github.com/poolwright/poolwright/reconciler/history/collector"
)

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

// addPublisher puts on the manager what publishes prices, offerings and reservations. Without an engine, which reads
// them, it only deletes those that are not to be published.
func (a *app) addPublisher(mgr manager.Manager, fenced client.Client) error {
	publisher := &published.Publisher{
		Live: fenced, Cached: mgr.GetClient(), Namespace: a.cfg.Namespace,
		Prices: a.cfg.PublishPrices, Reservations: a.cfg.PublishReservations, Clock: clock.RealClock{}, Log: a.cfg.Logger.WithName("price-list"),
	}
	if a.engine != nil {
		publisher.Offerings = a.engine.Offerings
	}
	if err := mgr.Add(publisher); err != nil {
		return fmt.Errorf("registering the publisher of prices: %w", err)
	}
	return nil
}
