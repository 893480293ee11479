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
