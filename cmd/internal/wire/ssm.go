package wire

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/ssmversion"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
)

// askParameters reads parameters in the region of the live Cluster; before there is one,
// in that of the process.
func askParameters(ctx context.Context, live client.Reader, names []string) (map[string]ssmversion.Reading, error) {
	region, err := regionOf(ctx, live)
	if err != nil {
		return nil, err
	}
	return askIn(ctx, region, names)
}

// askIn reads parameters in a region.
func askIn(ctx context.Context, region string, names []string) (map[string]ssmversion.Reading, error) {
	found, err := aws.ReadParameters(ctx, engine.LoadAWS, region, names)
	out := make(map[string]ssmversion.Reading, len(found))
	for name, one := range found {
		out[name] = ssmversion.Reading(one)
	}
	return out, err
}

// regionOf is the region of the live Cluster, or that which the environment names.
func regionOf(ctx context.Context, live client.Reader) (string, error) {
	var list v1alpha1.ClusterList
	err := live.List(ctx, &list)
	switch {
	case err == nil && len(list.Items) > 0:
		return list.Items[0].Spec.Region, nil
	case err != nil && !meta.IsNoMatchError(err):
		return "", fmt.Errorf("reading the Cluster object: %w", err)
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
