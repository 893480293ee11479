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

// apiAnswer is one file with what the EC2 API answered, and when.
type apiAnswer struct {
	date string
	path string
}

// readAPI merges the files; where two describe a type the earlier file wins.
func readAPI(answers []apiAnswer) (map[string]apiType, error) {
	merged := map[string]apiType{}
	for _, answer := range answers {
		data, err := os.ReadFile(answer.path)
		if err != nil {
			return nil, fmt.Errorf("reading the API answer: %w", err)
		}
		types, err := parseAPI(data)
		if err != nil {
			return nil, fmt.Errorf("parsing the API answer %s: %w", answer.path, err)
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
	var answer struct{ InstanceTypes []apiType }
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, err
	}
	if len(answer.InstanceTypes) > 0 {
		return answer.InstanceTypes, nil
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
// cannot say.
func (a apiType) convert() (catalog.InstanceType, error) {
	t := catalog.InstanceType{
		Name:      a.InstanceType,
		VCPUs:     a.VCpuInfo.DefaultVCpus,
		MemoryMiB: a.MemoryInfo.SizeInMiB,
		Processor: catalog.Processor{
			Architectures: a.ProcessorInfo.SupportedArchitectures,
			Manufacturer:  a.ProcessorInfo.Manufacturer,
			ClockMHz:      int(math.Round(a.ProcessorInfo.SustainedClockSpeedInGhz * 1000)),
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
		LocalNVMeGB:       a.InstanceStorageInfo.TotalSizeInGB,
		EBS:               catalog.EBS{Optimized: a.EbsInfo.EbsOptimizedSupport, MaxBandwidthMbps: a.EbsInfo.EbsOptimizedInfo.MaximumBandwidthInMbps},
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
	if t.LocalNVMeGB > 0 && a.InstanceStorageInfo.NvmeSupport != "required" {
		return t, fmt.Errorf("its local disks have NVMe support %q", a.InstanceStorageInfo.NvmeSupport)
	}
	for _, strategy := range []string{"partition", "spread"} {
		if !slices.Contains(a.PlacementGroupInfo.SupportedStrategies, strategy) {
			return t, fmt.Errorf("no %s placement group takes it", strategy)
		}
	}
	switch gpus := a.GpuInfo.Gpus; {
	case len(gpus) > 1:
		return t, errors.New("it has GPUs of several models")
	case len(gpus) == 1:
		t.GPU = catalog.GPU{Name: gpus[0].Name, Manufacturer: gpus[0].Manufacturer, Count: gpus[0].Count, MemoryMiB: gpus[0].MemoryInfo.SizeInMiB}
	}
	return t, nil
}
