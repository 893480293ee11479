package offerings

import (
	"context"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"

	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// applyOverlays gives each pool's types what Karpenter's own controller makes of
// the overlays.
func applyOverlays(ctx context.Context, f *snapshot.Indexed, plain map[string][]*cloudprovider.InstanceType, unknown snapshot.Unknowns) (map[string][]*cloudprovider.InstanceType, error) {
	if len(f.Overlays) == 0 {
		return plain, nil
	}
	reader := &snapshot.Client{Snapshot: f, Refused: map[string]string{}}
	cloud := CloudProvider{Types: plain}
	store := nodeoverlay.NewInstanceTypeStore()
	controller := nodeoverlay.NewController(f.Clock, reader, cloud, store, state.NewCluster(f.Clock, reader, cloud))
	if _, err := controller.Reconcile(ctx, reconcile.Request{}); err != nil {
		return nil, err
	}
	for name, why := range reader.Refused {
		unknown.Add(codeNodeOverlayRefused, "NodeOverlay/"+name, "NodeOverlay %s is refused by Karpenter and has no effect: %s.", name, strings.TrimSuffix(why, "."))
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

// CloudProvider is a cloud provider that only lists instance types and prices. Every
// other method is nil, and Compare turns what follows into an error.
type CloudProvider struct {
	cloudprovider.CloudProvider
	// Types are by pool.
	Types map[string][]*cloudprovider.InstanceType
}

// GetInstanceTypes are what the pool can buy.
func (s CloudProvider) GetInstanceTypes(_ context.Context, pool *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return s.Types[pool.Name], nil
}

// RepairPolicies are none.
func (CloudProvider) RepairPolicies() []cloudprovider.RepairPolicy { return nil }

// Name is what Karpenter's metrics would call it.
func (CloudProvider) Name() string { return "whatif" }

// GetSupportedNodeClasses is the AWS provider's.
func (CloudProvider) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&awsv1.EC2NodeClass{}}
}
