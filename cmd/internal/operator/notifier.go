package operator

import (
	"fmt"
	"os"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/poolwright/poolwright/reconciler/notification"
)

// addNotifier puts what sends events on the manager, if it has an address.
func (a *app) addNotifier(mgr manager.Manager) error {
	if a.cfg.EventsAddress == "" {
		return nil
	}
	instance, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("reading the name of this host: %w", err)
	}
	notifier, err := notification.New(notification.Config{
		Address: a.cfg.EventsAddress, Instance: instance, Clock: clock.RealClock{}, Log: a.cfg.Logger.WithName("notification"),
	})
	if err != nil {
		return fmt.Errorf("--events-addr: %w", err)
	}
	if err := metrics.Registry.Register(notifier.Metrics()); err != nil {
		return fmt.Errorf("registering the metric of events that are sent: %w", err)
	}
	if err := mgr.Add(notifier); err != nil {
		return fmt.Errorf("registering what sends events: %w", err)
	}
	a.notifier = notifier
	return nil
}
