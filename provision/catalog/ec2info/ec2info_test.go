package ec2info_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	kubeletcel "github.com/aws/karpenter-provider-aws/pkg/cel"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/catalog/ec2info"
	"github.com/poolwright/poolwright/provision/engine"
)

// provided is an instance type of the catalog, and what Karpenter's AWS provider makes of
// it.
type provided struct {
	catalog.InstanceType
	made *cloudprovider.InstanceType
}

func load(t *testing.T) (out []provided) {
	t.Helper()
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	settings := engine.DefaultSettings()
	settings.Cluster, settings.Region, settings.Account = "c", "us-east-1", "111122223333"
	ctx := engine.Offline(context.Background(), settings)
	expressions, err := kubeletcel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	resolver := instancetype.NewDefaultResolver("us-east-1", expressions)
	family := awsv1.AMIFamilyAL2023
	class := &awsv1.EC2NodeClass{}
	class.Spec.AMIFamily = &family
	for _, it := range types.Types() {
		made, err := resolver.Resolve(ctx, ec2info.InstanceTypeInfo(it), []string{"us-east-1a"}, class, &awsv1.ParsedKubeletConfig{})
		if made == nil || err != nil {
			t.Fatalf("the provider makes nothing of %s: %v", it.Name, err)
		}
		out = append(out, provided{it, made})
	}
	return out
}

func TestTheProviderMakesOfEachTypeWhatTheCatalogHas(t *testing.T) {
	for _, it := range load(t) {
		capacity := func(name corev1.ResourceName) int {
			quantity := it.made.Capacity[name]
			return int(quantity.Value())
		}
		of := func(manufacturer string) int {
			if it.GPU.Manufacturer == manufacturer {
				return it.GPU.Count
			}
			return 0
		}
		neuron, cores := 0, 0
		if it.Accelerator.NeuronCores > 0 {
			neuron, cores = it.Accelerator.Count, it.Accelerator.Count*it.Accelerator.NeuronCores
		}
		for name, want := range map[corev1.ResourceName]int{
			corev1.ResourceCPU: it.VCPUs, corev1.ResourcePods: it.MaxPods(),
			"nvidia.com/gpu": of("NVIDIA"), "amd.com/gpu": of("AMD"), "vpc.amazonaws.com/efa": it.Network.EFAInterfaces,
			"aws.amazon.com/neuron": neuron, "aws.amazon.com/neuroncore": cores,
		} {
			if got := capacity(name); got != want {
				t.Errorf("%s has %d of %s, not %d", it.Name, got, name, want)
			}
		}
		// The provider takes the hypervisor's overhead from what EC2 advertises, which is most on
		// the smallest types.
		if got, most := it.made.Capacity.Memory().Value()>>20, int64(it.MemoryMiB); got > most || got < most*8/10 {
			t.Errorf("%s has %d MiB, of %d", it.Name, got, most)
		}
	}
}

func TestLabelsOfTheCatalogAreThoseThatTheProviderGives(t *testing.T) {
	for _, it := range load(t) {
		for key, want := range it.Labels() {
			r := it.made.Requirements.Get(key)
			if r.Operator() != corev1.NodeSelectorOpIn || !slices.Equal(r.Values(), []string{want}) {
				t.Errorf("%s has %s=%s, and the provider gives it %s", it.Name, key, want, r)
			}
		}
		for key, want := range map[string]string{
			awsv1.LabelInstanceEncryptionInTransitSupported: strconv.FormatBool(it.Network.EncryptionInTransit),
			awsv1.LabelInstanceCPUSustainedClockSpeedMhz:    strconv.Itoa(it.Processor.ClockMHz),
		} {
			if r := it.made.Requirements.Get(key); !slices.Equal(r.Values(), []string{want}) {
				t.Errorf("%s has %s=%s, and the provider gives it %s", it.Name, key, want, r)
			}
		}
		nvme := it.made.Requirements.Get(awsv1.LabelInstanceLocalNVME)
		if it.Storage.NVMe != (nvme.Operator() == corev1.NodeSelectorOpIn) || it.Storage.NVMe && nvme.Any() != strconv.Itoa(it.Storage.LocalGB) {
			t.Errorf("%s has %d GB of local disks, NVMe %t, and the provider gives it %s", it.Name, it.Storage.LocalGB, it.Storage.NVMe, nvme)
		}
		ebs := it.made.Requirements.Get(awsv1.LabelInstanceEBSBandwidth)
		if want := it.Storage.EBSOptimized == "default"; want != (ebs.Operator() == corev1.NodeSelectorOpIn) {
			t.Errorf("%s is EBS-optimized by %q, and the provider gives it %s", it.Name, it.Storage.EBSOptimized, ebs)
		}
		for _, capacity := range []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot} {
			if want := slices.Contains(it.UsageClasses, capacity); want != it.made.Requirements.Get(karpv1.CapacityTypeLabelKey).Has(capacity) {
				t.Errorf("%s is sold as %s: %t, and by the provider not", it.Name, capacity, want)
			}
		}
	}
}

// What a requirement chooses is what Karpenter's own requirements choose, over all types
// and a random walk of keys, operators and values.
func TestRequirementsChooseTheTypesThatKarpenterChooses(t *testing.T) {
	all := load(t)
	r := rand.New(rand.NewPCG(17, 4))
	keys := map[string][]string{}
	for _, it := range all {
		for key, value := range it.Labels() {
			if !slices.Contains(keys[key], value) {
				keys[key] = append(keys[key], value)
			}
		}
	}
	names := make([]string, 0, len(keys))
	for key := range keys {
		names = append(names, key)
		keys[key] = append(keys[key], "unknown")
	}
	slices.Sort(names)
	chosen := 0
	for range 400 {
		key := names[r.IntN(len(names))]
		requirement := catalog.Requirement{Key: key, Operator: []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"}[r.IntN(8)]}
		values := keys[key]
		switch requirement.Operator {
		case "In", "NotIn":
			for range 1 + r.IntN(3) {
				requirement.Values = append(requirement.Values, values[r.IntN(len(values))])
			}
		case "Gt", "Lt", "Gte", "Lte":
			// The API server takes nothing but one whole number.
			requirement.Values = []string{strconv.Itoa(r.IntN(64))}
		}
		theirs := scheduling.NewNodeSelectorRequirementsWithMinValues(karpv1.NodeSelectorRequirementWithMinValues{
			Key: key, Operator: corev1.NodeSelectorOperator(requirement.Operator), Values: requirement.Values,
		})
		for _, it := range all {
			want := it.made.Requirements.Intersects(theirs) == nil
			if got := requirement.Met(it.Labels()); got != want {
				t.Errorf("%s %s %s of %s: %t, and Karpenter's %t", key, requirement.Operator, strings.Join(requirement.Values, ","), it.Name, got, want)
				break
			}
			if want {
				chosen++
			}
		}
	}
	if chosen == 0 {
		t.Error("nothing was chosen")
	}
}
