package capacity_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/capacity"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/userdata"
)

var g5 = capacity.Hardware{VCPU: 4, MemoryMiB: 16384, Interfaces: 4, IPv4PerIface: 15, StorageGiB: 100}

// short writes the figures that differ between cases: cpu memory storage pods.
func short(list corev1.ResourceList) string {
	var out []string
	for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "pods"} {
		q := list[name]
		out = append(out, q.String())
	}
	return strings.Join(out, " ")
}

func TestCapacityIsWhatAKubeletOnEKSReports(t *testing.T) {
	for name, c := range map[string]struct {
		hardware        capacity.Hardware
		kubelet         userdata.Kubelet
		total, allocate string
	}{
		// 58 pods: 4 interfaces of 15 addresses, one of each its own, and 2 on the host
		// network. 80m CPU; 11·58+255 = 893 Mi and 100 Mi threshold.
		"the defaults of a g5.xlarge": {g5, userdata.Kubelet{}, "4 15792Mi 102388Mi 58", "3920m 14799Mi 95551697716 58"},
		"a t3.small": {capacity.Hardware{VCPU: 2, MemoryMiB: 2048, Interfaces: 3, IPv4PerIface: 4, StorageGiB: 20}, userdata.Kubelet{},
			"2 1914Mi 20468Mi 11", "1930m 1438Mi 18242286388 11"},
		"a p5.48xlarge": {capacity.Hardware{VCPU: 192, MemoryMiB: 2097152, Interfaces: 64, IPv4PerIface: 50, StorageGiB: 28000}, userdata.Kubelet{},
			"192 2031536Mi 28671988Mi 3138", ""},
		"a pod limit changes the pods, not the reservation": {g5, userdata.Kubelet{MaxPods: 110}, "4 15792Mi 102388Mi 110", "3920m 14799Mi 95551697716 110"},
		"on Bottlerocket it changes the reservation too": {func() capacity.Hardware { h := g5; h.PodsFromLimit = true; return h }(), userdata.Kubelet{MaxPods: 110},
			"4 15792Mi 102388Mi 110", "3920m 14227Mi 95551697716 110"},
		"pods per core": {g5, userdata.Kubelet{PodsPerCore: 5}, "4 15792Mi 102388Mi 20", "3920m 14799Mi 95551697716 20"},
		"given reservations lie over the image's": {g5, userdata.Kubelet{KubeReserved: map[string]string{"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "2Gi"},
			SystemReserved: map[string]string{"cpu": "100m", "memory": "100Mi", "pid": "100"}}, "4 15792Mi 102388Mi 58", "3400m 14568Mi 94477955892 58"},
		"thresholds may be percentages": {g5, userdata.Kubelet{EvictionHard: map[string]string{"memory.available": "10%", "nodefs.available": "5Gi"}},
			"4 15792Mi 102388Mi 58", ""},
		"nothing goes below zero": {g5, userdata.Kubelet{KubeReserved: map[string]string{"cpu": "9", "memory": "1Ti"}}, "4 15792Mi 102388Mi 58", "0 0 95551697716 58"},
	} {
		t.Run(name, func(t *testing.T) {
			total, allocatable, err := capacity.Compute(c.hardware, c.kubelet)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.total, short(total)); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
			if c.allocate != "" {
				if diff := cmp.Diff(c.allocate, short(allocatable)); diff != "" {
					t.Errorf("allocatable (-want +got):\n%s", diff)
				}
			}
			if _, ok := total["nvidia.com/gpu"]; ok {
				t.Error("there are devices")
			}
		})
	}
}

// TestMemory is what the scheduler of the engine trusts: it takes 7.5% off the
// stated memory, so a node with less would not hold the pods meant for it.
func TestMemoryIsNeverLessThanKarpenterExpects(t *testing.T) {
	for mib := int64(512); mib < 4<<20; mib = mib*5/4 + 1 {
		total, _, err := capacity.Compute(capacity.Hardware{VCPU: 2, MemoryMiB: mib, Interfaces: 3, IPv4PerIface: 10, StorageGiB: 20}, userdata.Kubelet{})
		if err != nil {
			t.Fatal(err)
		}
		memory := total[corev1.ResourceMemory]
		share := float64(memory.Value()) / float64(mib<<20)
		if share < 0.925 || share > 0.97 {
			t.Errorf("%d MiB: the system leaves %.1f%%", mib, share*100)
		}
	}
}

func TestSettingsThatAKubeletRefuses(t *testing.T) {
	for name, k := range map[string]userdata.Kubelet{
		"kubeReserved.cpu":      {KubeReserved: map[string]string{"cpu": "much"}},
		"systemReserved.memory": {SystemReserved: map[string]string{"memory": "-1Gi"}},
		"cannot reserve":        {KubeReserved: map[string]string{"nvidia.com/gpu": "1"}},
		"memory.available":      {EvictionHard: map[string]string{"memory.available": "101%"}},
		"nodefs.available":      {EvictionHard: map[string]string{"nodefs.available": "all"}},
	} {
		if _, _, err := capacity.Compute(g5, k); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error that names %s", err, name)
		}
	}
}
