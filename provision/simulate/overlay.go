package simulate

import (
	"context"
	"maps"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
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

// mostPrice bounds the price of an overlay, in USD per hour: the CRD allows hundreds of
// digits, whose sum is infinite and cannot be written as JSON.
const mostPrice = 1e9

// usablePrice reports whether the overlay's price is within mostPrice, and is none on
// which Karpenter's code panics.
func usablePrice(overlay *karpv1alpha1.NodeOverlay) (usable bool) {
	defer func() { _ = recover() }() // The zero value is then returned.
	return cloudprovider.AdjustedPrice(1, ptr.Deref(overlay.Spec.Price, "")) <= mostPrice &&
		cloudprovider.AdjustedPrice(1, ptr.Deref(overlay.Spec.PriceAdjustment, "")) <= mostPrice
}

// sortedPools are the pools by name.
func (f *fleet) sortedPools() []*karpv1.NodePool {
	return slices.SortedFunc(maps.Values(f.pools), func(a, b *karpv1.NodePool) int { return strings.Compare(a.Name, b.Name) })
}

// priceListCloud is a cloud provider that only lists instance types and prices. Every
// other method is nil, and Compare turns what follows into an error.
type priceListCloud struct {
	cloudprovider.CloudProvider
	types map[string][]*cloudprovider.InstanceType
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
