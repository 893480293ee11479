package simulate

import (
	"context"

	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
)

// Stock is what the fleet's pools can buy, for tests that run Karpenter's
// controllers on it.
func Stock(ctx context.Context, from provision.Fleet, types *catalog.Catalog) (map[string][]*cloudprovider.InstanceType, error) {
	f := newFleet(from, unknowns{})
	m, err := newOfferingCatalog(ctx, from.Cluster.Region, types, unknowns{})
	if err != nil {
		return nil, err
	}
	if err := m.resolve(ctx, f); err != nil {
		return nil, err
	}
	out := map[string][]*cloudprovider.InstanceType{}
	for name, s := range f.offerings {
		out[name] = s.all
	}
	return out, nil
}
