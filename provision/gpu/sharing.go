package gpu

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/gpu/migprofile"
)

const (
	// Resource is the name under which the plugin advertises GPUs.
	Resource corev1.ResourceName = "nvidia.com/gpu"
	// SharedResource is the name of shares that are renamed.
	SharedResource corev1.ResourceName = "nvidia.com/gpu.shared"

	// StartupTaint keeps pods from a node until what it advertises is what its configuration
	// declares. Its effect is NoSchedule. Karpenter takes taints with this prefix for
	// passing ones: it counts the node's capacity all the same, and does not call the node
	// initialized while it is there.
	StartupTaint = "readiness.k8s.io/poolwright-gpu"
	// AllocatableAnnotation on a Node is what it advertised, as recorded, as Resources.String
	// writes it. The engine prefers it to the node's status, so that a plugin that
	// restarts makes nobody buy a node.
	AllocatableAnnotation = "poolwright.dev/gpu-allocatable"
	// ConfigLabel on the plugin's DaemonSets and pods names their configuration.
	ConfigLabel = "poolwright.dev/gpu-profile"
	// DRAConfigLabel on the DRA driver's DaemonSets names their configuration, and is empty on what all
	// of them share. By it the driver outlives the nodes that it serves.
	DRAConfigLabel = "poolwright.dev/dra-config"
	// PluginHashAnnotation in the pod template of the plugin's DaemonSets, and on their pods, is a
	// hash of what the pods run and of its configuration: a pod with another value runs an old
	// plugin. Read it by PluginHash.
	PluginHashAnnotation = "poolwright.dev/gpu-plugin-hash"
	// SharingAnnotation on the plugin's DaemonSets is the sharing strategy of the configuration that
	// they were made from, and what a node with one GPU advertises by it. Where it is not that of the
	// live DevicePlugin's configuration, the two are not of the same configuration yet, and nothing may be
	// concluded from what nodes advertise. Read it by ReadSharing.
	SharingAnnotation = "poolwright.dev/gpu-sharing"
	// PluginUpdateAnnotation on a Node records that its plugin is being updated, as String of the
	// record writes it. Read it by ReadPluginUpdate.
	PluginUpdateAnnotation = "poolwright.dev/gpu-plugin-update"

	// The names of three annotations in earlier releases. They are still read: without the first, every
	// plugin would be restarted with the upgrade; without the third, no broken node of a Sync that is
	// suspended would be replaced.
	formerHashAnnotation    = "poolwright.dev/gpu-revision"
	formerUpdateAnnotation  = "poolwright.dev/gpu-rollout"
	formerSharingAnnotation = "poolwright.dev/gpu-shares"
	// PluginNamespace is where the plugin's DaemonSets and ConfigMaps are.
	PluginNamespace = "kube-system"
)

// SharingStrategy is how GPUs are shared, as the label nvidia.com/gpu.sharing-strategy of NVIDIA's GPU
// feature discovery has it.
type SharingStrategy string

// The sharing strategies.
const (
	// SharingStrategyNone is no sharing: one pod for each GPU.
	SharingStrategyNone SharingStrategy = "none"
	// SharingStrategyTimeSlicing lets pods take turns.
	SharingStrategyTimeSlicing SharingStrategy = "time-slicing"
	// SharingStrategyMPS divides a GPU's memory and threads.
	SharingStrategyMPS SharingStrategy = "mps"
	// StrategyMIG partitions GPUs by NVIDIA's Multi-Instance GPU, once, when their node starts.
	StrategyMIG SharingStrategy = "mig"
	// StrategyDRA is no strategy of NVIDIA's device plugin: NVIDIA's DRA driver publishes whole GPUs in
	// ResourceSlices, and a node has none of them among its allocatable resources.
	StrategyDRA SharingStrategy = "dra"
)

// PluginConfig is one way of advertising GPUs.
type PluginConfig struct {
	// Name is unique in a Sharing.
	Name string
	// Pools are the NodePools that name this configuration, sorted.
	Pools []string
	// Strategy is how the GPUs are shared.
	Strategy SharingStrategy
	// Replicas is how many shares each GPU has; 1 for SharingStrategyNone, and the number of MIG devices for StrategyMIG.
	Replicas int
	// MIGDevices is how many MIG devices each GPU has, by the name of their profile, such as 1g.10gb. Only for StrategyMIG.
	MIGDevices map[string]int
	// MIGSingle is true when MIG devices, all of one profile, are advertised as Resource, by the plugin's migStrategy single,
	// and not each by a name that has its profile (mixed).
	MIGSingle bool
	// Renamed is true when shares are advertised as SharedResource.
	Renamed bool
	// OnePerRequest is true when the plugin refuses requests for more than one.
	OnePerRequest bool
	// ReadyTimeout is how long a registered node may take to advertise its GPUs.
	ReadyTimeout time.Duration
}

// Sharing is what a DevicePlugin declares of a cluster's GPUs. The zero value serves no
// pool.
type Sharing struct {
	// Name is the DevicePlugin's.
	Name string
	// Configs in the order of the DevicePlugin.
	Configs []PluginConfig
	// Default is the configuration of all pools that no configuration names; "" is none.
	Default string
}

