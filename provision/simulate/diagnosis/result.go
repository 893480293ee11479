package diagnosis

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Volume is a PersistentVolumeClaim of a pod with the nodes that its volume can be attached to.
type Volume struct {
	// Claim is the name of the PersistentVolumeClaim, in the pod's namespace.
	Claim string
	// Terms are alternatives: a node must match one of them. None means every node.
	Terms []corev1.NodeSelectorTerm
}

// Result is where Karpenter's scheduler places a pod, and what each NodePool lacks for it.
type Result struct {
	// Placed is true where the pod alone finds a node.
	Placed bool
	// Pool is the NodePool of the node that it finds; empty for a node of none, and for no node.
	Pool string
	// Node is the node, or the NodeClaim of one that starts, which has capacity for the pod; empty
	// where a node would be launched, and for no node.
	Node string
	// CompetingPods is how many pending pods leave it without a node that it finds alone; 0 where they do not.
	CompetingPods int
	// Pools are the NodePools, the one that comes closest to what the pod requires first.
	Pools []Pool
	// Unknown are sentences on what could not be computed.
	Unknown []string
}

// Pool is what one NodePool lacks for a pod.
type Pool struct {
	// Name is the NodePool's.
	Name string
	// Reasons are what keeps the pod from its nodes, in the order in which they are to be removed; empty where nothing does.
	Reasons []UnschedulableReason
	// Types are the instance types that hold the pod, limits aside, those with the fewest vCPUs first.
	Types []InstanceType
}

// InstanceType is one that a pool can buy for a pod.
type InstanceType struct {
	// Name is the instance type's.
	Name string
	// VCPUs is how many it has.
	VCPUs int
	// CapacityTypes are on-demand, spot and reserved, sorted, as far as the pool may buy it so.
	CapacityTypes []string
}

// UnschedulableReasonKind is what sort of reason one is.
type UnschedulableReasonKind string

const (
	// NotReady is a NodePool from which Karpenter launches nothing, or whose class is not there.
	NotReady UnschedulableReasonKind = "NotReady"
	// Static is a NodePool with a number of replicas, from which no node is launched for a pod.
	Static UnschedulableReasonKind = "Static"
	// Label is a label that the pod requires of its node.
	Label UnschedulableReasonKind = "Label"
	// VolumeTopology is a label that a volume of the pod requires of its node.
	VolumeTopology UnschedulableReasonKind = "VolumeTopology"
	// Resource is a resource of which no instance type of the pool has as much as the pod requests.
	Resource UnschedulableReasonKind = "Resource"
	// Taint is a taint that the pod does not tolerate.
	Taint UnschedulableReasonKind = "Taint"
	// NoInstanceType is a pool whose own requirements no instance type matches.
	NoInstanceType UnschedulableReasonKind = "NoInstanceType"
	// Combination is that no single instance type matches all of what several do one by one.
	Combination UnschedulableReasonKind = "Combination"
	// Limit is a limit of the pool that leaves no node for the pod.
	Limit UnschedulableReasonKind = "Limit"
	// DaemonSets is that the pool's nodes would hold the pod if no DaemonSet had pods there.
	DaemonSets UnschedulableReasonKind = "DaemonSets"
	// Topology is the pod's own topologySpreadConstraints, podAffinity or podAntiAffinity.
	Topology UnschedulableReasonKind = "Topology"
	// ResourceClaims is that the pod claims devices (DRA), which are not allocated here: whether the pool has a node for
	// it is not known.
	ResourceClaims UnschedulableReasonKind = "ResourceClaims"
	// Scheduler is a reason that only Karpenter's scheduler has.
	Scheduler UnschedulableReasonKind = "Scheduler"
)

// UnschedulableReason is one thing that keeps a pod from the nodes of a pool.
type UnschedulableReason struct {
	// Kind decides which of the other fields are set.
	Kind UnschedulableReasonKind
	// Requirement is what is required of a label.
	Requirement *corev1.NodeSelectorRequirement
	// AvailableValues are the values of that label that the pool's nodes can have, sorted, at most eight; empty for none.
	AvailableValues []string
	// Taint is one that the pod does not tolerate.
	Taint *corev1.Taint
	// Claim is the PersistentVolumeClaim of a VolumeTopology.
	Claim string
	// Resource is the one that is short, or limited. Requested is what the pod requests of it, and of a limit
	// what the smallest instance type has that could still be launched; MaxAllocatable the most that a node of the pool has allocatable.
	Resource                  corev1.ResourceName
	Requested, MaxAllocatable resource.Quantity
	// Limit and Used are those of a limit.
	Limit, Used resource.Quantity
	// InstanceType is the one that Requested of a limit is of.
	InstanceType string
	// Reason is that of the condition Ready of the NodePool; "Terminating" for one that is being deleted.
	Reason string
	// Message is the text of Karpenter's scheduler or of a condition. Nothing is to be decided by it.
	Message string
}
