package simulate

import (
	"context"

	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// Stock is what the snapshot's pools can buy, for tests that run Karpenter's
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

// Replacement is what a node is reckoned to become.
type Replacement struct{ InstanceType, CapacityType, Zone string }

// CompareWithReplacements is Compare, with what the nodes that the change replaces are reckoned to become, by NodeClaim; those
// after which no node comes are absent.
func CompareWithReplacements(ctx context.Context, before, after provision.ClusterSnapshot, types *catalog.Catalog) (provision.Forecast, map[string][]Replacement, error) {
	c, err := newComparison(ctx, before, after, types)
	if err == nil {
		err = c.fit(ctx)
	}
	if err == nil {
		err = c.checkLimits(ctx)
	}
	if err == nil {
		err = c.replacements(ctx)
	}
	if err != nil {
		return provision.Forecast{}, nil, err
	}
	out := map[string][]Replacement{}
	for name, pool := range c.after.Pools {
		outcomes := c.nodeOutcomes(name)
		for _, claim := range c.before.Claims[name] {
			if o := outcomes[claim.Name]; !o.replaced || o.deleted {
				continue
			}
			for _, next := range c.launchedFor(claim, pool, ownOffer(claim)) {
				out[claim.Name] = append(out[claim.Name], Replacement{next.InstanceType, next.CapacityType, next.Zone})
			}
		}
	}
	return c.result(), out, nil
}

// SetMostWork sets the bound of what is simulated of replaced nodes, and returns what sets it back.
func SetMostWork(to int) func() {
	was := mostWork
	mostWork = to
	return func() { mostWork = was }
}
