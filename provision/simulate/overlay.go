package simulate

import (
	"context"
	"errors"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
)

// applyOverlays gives each pool's types what Karpenter's own controller makes of
// the overlays.
func applyOverlays(ctx context.Context, f *fleet, plain map[string][]*cloudprovider.InstanceType, unknown unknowns) (map[string][]*cloudprovider.InstanceType, error) {
	if len(f.Overlays) == 0 {
		return plain, nil
	}
	reader := &snapshotClient{fleet: f, refused: map[string]string{}}
	cloud := priceListCloud{types: plain}
	store := nodeoverlay.NewInstanceTypeStore()
	controller := nodeoverlay.NewController(f.clock, reader, cloud, store, state.NewCluster(f.clock, reader, cloud))
	if _, err := controller.Reconcile(ctx, reconcile.Request{}); err != nil {
		return nil, err
	}
	for name, why := range reader.refused {
		unknown.add("NodeOverlay %s is refused by Karpenter and has no effect: %s.", name, strings.TrimSuffix(why, "."))
	}
	out := map[string][]*cloudprovider.InstanceType{}
	for name, types := range plain {
		applied, err := store.ApplyAll(name, types)
		if err != nil {
			return nil, err
		}
		out[name] = applied
	}
	return out, nil
}

// sortedPools are the pools by name.
func (f *fleet) sortedPools() []*karpv1.NodePool {
	out := make([]*karpv1.NodePool, 0, len(f.pools))
	for _, pool := range f.pools {
		out = append(out, pool)
	}
	slices.SortFunc(out, func(a, b *karpv1.NodePool) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// priceListCloud is a cloud provider that only lists instance types and prices.
type priceListCloud struct {
	types map[string][]*cloudprovider.InstanceType
}

var errClosed = errors.New("a simulation buys nothing and asks AWS nothing")

// Create is refused.
func (priceListCloud) Create(context.Context, *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	return nil, errClosed
}

// Delete is refused.
func (priceListCloud) Delete(context.Context, *karpv1.NodeClaim) error { return errClosed }

// Get is refused.
func (priceListCloud) Get(context.Context, string) (*karpv1.NodeClaim, error) { return nil, errClosed }

// List is refused.
func (priceListCloud) List(context.Context) ([]*karpv1.NodeClaim, error) { return nil, errClosed }

// IsDrifted is refused.
func (priceListCloud) IsDrifted(context.Context, *karpv1.NodeClaim) (cloudprovider.DriftReason, error) {
	return "", errClosed
}

// GetInstanceTypes are what the pool can buy.
func (s priceListCloud) GetInstanceTypes(_ context.Context, pool *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return s.types[pool.Name], nil
}

// RepairPolicies are none.
func (priceListCloud) RepairPolicies() []cloudprovider.RepairPolicy { return nil }

// Name is what Karpenter's metrics would call it.
func (priceListCloud) Name() string { return "whatif" }

// GetSupportedNodeClasses is the AWS provider's.
func (priceListCloud) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&awsv1.EC2NodeClass{}}
}
