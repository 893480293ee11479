package connect

import (
	"context"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/provision/simulate/diagnosis"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/forecasting"
)

// Forecast forecasts for the cluster of a client, with simulations in children.
func Forecast(live client.Reader, snapshot *forecasting.SnapshotReader, in *child.Runner, known forecasting.AWSReader) forecasting.ForecastFunc {
	return forecasting.Live{Cluster: cluster.Live(live), Snapshot: snapshot, Simulate: Simulate(in), AWSReader: known}.Forecast
}

// EngineAWS is what an engine, which may be nil, has read of its region.
func EngineAWS(eng *engine.Engine) forecasting.AWSReader {
	if eng == nil {
		return forecasting.AWSReader{}
	}
	return forecasting.AWSReader{
		Offerings: func(context.Context, v1alpha1.ClusterSpec) *pricelist.List { return eng.Offerings() },
		CapacityReservations: func(ctx context.Context, _ v1alpha1.ClusterSpec, terms []awsv1.CapacityReservationSelectorTerm) ([]provision.CapacityReservation, error) {
			return eng.CapacityReservations(ctx, terms)
		},
	}
}

// Drifted is simulate.Drifted with a cluster's settings of the engine.
func Drifted(ctx context.Context, spec v1alpha1.ClusterSpec, live provision.ClusterSnapshot) ([]provision.Node, map[string][]string, error) {
	return simulate.Drifted(engine.Offline(ctx, cluster.EngineSettings(spec)), live)
}

// PoolCosts is simulate.PoolCosts with a cluster's settings of the engine, at the prices that AWS returned to the engine
// where it is not nil, and else at the catalog's.
func PoolCosts(eng *engine.Engine) func(context.Context, v1alpha1.ClusterSpec, provision.ClusterSnapshot) (map[string]provision.Amount, error) {
	return func(ctx context.Context, spec v1alpha1.ClusterSpec, live provision.ClusterSnapshot) (map[string]provision.Amount, error) {
		types, err := catalog.Load()
		if err != nil {
			return nil, err
		}
		if eng != nil {
			live.Cluster.Offerings = eng.Offerings()
		}
		return simulate.PoolCosts(engine.Offline(ctx, cluster.EngineSettings(spec)), live, types)
	}
}

// Diagnose is diagnosis.Pod with a cluster's settings of the engine.
func Diagnose(ctx context.Context, spec v1alpha1.ClusterSpec, live provision.ClusterSnapshot, types *catalog.Catalog, pod *corev1.Pod, volumes []diagnosis.Volume) (diagnosis.Result, error) {
	return diagnosis.Pod(engine.Offline(ctx, cluster.EngineSettings(spec)), live, types, pod, volumes)
}

// DisruptionCandidate is simulate.DisruptionCandidate with a cluster's settings of the engine.
func DisruptionCandidate(ctx context.Context, spec v1alpha1.ClusterSpec, live provision.ClusterSnapshot, claim string) (simulate.Candidate, error) {
	return simulate.DisruptionCandidate(engine.Offline(ctx, cluster.EngineSettings(spec)), live, claim)
}

// Simulate runs simulations in children.
func Simulate(in *child.Runner) forecasting.Simulate {
	return func(ctx context.Context, spec v1alpha1.ClusterSpec, before, after provision.ClusterSnapshot) (provision.Forecast, error) {
		return in.Forecast(ctx, cluster.EngineSettings(spec), before, after)
	}
}
