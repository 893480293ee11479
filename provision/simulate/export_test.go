package simulate

import (
	"context"

	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// Stock is what the fleet's pools can buy, for tests that run Karpenter's
// controllers on it.
func Stock(ctx context.Context, from provision.ClusterSnapshot, types *catalog.Catalog) (map[string][]*cloudprovider.InstanceType, error) {
	f := snapshot.New(from, snapshot.Unknowns{})
	m, err := offerings.NewCatalog(ctx, from.Cluster, types, snapshot.Unknowns{})
	if err != nil {
		return nil, err
	}
	resolved, err := m.Resolve(ctx, f)
	if err != nil {
		return nil, err
	}
	out := map[string][]*cloudprovider.InstanceType{}
	for name, s := range resolved.Offerings {
		out[name] = s.All
	}
	return out, nil
}
