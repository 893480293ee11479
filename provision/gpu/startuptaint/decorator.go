package startuptaint

import (
	"context"
	"slices"
	"strings"
	"unique"

	"github.com/aws/karpenter-provider-aws/pkg/providers/nvidiadra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/poolwright/poolwright/provision/gpu"
)

// Config is what the decorator works with. All fields but Known are needed.
type Config struct {
	// Sharing reads the live DevicePlugin; it is called at every launch.
	Sharing func(context.Context) (gpu.Sharing, error)
	// Backoff has the pools that are held back.
	Backoff *FailureBackoff
	// Restored returns whether the Backoff has by now what an earlier process wrote into its
	// own; until then every pool that a configuration serves is held back. It must not block.
	// Nil is yes: there was none.
	Restored func() bool
	// Reader reads NodePools, best from a cache.
	Reader client.Reader
}

// Decorate returns what wraps Karpenter's cloud provider. It belongs outside of
// the NodeOverlays' decorator, so that it gets the GPUs as configurations advertise them.
func Decorate(cfg Config) func(cloudprovider.CloudProvider) cloudprovider.CloudProvider {
	return func(inner cloudprovider.CloudProvider) cloudprovider.CloudProvider {
		return &decorator{CloudProvider: inner, cfg: cfg}
	}
}

type decorator struct {
	cloudprovider.CloudProvider
	cfg    Config
	logged once
}

// Create launches the claim. Where the node may have GPUs that a configuration serves,
// it launches a copy with the startup taint: the provider writes taints into the
// node's user data from the claim that it is given, and takes nothing else from
// its spec. Karpenter keeps, of what is returned, labels, annotations and status,
// so neither the stored claim nor any hash ever shows the taint.
func (d *decorator) Create(ctx context.Context, claim *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	if !d.mayHaveSharedGPUs(ctx, claim) {
		return d.CloudProvider.Create(ctx, claim)
	}
	copied := claim.DeepCopy()
	copied.Spec.StartupTaints = append(copied.Spec.StartupTaints, taint())
	created, err := d.CloudProvider.Create(ctx, copied)
	if created != nil && slices.ContainsFunc(created.Spec.StartupTaints, ours) {
		// A provider that hands the claim back must not hand back the taint.
		created = created.DeepCopy()
		created.Spec.StartupTaints = slices.DeleteFunc(created.Spec.StartupTaints, ours)
	}
	return created, err
}

// mayHaveSharedGPUs reports whether the node may come with GPUs that a configuration
// serves. Where that is unknown it returns true if GPUs are requested and false
// otherwise; the hook gets the nodes that come with GPUs all the same.
func (d *decorator) mayHaveSharedGPUs(ctx context.Context, claim *karpv1.NodeClaim) bool {
	pool := claim.Labels[karpv1.NodePoolLabelKey]
	if pool == "" || slices.ContainsFunc(claim.Spec.StartupTaints, ours) {
		return false
	}
	if plugin, _ := d.serves(ctx, pool); !plugin {
		return false
	}
	return anyGPU(claim.Spec.Resources.Requests) || d.hasCandidate(ctx, pool, claim)
}

// serves reports whether a configuration serves the pool by the device plugin, and whether by the DRA driver. While
// that cannot be read it is the plugin: package readiness releases a node that no configuration serves.
func (d *decorator) serves(ctx context.Context, pool string) (plugin, driver bool) {
	sharing, err := d.cfg.Sharing(ctx)
	if d.logged.changed(err) {
		log.FromContext(ctx).Error(err, "cannot read the DevicePlugin: nodes with GPUs wait until it can be read")
	}
	if err != nil {
		return true, false
	}
	_, plugin = sharing.ConfigForPool(pool)
	_, driver = sharing.DRAForPool(pool)
	return plugin, driver
}

// hasCandidate reports whether any instance type that the claim allows has GPUs.
func (d *decorator) hasCandidate(ctx context.Context, pool string, claim *karpv1.NodeClaim) bool {
	object := &karpv1.NodePool{}
	if err := d.cfg.Reader.Get(ctx, types.NamespacedName{Name: pool}, object); err != nil {
		return false
	}
	all, err := d.CloudProvider.GetInstanceTypes(ctx, object)
	if err != nil {
		return false
	}
	desired := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	return slices.ContainsFunc(all, func(it *cloudprovider.InstanceType) bool {
		return hasGPU(it) && it.Requirements.Intersects(desired) == nil
	})
}

