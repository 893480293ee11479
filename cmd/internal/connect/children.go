package connect

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/impact"
)

// Forecast forecasts for the cluster of a client, with simulations in children. The engine, where it
// is not nil, has what AWS returned of the region's prices, offerings and capacity reservations.
func Forecast(live client.Reader, fleet *impact.SnapshotReader, in *child.Runner, eng *engine.Engine) impact.ForecastFunc {
	out := impact.Live{Cluster: cluster.Live(live), Snapshot: fleet, Simulate: Simulate(in)}
	if eng != nil {
		out.Offerings, out.CapacityReservations = eng.Offerings, eng.CapacityReservations
	}
	return out.Forecast
}

// Drifted is simulate.Drifted with a cluster's settings of the engine.
func Drifted(ctx context.Context, spec v1alpha1.ClusterSpec, live provision.ClusterSnapshot) ([]provision.Node, map[string][]string, error) {
	return simulate.Drifted(engine.Offline(ctx, cluster.EngineSettings(spec)), live)
}

// Simulate runs simulations in children.
func Simulate(in *child.Runner) impact.Simulate {
	return func(ctx context.Context, spec v1alpha1.ClusterSpec, before, after provision.ClusterSnapshot) (provision.Forecast, error) {
		return in.Forecast(ctx, cluster.EngineSettings(spec), before, after)
	}
}
