// Package ec2info writes the catalog's instance types as the EC2 API does, for
// code that was made to read EC2's responses: Karpenter's AWS provider computes a
// node's capacity from them.
//
// It makes no calls. Start reading at Of.
package ec2info

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/poolwright/poolwright/provision/catalog"
)

// InstanceTypeInfo is what DescribeInstanceTypes would return for the type, as far as the catalog has
// it.
func InstanceTypeInfo(t catalog.InstanceType) types.InstanceTypeInfo {
	info := types.InstanceTypeInfo{
		InstanceType:             types.InstanceType(t.Name),
		CurrentGeneration:        aws.Bool(t.CurrentGeneration),
		BareMetal:                aws.Bool(t.BareMetal()),
		Hypervisor:               types.InstanceTypeHypervisor(t.Hypervisor),
		SupportedUsageClasses:    typed[types.UsageClassType](t.UsageClasses),
		VCpuInfo:                 &types.VCpuInfo{DefaultVCpus: number(t.VCPUs)},
		MemoryInfo:               &types.MemoryInfo{SizeInMiB: aws.Int64(int64(t.MemoryMiB))},
		InstanceStorageSupported: aws.Bool(t.Storage.LocalGB > 0),
		ProcessorInfo: &types.ProcessorInfo{
			SupportedArchitectures:   typed[types.ArchitectureType](t.Processor.Architectures),
			Manufacturer:             aws.String(t.Processor.Manufacturer),
			SupportedFeatures:        typed[types.SupportedAdditionalProcessorFeature](t.Processor.Features),
			SustainedClockSpeedInGhz: aws.Float64(float64(t.Processor.ClockMHz) / 1000),
		},
		EbsInfo:            &types.EbsInfo{EbsOptimizedSupport: types.EbsOptimizedSupport(t.Storage.EBSOptimized)},
		NetworkInfo:        network(t),
		PlacementGroupInfo: placement(t),
	}
	if t.Storage.EBSMbps > 0 {
		info.EbsInfo.EbsOptimizedInfo = &types.EbsOptimizedInfo{MaximumBandwidthInMbps: number(t.Storage.EBSMbps)}
	}
	if t.Storage.LocalGB > 0 {
		info.InstanceStorageInfo = &types.InstanceStorageInfo{
			TotalSizeInGB: aws.Int64(int64(t.Storage.LocalGB)), NvmeSupport: types.EphemeralNvmeSupportUnsupported,
		}
	}
	if t.Storage.NVMe {
		info.InstanceStorageInfo.NvmeSupport = types.EphemeralNvmeSupportRequired
	}
	accelerate(&info, t.Accelerator)
	if t.HasGPU() {
		info.GpuInfo = &types.GpuInfo{
			TotalGpuMemoryInMiB: number(t.GPU.MemoryMiB * max(t.GPU.Count, 1)),
			Gpus: []types.GpuDeviceInfo{{
				Name: aws.String(t.GPU.Name), Manufacturer: aws.String(t.GPU.Manufacturer), Count: number(t.GPU.Count),
				MemoryInfo: &types.GpuDeviceMemoryInfo{SizeInMiB: number(t.GPU.MemoryMiB)},
			}},
		}
	}
	return info
}

// accelerate adds the accelerators. EC2 reports Inferentia both as an inference
// accelerator and as a Neuron device, Trainium as the latter only.
func accelerate(info *types.InstanceTypeInfo, a catalog.Accelerator) {
	if a.Count == 0 {
		return
	}
	if a.NeuronCores == 0 || strings.HasPrefix(a.Name, "Inferentia") {
		info.InferenceAcceleratorInfo = &types.InferenceAcceleratorInfo{
			TotalInferenceMemoryInMiB: number(a.MemoryMiB * a.Count),
			Accelerators: []types.InferenceDeviceInfo{{
				Name: aws.String(a.Name), Manufacturer: aws.String(a.Manufacturer), Count: number(a.Count),
				MemoryInfo: &types.InferenceDeviceMemoryInfo{SizeInMiB: number(a.MemoryMiB)},
			}},
		}
	}
	if a.NeuronCores > 0 {
		info.NeuronInfo = &types.NeuronInfo{
			TotalNeuronDeviceMemoryInMiB: number(a.MemoryMiB * a.Count),
			NeuronDevices: []types.NeuronDeviceInfo{{
				Name: aws.String(a.Name), Count: number(a.Count),
				CoreInfo:   &types.NeuronDeviceCoreInfo{Count: number(a.NeuronCores)},
				MemoryInfo: &types.NeuronDeviceMemoryInfo{SizeInMiB: number(a.MemoryMiB)},
			}},
		}
	}
}

func network(t catalog.InstanceType) *types.NetworkInfo {
	info := &types.NetworkInfo{
		MaximumNetworkInterfaces:     number(t.MaxInterfaces()),
		MaximumNetworkCards:          number(len(t.Network.Cards)),
		DefaultNetworkCardIndex:      number(t.Network.DefaultCard),
		Ipv4AddressesPerInterface:    number(t.Network.IPv4PerInterface),
		Ipv6Supported:                aws.Bool(true),
		EnaSupport:                   types.EnaSupport(t.Network.ENA),
		EfaSupported:                 aws.Bool(t.Network.EFAInterfaces > 0),
		EncryptionInTransitSupported: aws.Bool(t.Network.EncryptionInTransit),
	}
	for i, most := range t.Network.Cards {
		info.NetworkCards = append(info.NetworkCards, types.NetworkCardInfo{NetworkCardIndex: number(i), MaximumNetworkInterfaces: number(most)})
	}
	if t.Network.EFAInterfaces > 0 {
		info.EfaInfo = &types.EfaInfo{MaximumEfaInterfaces: number(t.Network.EFAInterfaces)}
	}
	return info
}

func placement(t catalog.InstanceType) *types.PlacementGroupInfo {
	strategies := []types.PlacementGroupStrategy{types.PlacementGroupStrategyPartition, types.PlacementGroupStrategySpread}
	if t.Network.ClusterPlacement {
		strategies = append([]types.PlacementGroupStrategy{types.PlacementGroupStrategyCluster}, strategies...)
	}
	return &types.PlacementGroupInfo{SupportedStrategies: strategies}
}

// number narrows a count, which EC2 writes in 32 bits.
func number(n int) *int32 { return aws.Int32(int32(n)) }

func typed[T ~string](in []string) []T {
	out := make([]T, 0, len(in))
	for _, w := range in {
		out = append(out, T(w))
	}
	return out
}

// Price is the US dollars for an hour on demand of an instance type, in the form in which Karpenter
// requests it.
type Price float64

// OnDemandPrice is the price, whatever the instance type.
func (p Price) OnDemandPrice(types.InstanceType) (usdPerHour float64, known bool) {
	return float64(p), true
}