// ConfigForPool returns the configuration by which the device plugin serves a pool; none for a pool of the DRA driver,
// whose nodes have no plugin to wait for, to count by or to update.
func (s Sharing) ConfigForPool(pool string) (PluginConfig, bool) {
	p, ok := s.named(pool)
	if !ok || p.Strategy == StrategyDRA {
		return PluginConfig{}, false
	}
	return p, true
}

// DRAForPool returns the configuration by which the DRA driver serves a pool.
func (s Sharing) DRAForPool(pool string) (PluginConfig, bool) {
	p, ok := s.named(pool)
	if !ok || p.Strategy != StrategyDRA {
		return PluginConfig{}, false
	}
	return p, true
}

// named is the configuration that names a pool, or the default.
func (s Sharing) named(pool string) (PluginConfig, bool) {
	for _, p := range s.Configs {
		if slices.Contains(p.Pools, pool) {
			return p, true
		}
	}
	return s.Config(s.Default)
}

// Config returns the configuration of that name.
func (s Sharing) Config(name string) (PluginConfig, bool) {
	for _, p := range s.Configs {
		if name != "" && p.Name == name {
			return p, true
		}
	}
	return PluginConfig{}, false
}

// Others are the pools that other configurations name: what the default configuration does
// not serve. Sorted.
func (s Sharing) Others(name string) []string {
	var out []string
	for _, p := range s.Configs {
		if p.Name != name {
			out = append(out, p.Pools...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Resource is the name under which the configuration advertises its GPUs or shares; of several, the first.
func (p PluginConfig) Resource() corev1.ResourceName { return p.Resources()[0] }

// Resources are the names under which the configuration advertises its GPUs or shares, sorted. There is more than one where
// GPUs are partitioned into MIG devices of several profiles.
func (p PluginConfig) Resources() []corev1.ResourceName {
	switch {
	case p.Strategy == StrategyMIG && !p.MIGSingle && len(p.MIGDevices) > 0:
		var out []corev1.ResourceName
		for _, profile := range slices.Sorted(maps.Keys(p.MIGDevices)) {
			out = append(out, migprofile.Resource(profile))
		}
		return out
	case p.Renamed:
		return []corev1.ResourceName{SharedResource}
	}
	return []corev1.ResourceName{Resource}
}

// Advertises reports whether nodes of the configuration advertise a resource.
func (p PluginConfig) Advertises(name string) bool {
	return slices.Contains(p.Resources(), corev1.ResourceName(name))
}

// ResourceNames are Resources, separated by commas.
func (p PluginConfig) ResourceNames() string {
	var out []string
	for _, name := range p.Resources() {
		out = append(out, string(name))
	}
	return strings.Join(out, ", ")
}

// Partitions is how the configuration partitions a GPU by MIG, and as what the partitions are advertised; empty for any other
// strategy. Nodes of two configurations that differ in it must not be changed from one to the other.
func (p PluginConfig) Partitions() string {
	if p.Strategy != StrategyMIG {
		return ""
	}
	parts := []string{"mixed"}
	if p.MIGSingle {
		parts[0] = "single"
	}
	for _, profile := range slices.Sorted(maps.Keys(p.MIGDevices)) {
		parts = append(parts, fmt.Sprintf("%s=%d", profile, p.MIGDevices[profile]))
	}
	return strings.Join(parts, ",")
}

// PluginHash is the PluginHashAnnotation of a pod or of the pod template of a DaemonSet; empty where it has none.
func PluginHash(annotations map[string]string) string {
	return cmp.Or(annotations[PluginHashAnnotation], annotations[formerHashAnnotation])
}

// ReadSharing is the SharingAnnotation of a DaemonSet, with the strategy's name of today; empty where it has none.
func ReadSharing(annotations map[string]string) string {
	if sharing := annotations[SharingAnnotation]; sharing != "" {
		return sharing
	}
	former := annotations[formerSharingAnnotation]
	strategy, allocatable, _ := strings.Cut(former, ":")
	switch strategy {
	case "whole":
		return string(SharingStrategyNone) + ":" + allocatable
	case "MPS":
		return string(SharingStrategyMPS) + ":" + allocatable
	default:
		return former
	}
}

// EncodeSharing is how the configuration divides a GPU, as the value of SharingAnnotation.
func (p PluginConfig) EncodeSharing() string {
	return string(p.Strategy) + ":" + p.Allocatable(1).String()
}

// Allocatable is what a node with that many GPUs advertises under the configuration: nothing by the DRA driver, whose
// devices are in ResourceSlices and must not be counted a second time as resources.
func (p PluginConfig) Allocatable(gpus int) Resources {
	allocatable := Resources{Resource: 0, SharedResource: 0}
	switch {
	case p.Strategy == StrategyDRA:
	case p.Strategy == StrategyMIG && !p.MIGSingle:
		for profile, n := range p.MIGDevices {
			allocatable[migprofile.Resource(profile)] = int64(gpus * n)
		}
	default:
		allocatable[p.Resource()] = int64(gpus * max(p.Replicas, 1))
	}
	return allocatable
}
