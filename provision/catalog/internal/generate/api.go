package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/poolwright/poolwright/provision/catalog"
)

// apiType is the part of an EC2 InstanceTypeInfo that the catalog keeps.
type apiType struct {
	InstanceType          string
	CurrentGeneration     bool
	BareMetal             bool
	Hypervisor            string
	SupportedUsageClasses []string
	VCpuInfo              struct{ DefaultVCpus int }
	MemoryInfo            apiMemory
	ProcessorInfo         struct {
		Manufacturer             string
		SupportedArchitectures   []string
		SustainedClockSpeedInGhz float64
		SupportedFeatures        []string
	}
	apiDevices
}

type apiMemory struct{ SizeInMiB int }

type apiDevices struct {
	GpuInfo struct {
		Gpus []struct {
			Name         string
			Manufacturer string
			Count        int
			MemoryInfo   apiMemory
		}
	}
	NeuronInfo struct {
		NeuronDevices []struct {
			Name       string
			Count      int
			CoreInfo   struct{ Count int }
			MemoryInfo apiMemory
		}
	}
	InferenceAcceleratorInfo struct {
		Accelerators []struct {
			Name         string
			Manufacturer string
			Count        int
			MemoryInfo   apiMemory
		}
	}
	NetworkInfo struct {
		NetworkCards []struct {
			NetworkCardIndex         int
			MaximumNetworkInterfaces int
		}
		DefaultNetworkCardIndex      int
		Ipv4AddressesPerInterface    int
		EncryptionInTransitSupported bool
		EnaSupport                   string
		EfaInfo                      struct{ MaximumEfaInterfaces int }
	}
	EbsInfo struct {
		EbsOptimizedSupport string
		EbsOptimizedInfo    struct{ MaximumBandwidthInMbps int }
	}
	InstanceStorageInfo struct {
		NvmeSupport   string
		TotalSizeInGB int
	}
	PlacementGroupInfo struct{ SupportedStrategies []string }
}

// apiResponse is one file with what the EC2 API returned, and when.
type apiResponse struct {
	date string
	path string
}

// readAPI merges the files; where two describe a type the earlier file wins.
func readAPI(responses []apiResponse) (map[string]apiType, error) {
	merged := map[string]apiType{}
	for _, response := range responses {
		data, err := os.ReadFile(response.path)
		if err != nil {
			return nil, fmt.Errorf("reading the API response: %w", err)
		}
		types, err := parseAPI(data)
		if err != nil {
			return nil, fmt.Errorf("parsing the API response %s: %w", response.path, err)
		}
		for _, t := range types {
			if _, newer := merged[t.InstanceType]; !newer {
				merged[t.InstanceType] = t
			}
		}
	}
	return merged, nil
}

func parseAPI(data []byte) ([]apiType, error) {
	var response struct{ InstanceTypes []apiType }
	if err := json.Unmarshal(data, &response); err != nil {
		return nil, err
	}
	if len(response.InstanceTypes) > 0 {
		return response.InstanceTypes, nil
	}
	var keyed map[string]apiType
	if err := json.Unmarshal(data, &keyed); err != nil {
		return nil, err
	}
	var types []apiType
	for _, name := range sortedKeys(keyed) {
		if keyed[name].InstanceType != name {
			return nil, fmt.Errorf("key %q describes instance type %q", name, keyed[name].InstanceType)
		}
		types = append(types, keyed[name])
	}
	return types, nil
}

// convert brings a description into the catalog's form and refuses what that form
// cannot express.
func (a apiType) convert() (catalog.InstanceType, error) {
	t := catalog.InstanceType{
		Name:      a.InstanceType,
		VCPUs:     a.VCpuInfo.DefaultVCpus,
		MemoryMiB: a.MemoryInfo.SizeInMiB,
		Processor: catalog.Processor{
			Architectures: a.ProcessorInfo.SupportedArchitectures,
			Manufacturer:  a.ProcessorInfo.Manufacturer,
			ClockMHz:      int(math.Round(a.ProcessorInfo.SustainedClockSpeedInGhz * 1000)),
			Features:      a.ProcessorInfo.SupportedFeatures,
		},
		Hypervisor: a.Hypervisor,
		Network: catalog.Network{
			DefaultCard:         a.NetworkInfo.DefaultNetworkCardIndex,
			IPv4PerInterface:    a.NetworkInfo.Ipv4AddressesPerInterface,
			EFAInterfaces:       a.NetworkInfo.EfaInfo.MaximumEfaInterfaces,
			ENA:                 a.NetworkInfo.EnaSupport,
			EncryptionInTransit: a.NetworkInfo.EncryptionInTransitSupported,
			ClusterPlacement:    slices.Contains(a.PlacementGroupInfo.SupportedStrategies, "cluster"),
		},
		Storage: catalog.Storage{
			LocalGB: a.InstanceStorageInfo.TotalSizeInGB, NVMe: a.InstanceStorageInfo.NvmeSupport == "required",
			EBSOptimized: a.EbsInfo.EbsOptimizedSupport, EBSMbps: a.EbsInfo.EbsOptimizedInfo.MaximumBandwidthInMbps,
		},
		UsageClasses:      a.SupportedUsageClasses,
		CurrentGeneration: a.CurrentGeneration,
	}
	for i, card := range a.NetworkInfo.NetworkCards {
		if card.NetworkCardIndex != i {
			return t, fmt.Errorf("network card %d has index %d", i, card.NetworkCardIndex)
		}
		t.Network.Cards = append(t.Network.Cards, card.MaximumNetworkInterfaces)
	}
	if a.BareMetal != t.BareMetal() {
		return t, fmt.Errorf("bare metal is %t but the hypervisor is %q", a.BareMetal, a.Hypervisor)
	}
	if nvme := a.InstanceStorageInfo.NvmeSupport; t.Storage.LocalGB > 0 && nvme != "required" && nvme != "unsupported" {
		return t, fmt.Errorf("its local disks have NVMe support %q", nvme)
	}
	for _, strategy := range []string{"partition", "spread"} {
		if !slices.Contains(a.PlacementGroupInfo.SupportedStrategies, strategy) {
			return t, fmt.Errorf("no %s placement group takes it", strategy)
		}
	}
	return t, a.devices(&t)
}

// devices fills in GPUs and accelerators. EC2 reports Inferentia twice, as an
// inference accelerator and as a Neuron device, which is the more exact.
func (a apiDevices) devices(t *catalog.InstanceType) error {
	gpus, neuron, inference := a.GpuInfo.Gpus, a.NeuronInfo.NeuronDevices, a.InferenceAcceleratorInfo.Accelerators
	if len(gpus) > 1 || len(neuron) > 1 || len(inference) > 1 {
		return errors.New("it has GPUs or accelerators of several models")
	}
	for _, gpu := range gpus {
		t.GPU = catalog.GPU{Name: gpu.Name, Manufacturer: gpu.Manufacturer, Count: gpu.Count, MemoryMiB: gpu.MemoryInfo.SizeInMiB}
	}
	for _, it := range inference {
		t.Accelerator = catalog.Accelerator{Name: it.Name, Manufacturer: it.Manufacturer, Count: it.Count, MemoryMiB: it.MemoryInfo.SizeInMiB}
	}
	for _, it := range neuron {
		t.Accelerator = catalog.Accelerator{Name: it.Name, Manufacturer: "AWS", Count: it.Count, MemoryMiB: it.MemoryInfo.SizeInMiB, NeuronCores: it.CoreInfo.Count}
	}
	return nil
}
