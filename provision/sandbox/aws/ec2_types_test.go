package aws_test

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/catalog/ec2info"
)

// What the SDK reads out of the answer is what the forecast is made of: both come
// from the catalogue, whose figures its generator holds against the provider's.
func TestEveryTypeIsDescribedAsTheForecastTakesIt(t *testing.T) {
	w, _ := ready(t, nil)
	types, err := catalog.Load()
	ok(t, err)
	described := map[string]ec2types.InstanceTypeInfo{}
	for p := ec2.NewDescribeInstanceTypesPaginator(w.ec2, &ec2.DescribeInstanceTypesInput{MaxResults: sdk.Int32(100)}); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		ok(t, err)
		for _, info := range page.InstanceTypes {
			described[string(info.InstanceType)] = info
		}
	}
	if len(described) != len(types.Types()) {
		t.Errorf("%d types are described, want %d", len(described), len(types.Types()))
	}
	onlyOnTheWire := cmp.Options{
		cmpopts.IgnoreUnexported(ec2types.InstanceTypeInfo{}, ec2types.ProcessorInfo{}, ec2types.VCpuInfo{}, ec2types.MemoryInfo{}, ec2types.EbsInfo{},
			ec2types.EbsOptimizedInfo{}, ec2types.NetworkInfo{}, ec2types.NetworkCardInfo{}, ec2types.EfaInfo{}, ec2types.PlacementGroupInfo{},
			ec2types.InstanceStorageInfo{}, ec2types.GpuInfo{}, ec2types.GpuDeviceInfo{}, ec2types.GpuDeviceMemoryInfo{},
			ec2types.InferenceAcceleratorInfo{}, ec2types.InferenceDeviceInfo{}, ec2types.InferenceDeviceMemoryInfo{},
			ec2types.NeuronInfo{}, ec2types.NeuronDeviceInfo{}, ec2types.NeuronDeviceCoreInfo{}, ec2types.NeuronDeviceMemoryInfo{}),
		cmpopts.IgnoreFields(ec2types.InstanceTypeInfo{}, "SupportedVirtualizationTypes", "SupportedRootDeviceTypes"),
		cmpopts.IgnoreFields(ec2types.EbsInfo{}, "EncryptionSupport"),
		cmpopts.EquateEmpty(),
	}
	for _, it := range types.Types() {
		if it.Processor.ClockMHz == 0 {
			continue // EC2 leaves out what the forecast takes for zero.
		}
		if diff := cmp.Diff(ec2info.InstanceTypeInfo(it), described[it.Name], onlyOnTheWire); diff != "" {
			t.Fatalf("%s (-forecast +described):\n%s", it.Name, diff)
		}
	}
}

// Some figures that Karpenter reads, of types of each kind, as EC2 documents them.
func TestProcessorsAndAcceleratorsAreDescribedAsEC2Does(t *testing.T) {
	w, _ := ready(t, nil)
	out, err := w.ec2.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{InstanceTypes: []ec2types.InstanceType{"inf2.24xlarge", "m5.large", "m7i.large", "trn1.32xlarge"}})
	ok(t, err)
	found := map[ec2types.InstanceType]ec2types.InstanceTypeInfo{}
	for _, info := range out.InstanceTypes {
		found[info.InstanceType] = info
	}
	want := []ec2types.SupportedAdditionalProcessorFeature{ec2types.SupportedAdditionalProcessorFeatureNestedVirtualization}
	if diff := cmp.Diff(want, found["m7i.large"].ProcessorInfo.SupportedFeatures); diff != "" {
		t.Errorf("features of m7i.large (-want +got):\n%s", diff)
	}
	if m5 := found["m5.large"]; len(m5.ProcessorInfo.SupportedFeatures) > 0 || *m5.CurrentGeneration {
		t.Errorf("m5.large has %v, current generation %t", m5.ProcessorInfo.SupportedFeatures, *m5.CurrentGeneration)
	}
	if inf, trn := found["inf2.24xlarge"], found["trn1.32xlarge"]; *inf.NeuronInfo.NeuronDevices[0].Count != 6 ||
		*inf.InferenceAcceleratorInfo.Accelerators[0].Manufacturer != "AWS" || *trn.NeuronInfo.NeuronDevices[0].CoreInfo.Count != 2 || trn.InferenceAcceleratorInfo != nil {
		t.Errorf("inf2.24xlarge has %+v, trn1.32xlarge %+v", inf.NeuronInfo, trn.NeuronInfo)
	}
}
