package startuptaint_test

import (
	"context"
	"maps"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/poolwright/poolwright/provision/engine/enginetest"
	"github.com/poolwright/poolwright/provision/gpu"
)

// cloud is a provider that launches whatever it is asked for.
type cloud struct {
	cloudprovider.CloudProvider
	types    []*cloudprovider.InstanceType
	typesErr error
	// launched is the claim that Create was given last, created what it returns.
	launched  *karpv1.NodeClaim
	created   *karpv1.NodeClaim
	createErr error
}

func (c *cloud) Create(_ context.Context, claim *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	c.launched = claim
	return c.created, c.createErr
}

func (c *cloud) GetInstanceTypes(context.Context, *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return c.types, c.typesErr
}

func (c *cloud) IsDrifted(context.Context, *karpv1.NodeClaim) (cloudprovider.DriftReason, error) {
	return "", nil
}

func (c *cloud) Name() string { return "test" }

func (c *cloud) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&awsv1.EC2NodeClass{}}
}

// machine is an instance type in two zones, on demand and spot. GPUs are NVIDIA's.
func machine(name string, price float64, gpus corev1.ResourceList) *cloudprovider.InstanceType {
	needs := func(key string, values ...string) *scheduling.Requirement {
		return scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
	}
	it := &cloudprovider.InstanceType{
		Name: name,
		Requirements: scheduling.NewRequirements(
			needs(corev1.LabelInstanceTypeStable, name), needs(corev1.LabelArchStable, karpv1.ArchitectureAmd64), needs(corev1.LabelOSStable, string(corev1.Linux)),
			needs(corev1.LabelTopologyZone, "a", "b"), needs(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot),
		),
		Capacity: list(corev1.ResourceCPU, 8, corev1.ResourceMemory, 32<<30, corev1.ResourcePods, 50),
		Overhead: &cloudprovider.InstanceTypeOverhead{},
	}
	maps.Copy(it.Capacity, gpus)
	for _, zone := range []string{"a", "b"} {
		for _, capacity := range []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot} {
			it.Offerings = append(it.Offerings, &cloudprovider.Offering{
				Price: price, Available: true,
				Requirements: scheduling.NewRequirements(needs(corev1.LabelTopologyZone, zone), needs(karpv1.CapacityTypeLabelKey, capacity)),
			})
		}
	}
	return it
}

func machines() []*cloudprovider.InstanceType {
	return []*cloudprovider.InstanceType{
		machine("plain", 1, nil),
		machine("one", 2, list(gpu.Resource, 1)),
		machine("shared", 3, list(gpu.Resource, 0, gpu.SharedResource, 40)),
	}
}

// list makes a resource list of names and numbers.
func list(pairs ...any) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		number := pairs[i+1].(int)
		out[pairs[i].(corev1.ResourceName)] = *resource.NewQuantity(int64(number), resource.DecimalSI)
	}
	return out
}

func pool(name string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "p-" + types.UID(name)}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "gpu"}
	p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
	p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	p.StatusConditions().SetTrue(karpv1.ConditionTypeNodeClassReady)
	p.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
	return p
}

// claim is a NodeClaim of a pool, for one of the types, or any where none is named.
func claim(pool string, types ...string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "claim", UID: "c", Labels: map[string]string{karpv1.NodePoolLabelKey: pool},
		Annotations: map[string]string{karpv1.NodePoolHashAnnotationKey: "1234", karpv1.NodePoolHashVersionAnnotationKey: "v3"},
	}}
	c.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "gpu"}
	c.Spec.StartupTaints = []corev1.Taint{{Key: "user.example.com/startup", Effect: corev1.TaintEffectNoExecute}}
	if len(types) > 0 {
		c.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: types}}
	}
	return c
}

// sharing serves the pools.
func sharing(pools ...string) func(context.Context) (gpu.Sharing, error) {
	return func(context.Context) (gpu.Sharing, error) {
		return gpu.Sharing{Name: "nvidia", Configs: []gpu.PluginConfig{{Name: "sliced", Pools: pools, Strategy: gpu.SharingStrategyTimeSlicing, Replicas: 10}}}, nil
	}
}

// kube is an API server in memory, with the engine's indexes.
func kube(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return enginetest.NewClientBuilder().WithObjects(objects...).Build()
}