// GetInstanceTypes shows the GPU offerings of a pool that is held back, or may be, as
// unavailable, and GPUs as devices of NVIDIA's DRA driver only in the pools that a configuration
// serves by it: a node that is launched for a claim waits without end where nothing publishes them. The types and their
// offerings stay in the list: a node whose type or offering is missing would count as drifted. Only copies are
// changed, because Karpenter shares what it returns.
func (d *decorator) GetInstanceTypes(ctx context.Context, pool *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	all, err := d.CloudProvider.GetInstanceTypes(ctx, pool)
	if err != nil || pool == nil {
		return all, err
	}
	backOff := d.mayBackOff(pool.Name)
	if !backOff && !slices.ContainsFunc(all, publishesGPUs) {
		return all, nil
	}
	plugin, driver := d.serves(ctx, pool.Name)
	if backOff = backOff && plugin; !backOff && driver {
		return all, nil
	}
	out := make([]*cloudprovider.InstanceType, len(all))
	for i, it := range all {
		if out[i] = it; !driver && publishesGPUs(it) {
			out[i] = withoutDRA(it)
		}
		if backOff && hasGPU(it) {
			out[i] = unavailable(out[i])
		}
	}
	return out, nil
}

func (d *decorator) mayBackOff(pool string) bool {
	if d.cfg.Restored != nil && !d.cfg.Restored() {
		return true
	}
	_, held := d.cfg.Backoff.Active(pool)
	return held
}

// unavailable is a copy of the type with nothing to launch. What cannot be derived from
// the original stays shared.
func unavailable(it *cloudprovider.InstanceType) *cloudprovider.InstanceType {
	out := shallow(it)
	out.Offerings = make(cloudprovider.Offerings, len(it.Offerings))
	for i, o := range it.Offerings {
		if o != nil {
			copied := *o
			copied.Available = false
			out.Offerings[i] = &copied
		}
	}
	return out
}

// shallow is a copy of the type that shares everything.
func shallow(it *cloudprovider.InstanceType) *cloudprovider.InstanceType {
	out := &cloudprovider.InstanceType{
		Name: it.Name, Requirements: it.Requirements, Offerings: it.Offerings, Capacity: it.Capacity,
		VolumeAttachmentLimits: it.VolumeAttachmentLimits, DynamicResources: it.DynamicResources, Overhead: it.Overhead,
	}
	if it.IsCapacityOverlayApplied() {
		out.ApplyCapacityOverlay(nil) // only sets the mark
	}
	return out
}

// draDriver is the name of NVIDIA's DRA driver for GPUs.
var draDriver = unique.Make(nvidiadra.DriverName)

// publishesGPUs reports whether Karpenter expects NVIDIA's DRA driver on nodes of a type.
func publishesGPUs(it *cloudprovider.InstanceType) bool {
	return it != nil && slices.ContainsFunc(it.DynamicResources.ResourceSliceTemplates, ofDRADriver)
}

func ofDRADriver(t *cloudprovider.ResourceSliceTemplate) bool {
	return t != nil && t.Driver == draDriver
}

// withoutDRA is a copy of the type without the devices of NVIDIA's DRA driver.
func withoutDRA(it *cloudprovider.InstanceType) *cloudprovider.InstanceType {
	out := shallow(it)
	out.DynamicResources = cloudprovider.DynamicResources{
		ResourceSliceTemplates: slices.DeleteFunc(slices.Clone(it.DynamicResources.ResourceSliceTemplates), ofDRADriver),
		AttributeBindings: slices.DeleteFunc(slices.Clone(it.DynamicResources.AttributeBindings), func(b *cloudprovider.AttributeBinding) bool {
			return b != nil && slices.ContainsFunc(b.Devices, func(id cloudprovider.DeviceID) bool { return id.Driver == draDriver })
		}),
	}
	return out
}

// hasGPU reports whether a type has a GPU of NVIDIA's under any name.
func hasGPU(it *cloudprovider.InstanceType) bool {
	return it != nil && anyGPU(it.Capacity)
}

// anyGPU reports whether any resource of NVIDIA's is there.
func anyGPU(list corev1.ResourceList) bool {
	for name, quantity := range list {
		if strings.HasPrefix(string(name), "nvidia.com/") && !quantity.IsZero() {
			return true
		}
	}
	return false
}

func taint() corev1.Taint {
	return corev1.Taint{Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule}
}

func ours(t corev1.Taint) bool { return t.Key == gpu.StartupTaint }
