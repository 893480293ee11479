package wire

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/impact"
)

// fleetMaxAge is how long the plans of pull requests use one reading of the fleet: it is of
// all pods and nodes, and plans come in numbers.
const fleetMaxAge = 10 * time.Second

// liveForecast forecasts for the cluster of a client, with simulations in children.
func liveForecast(live client.Reader, fleet *impact.Fleet, in *child.Runner) impact.Forecaster {
	return impact.Live(decidingCluster(live), fleet, simulateIn(in))
}

// decidingCluster reads the Cluster that decides.
func decidingCluster(live client.Reader) impact.LiveCluster {
	return func(ctx context.Context) (*v1alpha1.Cluster, error) {
		now, err := cluster.ReadDesired(ctx, live)
		return now.Cluster, err
	}
}

// drifted is simulate.Drifted with a cluster's settings of the engine.
func drifted(ctx context.Context, spec v1alpha1.ClusterSpec, live provision.Fleet) ([]provision.Node, map[string][]string, error) {
	return simulate.Drifted(engine.Offline(ctx, cluster.EngineSettings(spec)), live)
}

// simulateIn runs simulations in children.
func simulateIn(in *child.Runner) impact.Simulate {
	return func(ctx context.Context, spec v1alpha1.ClusterSpec, before, after provision.Fleet) (provision.Forecast, error) {
		return in.Forecast(ctx, cluster.EngineSettings(spec), before, after)
	}
}
