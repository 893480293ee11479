package connect

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/ssmversion"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// ReadParameters reads parameters in the region of the live Cluster; before there is one,
// in that of the process.
func ReadParameters(ctx context.Context, live client.Reader, names []string) (map[string]ssmversion.Reading, error) {
	region, err := regionOf(ctx, live)
	if err != nil {
		return nil, err
	}
	return readIn(ctx, region, names)
}

// WithParameters is a Sync of a file with the values that its SSM parameters would have, as
// by [variables.WithValues]. The newest are those of the region, or where it is empty of
// that which a controller would choose.
func WithParameters(ctx context.Context, live client.Client, sync *v1alpha1.Sync, region string) (*v1alpha1.Sync, error) {
	if len(ssmversion.Names(sync)) == 0 {
		return sync, nil
	}
	now, err := LiveSync(ctx, live, sync.Namespace, sync.Name)
	if err != nil {
		return nil, err
	}
	return variables.WithValues(ctx, sync, now, func(ctx context.Context, names []string) (map[string]ssmversion.Reading, error) {
		if region == "" {
			return ReadParameters(ctx, live, names)
		}
		return readIn(ctx, region, names)
	})
}

// ParameterValues are the values of the SSM parameters of a Sync of a file, by variable:
// those that the live Sync of its name has, and where that has none, the newest in a
// region; an empty one is chosen as a controller does it. A parameter without a value is
// an error. Nothing is written.
func ParameterValues(ctx context.Context, live client.Client, sync *v1alpha1.Sync, region string) (map[string]string, error) {
	found, err := WithParameters(ctx, live, sync, region)
	if err != nil {
		return nil, err
	}
	return variables.Pinned(found)
}

// readIn reads parameters in a region.
func readIn(ctx context.Context, region string, names []string) (map[string]ssmversion.Reading, error) {
	found, err := aws.ReadParameters(ctx, engine.LoadAWS, region, names)
	out := make(map[string]ssmversion.Reading, len(found))
	for name, one := range found {
		out[name] = ssmversion.Reading(one)
	}
	return out, err
}

// regionOf is the region of the live Cluster, or that which the environment names.
func regionOf(ctx context.Context, live client.Reader) (string, error) {
	all, err := cluster.Clusters(ctx, live)
	switch {
	case err != nil:
		return "", err
	case len(all) > 0:
		return all[0].Spec.Region, nil
	}
	cfg, err := engine.LoadAWS(ctx, "")
	if err != nil {
		return "", err
	}
	if cfg.Region == "" {
		return "", state.Failf(state.Retry, "RegionUnknown", "SSM parameters are those of a region, and there is no Cluster object yet that names it: set AWS_REGION where poolwright runs")
	}
	return cfg.Region, nil
}
