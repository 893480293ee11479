package catalog

import (
	"errors"
	"fmt"
	"strings"
)

// InstanceType is what EC2 describes of one instance type. Values such as "x86_64",
// "NVIDIA" or "on-demand" are spelled as the EC2 API spells them.
type InstanceType struct {
	// Name is family and size, "g4dn.xlarge".
	Name string
	// VCPUs counts the default virtual CPUs.
	VCPUs int
	// MemoryMiB is the memory EC2 advertises, before any overhead.
	MemoryMiB int
	// Processor is the CPU.
	Processor Processor
	// Hypervisor is "nitro", "xen", or "" for bare metal.
	Hypervisor string
	// GPU is the zero value on a type without GPUs; see [InstanceType.HasGPU].
	GPU GPU
	// Accelerator is the zero value on a type without Inferentia, Trainium or
	// another inference accelerator.
	Accelerator Accelerator
	// Network is what decides pod density, bandwidth and EFA.
	Network Network
	// Storage is the local disks and the connection to block storage.
	Storage Storage
	// UsageClasses lists "capacity-block", "on-demand" and "spot" as offered.
	UsageClasses []string
	// CurrentGeneration is EC2's field of that name. It is false for families as common as
	// m5, c5 and g5 since 2026: do not read it as "still for sale".
	CurrentGeneration bool
	// OnDemandUSD is the Linux on-demand price of one hour in us-east-1, 0 where
	// none is published: the type is sold in other regions only, or in capacity
	// blocks. Use [Catalog.OnDemand], which makes an error of that.
	OnDemandUSD float64
}

// Processor is the CPU of an instance type.
type Processor struct {
	// Architectures lists "x86_64", "arm64" or, first, "i386".
	Architectures []string
	// Manufacturer is "Intel", "AMD" or "AWS".
	Manufacturer string
	// ClockMHz is the sustained clock speed, 0 where EC2 reports none (the oldest
	// families).
	ClockMHz int
	// Features lists what EC2 calls supported features of the processor:
	// "amd-sev-snp" and "nested-virtualization".
	Features []string
}

// GPU describes the GPUs of a type, which are all alike.
type GPU struct {
	// Name is the model, "T4" or "A10G".
	Name string
	// Manufacturer is "NVIDIA" or "AMD".
	Manufacturer string
	// Count is the number of whole GPUs. It is 0 on types that hold a fraction of
	// one (g6f, gr6f); Kubernetes has no nvidia.com/gpu on those.
	Count int
	// MemoryMiB is the memory of each GPU, or of the fraction.
	MemoryMiB int
}

// Accelerator describes what a type has for machine learning besides GPUs; all of
// them are alike.
type Accelerator struct {
	// Name is the model, "Inferentia2", "Trainium" or "Qualcomm AI100".
	Name string
	// Manufacturer is "AWS" or "Qualcomm".
	Manufacturer string
	// Count is the number of accelerators.
	Count int
	// MemoryMiB is the memory of each.
	MemoryMiB int
	// NeuronCores is the number of NeuronCores of each, 0 on one that is not a
	// Neuron device.
	NeuronCores int
}

// Network is the network side of an instance type.
type Network struct {
	// Cards lists the most network interfaces each network card takes; the index
	// is the card's index.
	Cards []int
	// DefaultCard is the index of the card that carries the primary interface.
	DefaultCard int
	// IPv4PerInterface is the most IPv4 addresses on one interface.
	IPv4PerInterface int
	// EFAInterfaces is the most Elastic Fabric Adapter interfaces, 0 for none.
	EFAInterfaces int
	// ENA is the Elastic Network Adapter: "required", "supported", "unsupported".
	ENA string
	// EncryptionInTransit is whether traffic between instances is encrypted.
	EncryptionInTransit bool
	// ClusterPlacement is whether a cluster placement group takes the type; partition and
	// spread groups take every type in the catalog.
	ClusterPlacement bool
	// BandwidthMbps is the sustained bandwidth, 0 where EC2 only has "Low to Moderate" and
	// the like (t2 and small Xen types).
	BandwidthMbps int
}

// Storage is the local disks of an instance type and its connection to Elastic
// Block Store.
type Storage struct {
	// LocalGB is the total of the local disks in GB (10^9 bytes), 0 for none.
	LocalGB int
	// NVMe is whether the local disks are NVMe disks, which EC2 reports as nvmeSupport
	// "required"; those of the oldest families are not.
	NVMe bool
	// EBSOptimized is "default", "supported" or "unsupported".
	EBSOptimized string
	// EBSMbps is the burst bandwidth to EBS, 0 only where EBSOptimized is
	// "unsupported".
	EBSMbps int
}

// Family is the part of the name before the dot, "g4dn".
func (t InstanceType) Family() string {
	family, _, _ := strings.Cut(t.Name, ".")
	return family
}

// Size is the part of the name after the dot, "xlarge".
func (t InstanceType) Size() string {
	_, size, _ := strings.Cut(t.Name, ".")
	return size
}

// BareMetal reports whether the type runs without a hypervisor.
func (t InstanceType) BareMetal() bool { return t.Hypervisor == "" }

// HasGPU reports whether the type has a GPU or a fraction of one.
func (t InstanceType) HasGPU() bool { return t.GPU != GPU{} }

// MaxInterfaces is the most network interfaces over all cards.
func (t InstanceType) MaxInterfaces() int {
	sum := 0
	for _, most := range t.Network.Cards {
		sum += most
	}
	return sum
}

// MaxPods is the pod density that the VPC CNI gives a node without prefix
// delegation: each interface of the default card has one address for itself and
// the rest for pods, and two pods use the host's network.
func (t InstanceType) MaxPods() int {
	return t.Network.Cards[t.Network.DefaultCard]*(t.Network.IPv4PerInterface-1) + 2
}

// check refuses figures that contradict each other, which no EC2 would report.
// Each figure for itself is the business of its column.
func (t InstanceType) check() error {
	n := t.Network
	switch {
	case t.Family() == "" || t.Size() == "" || strings.Count(t.Name, ".") != 1:
		return errors.New("the name is not family, dot, size")
	case n.DefaultCard >= len(n.Cards):
		return fmt.Errorf("default network card %d is not among its %d cards", n.DefaultCard, len(n.Cards))
	case t.HasGPU() && (t.GPU.Name == "" || t.GPU.Manufacturer == "" || t.GPU.MemoryMiB == 0):
		return errors.New("the GPU lacks a name, manufacturer or memory")
	}
	return errors.Join(t.Accelerator.check(), t.Storage.check())
}

func (a Accelerator) check() error {
	if a != (Accelerator{}) && (a.Name == "" || a.Manufacturer == "" || a.Count == 0 || a.MemoryMiB == 0) {
		return errors.New("the accelerator lacks a name, manufacturer, count or memory")
	}
	return nil
}

func (s Storage) check() error {
	switch {
	case s.NVMe && s.LocalGB == 0:
		return errors.New("its local disks are NVMe disks, and it has none")
	case (s.EBSOptimized == "unsupported") != (s.EBSMbps == 0):
		return fmt.Errorf("EBS optimization %q contradicts a bandwidth of %d Mbps", s.EBSOptimized, s.EBSMbps)
	}
	return nil
}
