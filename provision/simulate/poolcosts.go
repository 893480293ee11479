package simulate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// PoolCosts are what the nodes of a live cluster cost an hour, by NodePool: what [Compare] has as the cost of now.
// The context must be one of engine.Offline. An error is of a catalog that is empty.
func PoolCosts(ctx context.Context, live provision.ClusterSnapshot, types *catalog.Catalog) (map[string]provision.Amount, error) {
	book := &ledger{unknown: snapshot.Unknowns{}, prices: map[provision.Price]bool{}}
	var err error
	if book.catalog, err = offerings.NewCatalog(ctx, live.Cluster, types, book.unknown); err != nil {
		return nil, fmt.Errorf("pricing nodes: %w", err)
	}
	out := map[string]provision.Amount{}
	for _, claim := range live.NodeClaims {
		kind, pool := claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[karpv1.NodePoolLabelKey]
		if kind == "" {
			continue // It was not launched yet.
		}
		of := out[pool]
		book.pay(&of, kind, claim.Labels[corev1.LabelTopologyZone], claim.Labels[karpv1.CapacityTypeLabelKey])
		out[pool] = of
	}
	return out, nil
}
