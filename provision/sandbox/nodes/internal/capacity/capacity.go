// Package capacity computes what a kubelet on EKS reports as a node's capacity
// and allocatable: the operating system's share of the memory, the reservations
// that EKS images make, the eviction thresholds, the pods that the network
// interfaces allow. Devices are not its business.
//
// It refuses thresholds and reservations that a kubelet refuses. Start reading
// at Compute.
package capacity

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/userdata"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// Hardware is what the instance has.
type Hardware struct {
	VCPU          int64
	MemoryMiB     int64 // as EC2 states it
	Interfaces    int64 // network interfaces
	IPv4PerIface  int64 // addresses of each
	StorageGiB    int64 // the file system that pods write to
	PodsFromLimit bool  // kubelet reserves memory for the configured pods (Bottlerocket), not for those that the interfaces allow
}

// Compute returns capacity and allocatable. An error names the setting that
// kubelet would refuse.
func Compute(h Hardware, k userdata.Kubelet) (capacity, allocatable corev1.ResourceList, err error) {
	byInterfaces := h.Interfaces*(h.IPv4PerIface-1) + 2
	pods := byInterfaces
	if k.MaxPods > 0 {
		pods = int64(k.MaxPods)
	}
	if k.PodsPerCore > 0 {
		pods = min(pods, int64(k.PodsPerCore)*h.VCPU)
	}
	total := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(h.VCPU, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(usable(h.MemoryMiB)*mib, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(max(h.StorageGiB*gib-12*mib, 0), resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(pods, resource.DecimalSI),
		"hugepages-1Gi":                 *resource.NewQuantity(0, resource.DecimalSI),
		"hugepages-2Mi":                 *resource.NewQuantity(0, resource.DecimalSI),
	}
	reservedFor := byInterfaces
	if h.PodsFromLimit {
		reservedFor = pods
	}
	left := total.DeepCopy()
	if err := subtract(left, "kubeReserved", withDefaults(k.KubeReserved, kubeReserved(h.VCPU, reservedFor))); err != nil {
		return nil, nil, err
	}
	if err := subtract(left, "systemReserved", k.SystemReserved); err != nil {
		return nil, nil, err
	}
	if err := evict(left, total, k.EvictionHard); err != nil {
		return nil, nil, err
	}
	return total, left, nil
}

// usable is the memory in MiB that the operating system has: firmware and the kernel's
// page tables take about 1/32 and 80 MiB, never more than 6.5%. Measured EKS nodes lie
// within a percent of it.
func usable(statedMiB int64) int64 {
	return max(statedMiB*31/32-80, statedMiB*935/1000)
}

// kubeReserved is what EKS images reserve: CPU on a falling scale, memory by the
// number of pods.
func kubeReserved(vcpu, pods int64) map[string]string {
	milli := int64(0) // in tenths, because the last step is 2.5 a core
	for core := int64(1); core <= vcpu; core++ {
		switch {
		case core == 1:
			milli += 600
		case core == 2:
			milli += 100
		case core <= 4:
			milli += 50
		default:
			milli += 25
		}
	}
	return map[string]string{
		"cpu":               strconv.FormatInt(milli/10, 10) + "m",
		"memory":            strconv.FormatInt(11*pods+255, 10) + "Mi",
		"ephemeral-storage": "1Gi",
	}
}

func withDefaults(given, defaults map[string]string) map[string]string {
	maps.Copy(defaults, given)
	return defaults
}

func subtract(left corev1.ResourceList, setting string, reserved map[string]string) error {
	for name, text := range reserved {
		amount, err := resource.ParseQuantity(text)
		if err != nil || amount.Sign() < 0 {
			return fmt.Errorf("kubelet refuses %s.%s: not a quantity", setting, name)
		}
		if name == "pid" {
			continue
		}
		if name != string(corev1.ResourceCPU) && name != string(corev1.ResourceMemory) && name != string(corev1.ResourceEphemeralStorage) {
			return fmt.Errorf("kubelet refuses %s: it cannot reserve %q", setting, name)
		}
		take(left, corev1.ResourceName(name), amount)
	}
	return nil
}

// evict takes the hard eviction thresholds off what is left. The user's signals
// lie over the images' defaults.
func evict(left, total corev1.ResourceList, given map[string]string) error {
	thresholds := withDefaults(given, map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"})
	for signal, name := range map[string]corev1.ResourceName{
		"memory.available": corev1.ResourceMemory, "nodefs.available": corev1.ResourceEphemeralStorage,
	} {
		whole := total[name]
		amount, err := threshold(thresholds[signal], whole)
		if err != nil {
			return fmt.Errorf("kubelet refuses evictionHard %s: neither a quantity nor a percentage", signal)
		}
		take(left, name, amount)
	}
	return nil
}

func threshold(text string, whole resource.Quantity) (resource.Quantity, error) {
	percent, ok := strings.CutSuffix(text, "%")
	if !ok {
		return resource.ParseQuantity(text)
	}
	share, err := strconv.ParseFloat(percent, 64)
	if err != nil || share < 0 || share > 100 {
		return resource.Quantity{}, fmt.Errorf("not a percentage")
	}
	return *resource.NewQuantity(int64(float64(whole.Value())*share/100), resource.BinarySI), nil
}

func take(left corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) {
	rest := left[name]
	rest.Sub(amount)
	if rest.Sign() < 0 {
		rest.Set(0)
	}
	left[name] = rest
}
