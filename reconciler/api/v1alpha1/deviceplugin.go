package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DevicePlugin configures NVIDIA's device plugin and GPU sharing for NodePools: the
// version of the plugin, and how many pods share a GPU in which pools. There is one
// per API server, named "nvidia" by convention.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=poolwright
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedNodes`
// +kubebuilder:printcolumn:name="Status",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DevicePlugin struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DevicePluginSpec `json:"spec"`
	// +optional
	Status DevicePluginStatus `json:"status,omitzero"`
}

// GetConditions returns the conditions of the status. It makes a DevicePlugin a Getter of
// github.com/fluxcd/pkg/runtime/conditions.
func (d *DevicePlugin) GetConditions() []metav1.Condition { return d.Status.Conditions }

// SetConditions replaces the conditions of the status. It makes a DevicePlugin a Setter of
// github.com/fluxcd/pkg/runtime/conditions.
func (d *DevicePlugin) SetConditions(conditions []metav1.Condition) { d.Status.Conditions = conditions }

// DevicePluginSpec is the plugin and the ways in which it shares GPUs.
// +kubebuilder:validation:XValidation:rule="!has(self.defaultConfig) || self.configs.exists(p, p.name == self.defaultConfig)",message="defaultConfig must be the name of one of the configurations"
// +kubebuilder:validation:XValidation:rule="self.configs.all(p, has(p.nodePools) && size(p.nodePools) > 0 || has(self.defaultConfig) && self.defaultConfig == p.name)",message="each configuration must name its nodePools, or be the defaultConfig"
type DevicePluginSpec struct {
	// Version is the tag of NVIDIA's device plugin.
	// +kubebuilder:validation:Pattern="^v[0-9]+\\.[0-9]+\\.[0-9]+([-.][0-9A-Za-z.-]+)?$"
	// +kubebuilder:default="v0.19.3"
	// +optional
	Version string `json:"version,omitempty"`
	// Image is the plugin's image without its tag, which is version, for a mirror of
	// your own.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern="^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)*$"
	// +kubebuilder:default="nvcr.io/nvidia/k8s-device-plugin"
	// +optional
	Image string `json:"image,omitempty"`
	// Tolerations of the plugin's pods, beside those for the taints of every new node.
	// They must cover the taints of the pools.
	// +kubebuilder:default={{key: nvidia.com/gpu, operator: Exists}}
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// Resources of the plugin's container. Default: none.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// DefaultConfig is the configuration of the NodePools that no configuration names.
	// Default: none; such pools get no plugin from here.
	// +optional
	DefaultConfig string `json:"defaultConfig,omitempty"`
	// Configs are the ways in which GPUs are advertised.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +listType=map
	// +listMapKey=name
	Configs []DevicePluginConfig `json:"configs"`
}

// DevicePluginConfig is one way of serving GPUs, and the NodePools that use it. Without
// timeSlicing, mps, mig and draDriver, pods get whole GPUs from the device plugin.
// +kubebuilder:validation:XValidation:rule="!(has(self.timeSlicing) && has(self.mps))",message="choose timeSlicing or mps, not both"
// +kubebuilder:validation:XValidation:rule="!has(self.draDriver) || !has(self.timeSlicing) && !has(self.mps)",message="the DRA driver publishes whole GPUs: choose draDriver, timeSlicing or mps"
// +kubebuilder:validation:XValidation:rule="!has(self.mig) || !has(self.timeSlicing) && !has(self.mps) && !has(self.draDriver)",message="GPUs that mig partitions are not shared in another way, and Karpenter expects whole GPUs of the DRA driver: choose mig, timeSlicing, mps or draDriver"
type DevicePluginConfig struct {
	// Name is unique among the configurations; it is part of the names of what is made.
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
	Name string `json:"name"`
	// NodePools that this configuration serves. Each pool has one configuration.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:MinLength=1
	// +listType=set
	// +optional
	NodePools []string `json:"nodePools,omitempty"`
	// TimeSlicing shares each GPU between pods by time-slicing.
	// +optional
	TimeSlicing *TimeSlicing `json:"timeSlicing,omitempty"`
	// MPS lets pods run on a GPU at the same time, by NVIDIA's Multi-Process
	// Service, each with its part of the memory.
	// +optional
	MPS *MPS `json:"mps,omitempty"`
	// MIG partitions each GPU into MIG devices, by NVIDIA's Multi-Instance GPU: once, when its node starts, before pods
	// come to it.
	// +optional
	MIG *MIG `json:"mig,omitempty"`
	// DRADriver advertises whole GPUs by NVIDIA's driver for Dynamic Resource Allocation (DRA) instead of the
	// device plugin: pods request them with ResourceClaims of the DeviceClass gpu.nvidia.com. It takes
	// Karpenter's feature gate DRANVIDIAGPU, which is of alpha stage.
	// +optional
	DRADriver *DRADriver `json:"draDriver,omitempty"`
	// ReadyTimeout is the time in which a registered node must advertise its GPUs; after
	// that it is replaced. A node of the DRA driver is only listed in the status then.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(s|m|h))+$"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="give at least one minute: drivers and plugin need that to start"
	// +kubebuilder:default="10m"
	// +optional
	ReadyTimeout *metav1.Duration `json:"readyTimeout,omitempty"`
}

// TimeSlicing shares a GPU in time. Memory is not divided.
type TimeSlicing struct {
	// Replicas is how many pods share each GPU.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=1000
	Replicas int32 `json:"replicas"`
	// RenameByDefault advertises the shares as nvidia.com/gpu.shared instead of
	// nvidia.com/gpu.
	// +optional
	RenameByDefault bool `json:"renameByDefault,omitempty"`
	// FailRequestsGreaterThanOne has the kubelet refuse pods that request more
	// than one share: two shares are no more than one.
	// +optional
	FailRequestsGreaterThanOne bool `json:"failRequestsGreaterThanOne,omitempty"`
}

// MPS shares a GPU in space: memory and threads are divided evenly. The plugin
// always refuses pods that request more than one share.
type MPS struct {
	// Replicas is how many pods share each GPU; the service allows 48 clients.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=48
	Replicas int32 `json:"replicas"`
	// RenameByDefault advertises the shares as nvidia.com/gpu.shared instead of
	// nvidia.com/gpu.
	// +optional
	RenameByDefault bool `json:"renameByDefault,omitempty"`
}

// MIG partitions a GPU in hardware: each MIG device has memory and compute units of its own.
// +kubebuilder:validation:XValidation:rule="!has(self.strategy) || self.strategy != 'single' || size(self.devices) == 1",message="strategy single advertises devices of one profile: name one, or choose mixed"
type MIG struct {
	// Devices are how many MIG devices each GPU is partitioned into, by the name of their profile: 1g.10gb: 7. All GPUs
	// of a node are partitioned alike.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=6
	// +kubebuilder:validation:XValidation:rule="self.all(p, p.matches('^[1-7]g[.][0-9]{1,3}gb$') && self[p] >= 1 && self[p] <= 7)",message="name profiles such as 1g.10gb, each with 1 to 7 devices"
	Devices map[string]int32 `json:"devices"`
	// Strategy is the plugin's migStrategy: mixed advertises each profile by a name of its own, such as
	// nvidia.com/mig-1g.10gb; single advertises devices of one profile as nvidia.com/gpu.
	// +kubebuilder:validation:Enum=mixed;single
	// +kubebuilder:default=mixed
	// +optional
	Strategy string `json:"strategy,omitempty"`
	// Version is the tag of NVIDIA's MIG manager, whose nvidia-mig-parted partitions the GPUs.
	// +kubebuilder:validation:Pattern="^v[0-9]+\\.[0-9]+\\.[0-9]+([-.][0-9A-Za-z.-]+)?$"
	// +kubebuilder:default="v0.15.0"
	// +optional
	Version string `json:"version,omitempty"`
	// Image is the MIG manager's image without its tag, which is version, for a mirror of
	// your own.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern="^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)*$"
	// +kubebuilder:default="nvcr.io/nvidia/cloud-native/k8s-mig-manager"
	// +optional
	Image string `json:"image,omitempty"`
}

// DRADriver is NVIDIA's DRA driver for GPUs.
type DRADriver struct {
	// Version is the tag of NVIDIA's DRA driver.
	// +kubebuilder:validation:Pattern="^v[0-9]+\\.[0-9]+\\.[0-9]+([-.][0-9A-Za-z.-]+)?$"
	// +kubebuilder:default="v0.4.1"
	// +optional
	Version string `json:"version,omitempty"`
	// Image is the driver's image without its tag, which is version, for a mirror of
	// your own.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern="^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)*$"
	// +kubebuilder:default="registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu"
	// +optional
	Image string `json:"image,omitempty"`
}

// Toleration is a pod's toleration of a taint, as in the core API.
type Toleration struct {
	// Key is the taint's key; empty with operator Exists means every taint.
	// +optional
	Key string `json:"key,omitempty"`
	// Operator is Equal (the default) or Exists.
	// +kubebuilder:validation:Enum=Equal;Exists
	// +optional
	Operator string `json:"operator,omitempty"`
	// Value is the taint's value, for Equal.
	// +optional
	Value string `json:"value,omitempty"`
	// Effect is the taint's effect; empty means every effect.
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	// +optional
	Effect string `json:"effect,omitempty"`
}

// Resources are a container's compute resources, as in the core API.
type Resources struct {
	// Limits, by resource name.
	// +optional
	Limits map[string]resource.Quantity `json:"limits,omitempty"`
	// Requests, by resource name.
	// +optional
	Requests map[string]resource.Quantity `json:"requests,omitempty"`
}

// DevicePluginStatus is the observed state of the GPUs.
type DevicePluginStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready is false while an overlay is not applied, a node does
	// not advertise its GPUs in time, or a pool is in back-off;
	// Progressing is true while nodes start or plugins are replaced.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Nodes counts the nodes with GPUs in pools that a configuration serves.
	// +optional
	Nodes int32 `json:"nodes"`
	// UpdatedNodes counts those whose plugin runs as declared and that advertise
	// the resources of their configuration.
	// +optional
	UpdatedNodes int32 `json:"updatedNodes"`
	// Pools are the same pool by pool, sorted by name. Pools without nodes and
	// without failures are left out.
	// +listType=map
	// +listMapKey=name
	// +optional
	Pools []GPUPoolStatus `json:"pools,omitempty"`
}

// GPUPoolStatus is the state of one NodePool's GPUs.
type GPUPoolStatus struct {
	// Name of the NodePool.
	Name string `json:"name"`
	// Config that serves it.
	Config string `json:"config"`
	// Nodes with GPUs in the pool.
	Nodes int32 `json:"nodes"`
	// UpdatedNodes are those of them that run the plugin as declared and advertise
	// the resources of the configuration.
	// +optional
	UpdatedNodes int32 `json:"updatedNodes"`
	// Allocatable are the pool's allocatable GPU resources, added up.
	// +optional
	Allocatable map[string]int64 `json:"allocatable,omitempty"`
	// PluginUpdate is the progress of the update of plugins, or what it waits for; empty
	// when there is nothing to replace.
	// +optional
	PluginUpdate string `json:"pluginUpdate,omitempty"`
	// UnhealthyNodes are nodes that do not advertise the resources of their configuration, with the
	// reason; at most ten.
	// +kubebuilder:validation:MaxItems=10
	// +listType=map
	// +listMapKey=node
	// +optional
	UnhealthyNodes []UnhealthyGPUNode `json:"unhealthyNodes,omitempty"`
	// Failures counts the nodes that were replaced in a row because they never
	// advertised their GPUs. One that does ends the row.
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// BackoffUntil is until when no GPU node of the pool is launched, because too
	// many in a row never advertised their GPUs.
	// +optional
	BackoffUntil *metav1.Time `json:"backoffUntil,omitempty"`
	// LastFailure is the diagnosis of the last node that was replaced.
	// +optional
	LastFailure string `json:"lastFailure,omitempty"`
}

// UnhealthyGPUNode is a node that does not advertise the resources of its configuration.
type UnhealthyGPUNode struct {
	// Node is its name.
	Node string `json:"node"`
	// NodeClaim is the name of its claim.
	// +optional
	NodeClaim string `json:"nodeClaim,omitempty"`
	// Reason is in CamelCase, such as NoDriver; the documentation of DevicePlugin has
	// them all.
	Reason string `json:"reason"`
	// Message is what was observed.
	// +optional
	Message string `json:"message,omitempty"`
	// Since is when it was first observed.
	Since metav1.Time `json:"since"`
}

// DevicePluginList is a list of DevicePlugins.
// +kubebuilder:object:root=true
type DevicePluginList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DevicePlugin `json:"items"`
}
