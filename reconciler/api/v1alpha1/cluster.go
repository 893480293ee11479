package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EngineMode is who provisions nodes.
// +kubebuilder:validation:Enum=Embedded;External;Off
type EngineMode string

// The values of EngineMode.
const (
	// EngineEmbedded runs Karpenter inside Poolwright.
	EngineEmbedded EngineMode = "Embedded"
	// EngineExternal leaves provisioning to a Karpenter that runs beside
	// Poolwright.
	EngineExternal EngineMode = "External"
	// EngineOff provisions nothing.
	EngineOff EngineMode = "Off"
)

// Cluster describes the EKS cluster that it is in, its engine (the embedded Karpenter)
// and the AWS resources of its nodes. There is one per API server, named "cluster" by
// convention.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=poolwright
// +kubebuilder:printcolumn:name="EKS",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.region`
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.spec.engine.mode`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="AWS",type=string,JSONPath=`.status.conditions[?(@.type=="AWSInSync")].status`
// +kubebuilder:printcolumn:name="Status",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterSpec `json:"spec"`
	// +optional
	Status ClusterStatus `json:"status,omitzero"`
}

// GetConditions returns the conditions of the status. It makes a Cluster a Getter of
// github.com/fluxcd/pkg/runtime/conditions.
func (c *Cluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the status. It makes a Cluster a Setter of
// github.com/fluxcd/pkg/runtime/conditions.
func (c *Cluster) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }

// ClusterSpec is the cluster's identity, its engine's settings and the AWS resources
// that its nodes need.
type ClusterSpec struct {
	// Name is the EKS cluster's name.
	// +kubebuilder:validation:Pattern="^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$"
	Name string `json:"name"`
	// Region is the AWS region, such as eu-west-1.
	// +kubebuilder:validation:Pattern="^[a-z]{2}(-[a-z]+)+-[0-9]+$"
	Region string `json:"region"`
	// Account is the twelve-digit AWS account that the cluster is in.
	// +kubebuilder:validation:Pattern="^[0-9]{12}$"
	Account string `json:"account"`
	// Engine is who provisions nodes, and how.
	// +kubebuilder:default={mode: Embedded}
	// +optional
	Engine EngineSpec `json:"engine,omitzero"`

	// Tags are set on every AWS resource that Poolwright creates, beside its own.
	// +kubebuilder:validation:MaxProperties=40
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// Discovery is the tag by which EC2NodeClasses find subnets and security
	// groups. Default: not read, as for every part below.
	// +optional
	Discovery *Discovery `json:"discovery,omitempty"`
	// NodeRole is the IAM role of the nodes.
	// +optional
	NodeRole *NodeRole `json:"nodeRole,omitempty"`
	// InterruptionQueue is the queue of interruption events, and its rules.
	// +optional
	InterruptionQueue *InterruptionQueue `json:"interruptionQueue,omitempty"`
	// Logging is the control plane's logging.
	// +optional
	Logging *Logging `json:"logging,omitempty"`
	// ManagedNodeGroups are EKS managed node groups.
	// +kubebuilder:validation:MaxItems=30
	// +listType=map
	// +listMapKey=name
	// +optional
	ManagedNodeGroups []ManagedNodeGroup `json:"managedNodeGroups,omitempty"`
	// Version is the Kubernetes minor version of the EKS cluster, such as
	// "1.33". It is compared and reported, never changed.
	// +kubebuilder:validation:Pattern="^1\\.[0-9]{2}$"
	// +optional
	Version string `json:"version,omitempty"`
	// Addons are EKS add-ons. They are compared and reported, never changed.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	// +optional
	Addons []Addon `json:"addons,omitempty"`
	// ControllerRole is the IAM role of Poolwright itself.
	// +optional
	ControllerRole *ControllerRole `json:"controllerRole,omitempty"`
}

// EngineSpec configures the embedded Karpenter. A change restarts the
// controller process once, about ten seconds after the last edit.
// +kubebuilder:validation:XValidation:rule="(has(self.batchMaxDuration) ? duration(self.batchMaxDuration) : duration('10s')) >= (has(self.batchIdleDuration) ? duration(self.batchIdleDuration) : duration(has(self.pace) && self.pace == 'Stock' ? '1s' : '100ms'))",message="batchIdleDuration (default 100ms, at the pace Stock 1s) is above batchMaxDuration (default 10s): lower batchIdleDuration or raise batchMaxDuration"
type EngineSpec struct {
	// Mode is Embedded (default), External or Off.
	// +kubebuilder:default=Embedded
	// +optional
	Mode EngineMode `json:"mode,omitempty"`
	// BatchIdleDuration is how long the provisioner waits for one more pending pod.
	// Default 100ms, at the pace Stock 1s; above zero.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"
	// +optional
	BatchIdleDuration *metav1.Duration `json:"batchIdleDuration,omitempty"`
	// BatchMaxDuration is how long the provisioner collects pending pods at most.
	// Default 10s; not below batchIdleDuration.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"
	// +optional
	BatchMaxDuration *metav1.Duration `json:"batchMaxDuration,omitempty"`
	// Pace is Fast (default), with which nodes are launched a fraction of a second after the
	// last pending pod, and empty ones terminated within seconds after consolidateAfter, or
	// Stock, with Karpenter's own controllers for that.
	// +optional
	Pace EnginePace `json:"pace,omitempty"`
	// FeatureGates switches Karpenter's feature gates by name: NodeRepair,
	// ReservedCapacity, SpotToSpotConsolidation, NodeOverlay, StaticCapacity,
	// CapacityBuffer, TerminateFirstDrift, TerminateFirstRepair, DRANVIDIAGPU. NodeOverlay is
	// on by default, the others as in Karpenter.
	// +kubebuilder:validation:MaxProperties=9
	// +kubebuilder:validation:XValidation:rule="self.all(gate, gate in ['NodeRepair', 'ReservedCapacity', 'SpotToSpotConsolidation', 'NodeOverlay', 'StaticCapacity', 'CapacityBuffer', 'TerminateFirstDrift', 'TerminateFirstRepair', 'DRANVIDIAGPU'])",message="unknown feature gate: NodeRepair, ReservedCapacity, SpotToSpotConsolidation, NodeOverlay, StaticCapacity, CapacityBuffer, TerminateFirstDrift, TerminateFirstRepair and DRANVIDIAGPU are known",messageExpression="'unknown feature gate ' + self.filter(gate, !(gate in ['NodeRepair', 'ReservedCapacity', 'SpotToSpotConsolidation', 'NodeOverlay', 'StaticCapacity', 'CapacityBuffer', 'TerminateFirstDrift', 'TerminateFirstRepair', 'DRANVIDIAGPU']))[0] + ': NodeRepair, ReservedCapacity, SpotToSpotConsolidation, NodeOverlay, StaticCapacity, CapacityBuffer, TerminateFirstDrift, TerminateFirstRepair and DRANVIDIAGPU are known'"
	// +optional
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// InterruptionQueue is the name of the SQS queue that carries spot
	// interruption and health events. Default: the one that
	// spec.interruptionQueue declares; where there is none, interruptions are
	// not handled in advance.
	// +kubebuilder:validation:MaxLength=80
	// +optional
	InterruptionQueue string `json:"interruptionQueue,omitempty"`
	// MinValuesPolicy is what becomes of pods where a requirement's minValues
	// cannot be met: Strict (default) leaves them pending, BestEffort gives the
	// minimum up.
	// +optional
	MinValuesPolicy MinValuesPolicy `json:"minValuesPolicy,omitempty"`
	// ReservedENIs are network interfaces of an instance that are not counted for
	// pods, as where the VPC CNI has custom networking. Default 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ReservedENIs int32 `json:"reservedENIs,omitempty"`
	// DisableDryRun validates EC2NodeClasses without dry-run requests to EC2 for
	// launching their instances. Default false.
	// +optional
	DisableDryRun bool `json:"disableDryRun,omitempty"`
	// PreferencePolicy is what becomes of preferred affinities and of topology spreads
	// with ScheduleAnyway: Respect (default) heeds them as long as it can, Ignore
	// treats them as absent.
	// +kubebuilder:validation:Enum=Respect;Ignore
	// +optional
	PreferencePolicy string `json:"preferencePolicy,omitempty"`
	// VMMemoryOverheadPercent is the share of an instance type's memory that is assumed to
	// be its hypervisor's as long as no node of the type has reported its memory: a decimal
	// number from 0 up to, not including, 1. Default "0.075".
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^0([.][0-9]+)?$')",message="vmMemoryOverheadPercent is no share of the memory: give a decimal number from 0 up to, not including, 1, such as \"0.075\""
	// +optional
	VMMemoryOverheadPercent string `json:"vmMemoryOverheadPercent,omitempty"`
	// ClusterEndpoint is the API server's URL as new nodes connect to it. Default:
	// the endpoint that EKS returns.
	// +kubebuilder:validation:MaxLength=300
	// +kubebuilder:validation:XValidation:rule="self.matches('^https://[^@/?#]+(/[^@?#]*)?$')",message="clusterEndpoint is no https URL: give one without user info, or leave it out to use that of EKS"
	// +optional
	ClusterEndpoint string `json:"clusterEndpoint,omitempty"`
	// IsolatedVPC is for a VPC from which only services with a VPC endpoint are reached: on-demand
	// prices are those built into Karpenter, and instance profiles are not cleaned up.
	// Default false.
	// +optional
	IsolatedVPC bool `json:"isolatedVPC,omitempty"`
	// EnableZonalShift launches no nodes in zones that a zonal shift of ARC leads away from. Zonal
	// shift must be enabled on the EKS cluster. Default false.
	// +optional
	EnableZonalShift bool `json:"enableZonalShift,omitempty"`
	// AMIRefreshInterval is the time between two listings of machine images. At least 1m, which is the default.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="amiRefreshInterval is below 1m: give 1m or more"
	// +optional
	AMIRefreshInterval *metav1.Duration `json:"amiRefreshInterval,omitempty"`
	// SubnetRefreshInterval is the time between two listings of subnets. At least 1m, which is the default.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="subnetRefreshInterval is below 1m: give 1m or more"
	// +optional
	SubnetRefreshInterval *metav1.Duration `json:"subnetRefreshInterval,omitempty"`
	// SecurityGroupRefreshInterval is the time between two listings of security groups. At least 1m, which is the default.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="securityGroupRefreshInterval is below 1m: give 1m or more"
	// +optional
	SecurityGroupRefreshInterval *metav1.Duration `json:"securityGroupRefreshInterval,omitempty"`
	// KubeClientQPS is the steady rate of requests a second to the API server, of the whole
	// controller. Default 200.
	// +kubebuilder:validation:Minimum=1
	// +optional
	KubeClientQPS int32 `json:"kubeClientQPS,omitempty"`
	// KubeClientBurst is the rate of these requests that is allowed for a moment. Default 300.
	// +kubebuilder:validation:Minimum=1
	// +optional
	KubeClientBurst int32 `json:"kubeClientBurst,omitempty"`
	// CPURequests is the processor time of the controller in millicores, by which the engine sizes
	// how much it does at a time. It changes no container's requests. Default 1000.
	// +kubebuilder:validation:Minimum=1
	// +optional
	CPURequests int32 `json:"cpuRequests,omitempty"`
	// DisableClusterStateObservability leaves out the metrics and events that Karpenter has for each
	// pod, node and condition. Default false.
	// +optional
	DisableClusterStateObservability bool `json:"disableClusterStateObservability,omitempty"`
}

// EnginePace is how soon the embedded Karpenter launches nodes and disrupts empty ones.
// +kubebuilder:validation:Enum=Fast;Stock
type EnginePace string

// The values of EnginePace.
const (
	// EnginePaceFast batches pods for 100ms, taints an empty node as soon as consolidateAfter
	// has passed, and validates it afterwards.
	EnginePaceFast EnginePace = "Fast"
	// EnginePaceStock batches, polls and validates as Karpenter does.
	EnginePaceStock EnginePace = "Stock"
)

// MinValuesPolicy is how strictly minValues are met.
// +kubebuilder:validation:Enum=Strict;BestEffort
type MinValuesPolicy string

// The values of MinValuesPolicy.
const (
	MinValuesStrict     MinValuesPolicy = "Strict"
	MinValuesBestEffort MinValuesPolicy = "BestEffort"
)

// ClusterStatus is the observed state of a Cluster.
type ClusterStatus struct {
	// ObservedGeneration is the generation of the spec that the conditions
	// are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, EngineBlocked (true while a gate keeps the engine from
	// running) and AWSInSync (unknown while some resources could not be read).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// AWS is what was last found in AWS.
	// +optional
	AWS *AWSStatus `json:"aws,omitempty"`
}

// ClusterList is a list of Clusters.
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

// CompareClusters orders Clusters by their creationTimestamps, then by their names. Of several
// in one API server the first, which is the oldest, decides what the engine and AWS are to be;
// nothing is done for the others. It is negative where a comes first.
func CompareClusters(a, b metav1.Object) int {
	created, other := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(created.Compare(other.Time), cmp.Compare(a.GetName(), b.GetName()))
}
