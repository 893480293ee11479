package pluginupdate

import (
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// mpsProgram is NVIDIA's control daemon.
const mpsProgram = "mps-control-daemon"

// serves reports whether the node's plugin pod runs the MPS daemon, through which pods
// reach the GPUs: it ends with the pod, and so does what they compute.
func (m *member) serves() bool {
	if m.plugin == nil {
		return false
	}
	all := append(slices.Clone(m.plugin.Spec.InitContainers), m.plugin.Spec.Containers...)
	return slices.ContainsFunc(all, func(c corev1.Container) bool {
		// "mount-shm" only prepares the daemon's memory.
		return len(c.Command) > 0 && path.Base(c.Command[0]) == mpsProgram && !slices.Contains(c.Command, "mount-shm")
	})
}

// podImpact is what the replacement of the node's plugin does to pods that use its GPUs;
// empty where it does nothing to them.
func (m *member) podImpact() string {
	was := gpu.SharedResource
	if m.config.Renamed {
		was = gpu.Resource
	}
	switch {
	case m.serves():
		return "whose MPS daemon ends with the plugin"
	case m.config.Strategy == gpu.SharingStrategyMPS:
		return "whose GPUs MPS would take for itself"
	case m.config.Strategy == gpu.StrategyMIG:
		// Where one GPU is not partitioned as declared, nvidia-mig-parted deletes partitions of all of them.
		return "whose GPUs might be partitioned again"
	case m.advertises() && m.partitioned() && m.health.Expected.Differs(m.node.Status.Allocatable) != "":
		return "whose GPUs are partitioned otherwise"
	case m.has()[was] > 0:
		// The kubelet counts each name by itself: what they hold would be free again.
		return fmt.Sprintf("whose GPUs would be given out once more, as %s", m.config.Resource())
	}
	return ""
}

// partitioned reports whether the node advertises MIG devices by the names of their profiles.
func (m *member) partitioned() bool {
	for name, n := range m.has() {
		if n > 0 && name != gpu.Resource && name != gpu.SharedResource {
			return true
		}
	}
	return false
}
