// Package causes decides why a pod is pending, why a node is still there, and what keeps a NodePool from launching
// nodes: causes as values, the one that has to be removed first in front.
//
// It is pure: objects, what Karpenter's scheduler found on a snapshot of them, and the time come in. It decides by
// fields, conditions and reasons only, never by the text of a message. It refuses to read a cluster, and to
// write sentences. Start reading at Pod, Node and Pool.
package causes

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Objects are what was read of a cluster.
type Objects struct {
	// Now is the time at which they were read.
	Now time.Time
	// Cluster is the one that decides; nil where there is none.
	Cluster *v1alpha1.Cluster
	Syncs   []v1alpha1.Sync
	Plugins []v1alpha1.DevicePlugin
	Pools   []*karpv1.NodePool
	Claims  []*karpv1.NodeClaim
	Nodes   []*corev1.Node
	// Pods are all of the cluster.
	Pods []*corev1.Pod
	// Events are those of the last hour on the pod, and on NodeClaims and Nodes.
	Events []corev1.Event
	// UnusableVolumeClaims are the PersistentVolumeClaims of the pod for which Karpenter launches no node, with why.
	UnusableVolumeClaims map[string]VolumeClaimState
}

// VolumeClaimState is why a PersistentVolumeClaim cannot be used, in CamelCase.
type VolumeClaimState string

// The states of PersistentVolumeClaims whose pods Karpenter leaves out, as its ValidatePersistentVolumeClaims has them.
const (
	// VolumeClaimNotFound is one that is not there, or whose PersistentVolume or StorageClass is not.
	VolumeClaimNotFound VolumeClaimState = "NotFound"
	// VolumeClaimTerminating is one that is being deleted, or whose PersistentVolume is.
	VolumeClaimTerminating VolumeClaimState = "Terminating"
	// VolumeClaimLost is one that is bound to a PersistentVolume that is gone.
	VolumeClaimLost VolumeClaimState = "Lost"
	// VolumeClaimUnbound is one that is to be bound before its pod has a node, and is not.
	VolumeClaimUnbound VolumeClaimState = "Unbound"
)

// Reason is what a cause is, in CamelCase. In JSON, reasons are added, never renamed or given another meaning.
type Reason string

// The reasons of a pod that has no node.
const (
	// reasonAtLimit is a NodePool whose limit leaves no node for the pod.
	reasonAtLimit Reason = "AtLimit"
	// reasonTaintNotTolerated is a taint of the pool that the pod does not tolerate.
	reasonTaintNotTolerated Reason = "TaintNotTolerated"
	// reasonZoneNotOffered is a zone that the pod requires and the pool has no nodes in.
	reasonZoneNotOffered Reason = "ZoneNotOffered"
	// reasonInstanceTypeNotOffered is an instance type, family or size that the pod requires and the pool cannot launch.
	reasonInstanceTypeNotOffered Reason = "InstanceTypeNotOffered"
	// reasonLabelMismatch is another label that the pod requires and no node of the pool has.
	reasonLabelMismatch Reason = "LabelMismatch"
	// reasonGPUSharesNotAllocatable is a resource of GPUs that the pool's configuration advertises under another name, or fewer of.
	reasonGPUSharesNotAllocatable Reason = "GPUSharesNotAllocatable"
	// reasonRequestTooLarge is a request that no instance type of the pool can hold.
	reasonRequestTooLarge Reason = "RequestTooLarge"
	// reasonQuotaExceeded is a vCPU quota of EC2 that has too little left for any instance type for the pod.
	reasonQuotaExceeded Reason = "QuotaExceeded"
	// reasonChangeHeld is a change of a NodePool in the repository that waits for a confirmation.
	reasonChangeHeld Reason = "ChangeHeld"
	// reasonBudgetBlocking is a disruption budget that allows no node now, Karpenter's "blocking budget".
	reasonBudgetBlocking Reason = "BudgetBlocking"
	// reasonInsufficientCapacity is that AWS had no capacity for the nodes that were to be launched for the pod.
	reasonInsufficientCapacity Reason = "InsufficientCapacity"
	// reasonOtherScheduler is a pod that another scheduler than kube-scheduler is to schedule.
	reasonOtherScheduler Reason = "OtherScheduler"
	// reasonVolumeZone is a volume that can be attached in another zone only.
	reasonVolumeZone Reason = "VolumeZone"
	// reasonVolumeClaimUnusable is a PersistentVolumeClaim that is not there, not bound or being deleted.
	reasonVolumeClaimUnusable Reason = "VolumeClaimUnusable"
	// reasonBackOff is a pool of which no node is launched for a time, since its nodes did not advertise their GPUs.
	reasonBackOff Reason = "BackOff"
	// reasonStaticPool is a pool with a number of replicas: no node is launched for a pod, and none removed as empty.
	reasonStaticPool Reason = "StaticPool"
	// reasonPoolNotReady is a NodePool that is not ready, or being deleted.
	reasonPoolNotReady Reason = "PoolNotReady"
	// reasonNoInstanceType is a pool whose own requirements no instance type matches.
	reasonNoInstanceType Reason = "NoInstanceType"
	// reasonNoPool is a cluster without a NodePool.
	reasonNoPool Reason = "NoPool"
	// reasonCombination is that no single instance type matches all that the pod requires.
	reasonCombination Reason = "Combination"
	// reasonResourceClaims is a pod that claims devices (DRA), which are not allocated here.
	reasonResourceClaims Reason = "ResourceClaims"
	// reasonDaemonSets is that the pods of DaemonSets leave too little of a node.
	reasonDaemonSets Reason = "DaemonSets"
	// reasonTopology is what the pod requires of the places of other pods.
	reasonTopology Reason = "Topology"
	// reasonUnschedulable is a reason that only Karpenter's scheduler has.
	reasonUnschedulable Reason = "Unschedulable"
	// reasonCompetingPods is that other pending pods compete for what limits leave.
	reasonCompetingPods Reason = "CompetingPods"
	// reasonSchedulingGated is a pod with scheduling gates.
	reasonSchedulingGated Reason = "SchedulingGated"
	// reasonDaemonSetPod is a pod of a DaemonSet, for which Karpenter launches no node.
	reasonDaemonSetPod Reason = "DaemonSetPod"
	// reasonSchedulingNotAttempted is a pod that kube-scheduler has not marked as unschedulable.
	reasonSchedulingNotAttempted Reason = "SchedulingNotAttempted"
	// reasonPreempting is a pod for which kube-scheduler evicts others of a node.
	reasonPreempting Reason = "Preempting"
	// reasonEngineNotRunning is that no Karpenter runs in the controller.
	reasonEngineNotRunning Reason = "EngineNotRunning"
	// reasonNodeStarting is a node that has capacity for the pod and is not ready yet.
	reasonNodeStarting Reason = "NodeStarting"
	// reasonNodeAvailable is a node that has capacity for the pod.
	reasonNodeAvailable Reason = "NodeAvailable"
	// reasonLaunchable is that nothing was found which keeps a node from being launched.
	reasonLaunchable Reason = "Launchable"
	// reasonScheduled is a pod that has a node, or has ended.
	reasonScheduled Reason = "Scheduled"
)

// The reasons of a node that is still there.
const (
	// reasonDoNotDisrupt is the annotation karpenter.sh/do-not-disrupt, of the node or of a pod.
	reasonDoNotDisrupt Reason = "DoNotDisrupt"
	// reasonPodDisruptionBudget is one that allows no eviction of a pod.
	reasonPodDisruptionBudget Reason = "PodDisruptionBudget"
	// reasonConsolidateAfter is that consolidateAfter has not passed since a pod came or went.
	reasonConsolidateAfter Reason = "ConsolidateAfter"
	// reasonConsolidateAfterNever is a pool whose nodes are never consolidated.
	reasonConsolidateAfterNever Reason = "ConsolidateAfterNever"
	// reasonBarePod is that all pods on the node have no controller, so that nothing recreates them.
	reasonBarePod Reason = "BarePod"
	// reasonGPUsInitializing is a node that does not advertise its GPUs yet.
	reasonGPUsInitializing Reason = "GPUsInitializing"
	// reasonInitializing is a node that is not initialized for another reason.
	reasonInitializing Reason = "Initializing"
	// reasonAwaitingDisruption is a drifted node that is replaced after others, or next.
	reasonAwaitingDisruption Reason = "AwaitingDisruption"
	// reasonWhenEmpty is a pool whose nodes are consolidated only without pods, and the node has some.
	reasonWhenEmpty Reason = "WhenEmpty"
	// reasonUnconsolidatable is that Karpenter found nothing cheaper for the pods of the node.
	reasonUnconsolidatable Reason = "Unconsolidatable"
	// reasonNotEmpty is that pods run on the node, and Karpenter has reported nothing more.
	reasonNotEmpty Reason = "NotEmpty"
	// reasonTerminating is a node that is being drained and terminated.
	reasonTerminating Reason = "Terminating"
	// reasonDisruptable is that nothing was found which keeps Karpenter from disrupting the node.
	reasonDisruptable Reason = "Disruptable"
)

// Cause is one reason with its facts. The reason decides which fields are set.
type Cause struct {
	Reason Reason `json:"reason"`
	// Possible is true for one that the objects suggest and do not prove.
	Possible bool `json:"possible,omitempty"`
	// NodePool is the pool that it is about.
	NodePool string `json:"nodePool,omitempty"`
	// Object is another object that it is about, as Kind/name or Kind/namespace/name.
	Object string `json:"object,omitempty"`
	// Requirement is what the pod, or a volume of it, requires of a label of its node.
	Requirement *corev1.NodeSelectorRequirement `json:"requirement,omitempty"`
	// AvailableValues are the values of that label that nodes of the NodePool can have, at most eight.
	AvailableValues []string `json:"availableValues,omitempty"`
	// Taint is a taint of the NodePool that the pod does not tolerate.
	Taint *corev1.Taint `json:"taint,omitempty"`
	// Scheduling is what the pod itself has of its scheduling.
	Scheduling *SchedulingSpec `json:"scheduling,omitempty"`
	// Shortage is of which resource there is too little.
	Shortage *Shortage `json:"shortage,omitempty"`
	// Disruption is why Karpenter disrupts the node, or does not yet.
	Disruption *Disruption `json:"disruption,omitempty"`
	// Pods are those that are meant: the ones on the node, or the ones that are pending beside the pod.
	Pods *Pods `json:"pods,omitempty"`
	// HeldChange is a change of the NodePool that waits for a confirmation.
	HeldChange *HeldChange `json:"heldChange,omitempty"`
	// Failures is how many nodes in a row did not advertise their GPUs, as status.pools[].failures of the DevicePlugin.
	Failures int `json:"failures,omitempty"`
	// ConditionReason is the reason of a condition of the object, or of the node in the status of its DevicePlugin, in CamelCase.
	ConditionReason string `json:"conditionReason,omitempty"`
	// VolumeClaimState is why the PersistentVolumeClaim cannot be used.
	VolumeClaimState VolumeClaimState `json:"volumeClaimState,omitempty"`
	// EngineMode is spec.engine.mode of the Cluster.
	EngineMode v1alpha1.EngineMode `json:"engineMode,omitempty"`
	// Until is when it ends by itself.
	Until *metav1.Time `json:"until,omitempty"`
	// Message is what somebody else wrote about it: a condition, an event, or Karpenter's scheduler.
	Message string `json:"message,omitempty"`
	// Changes are what would remove it, alternatives of each other; empty where nothing has to be done.
	Changes []Remedy `json:"changes,omitempty"`
}

// SchedulingSpec is what a pod has of its scheduling; at most one field is set.
type SchedulingSpec struct {
	// SchedulerName is spec.schedulerName of the pod.
	SchedulerName string `json:"schedulerName,omitempty"`
	// Gates are the names of spec.schedulingGates.
	Gates []string `json:"gates,omitempty"`
	// Phase is status.phase of the pod.
	Phase corev1.PodPhase `json:"phase,omitempty"`
}

// Shortage is a resource of which a node, a NodePool or a quota has too little.
type Shortage struct {
	// Resource is its name, "nodes" for a number of nodes, or "vcpu" for a quota.
	Resource string `json:"resource"`
	// Requested, Limit and Used are quantities of it as Kubernetes writes them. Requested is what the pod requests, or what
	// InstanceType has; Limit is what a node, a NodePool or a quota has at most.
	Requested string `json:"requested,omitempty"`
	Limit     string `json:"limit,omitempty"`
	Used      string `json:"used,omitempty"`
	// InstanceType is the smallest one that was to be launched.
	InstanceType string `json:"instanceType,omitempty"`
	// Quota is the name of a quota in Service Quotas.
	Quota string `json:"quota,omitempty"`
	// Config is the configuration of the DevicePlugin that serves the NodePool, AdvertisedResource the resource as which its
	// GPUs are advertised.
	Config             string `json:"config,omitempty"`
	AdvertisedResource string `json:"advertisedResource,omitempty"`
}

// Disruption is why Karpenter disrupts a node, and what keeps it from that.
type Disruption struct {
	// Reason is Karpenter's reason of a disruption, such as Drifted, Empty or Underutilized.
	Reason string `json:"reason,omitempty"`
	// DriftReason is the reason of the condition Drifted of the NodeClaim, such as NodePoolDrifted.
	DriftReason string `json:"driftReason,omitempty"`
	// QueuePosition is the node's place among the drifted nodes, from 1.
	QueuePosition int `json:"queuePosition,omitempty"`
	// Budget is the disruption budget that counts now, as "10%" or with its schedule.
	Budget string `json:"budget,omitempty"`
	// EmptyNodes is how many nodes without pods the budget keeps.
	EmptyNodes int `json:"emptyNodes,omitempty"`
	// ConsolidateAfter is that of the NodePool, as Go writes a duration.
	ConsolidateAfter string `json:"consolidateAfter,omitempty"`
	// Replicas is spec.replicas of a static NodePool.
	Replicas int64 `json:"replicas,omitempty"`
	// Annotation is the key of the annotation that forbids it.
	Annotation string `json:"annotation,omitempty"`
	// PodDisruptionBudgets are those that allow no eviction, as namespace/name.
	PodDisruptionBudgets []string `json:"podDisruptionBudgets,omitempty"`
}

// Pods are a number of pods, of which some are named.
type Pods struct {
	// Count is how many there are.
	Count int `json:"count"`
	// Names are those of the first five, as namespace/name.
	Names []string `json:"names,omitempty"`
}

// HeldChange is a change in the repository that waits for a confirmation.
type HeldChange struct {
	// Action is create or update.
	Action string `json:"action"`
	// HeldBy are the rules that hold it, as heldBy in the Sync's status.
	HeldBy []string `json:"heldBy"`
}

// Remedy is a field to change or a command to run.
type Remedy struct {
	// Object is what is to be changed, as Kind/name or Kind/namespace/name; empty where only a command is run.
	Object string `json:"object,omitempty"`
	// Field is the path of its field.
	Field string `json:"field,omitempty"`
	// Command is what a person can run.
	Command string `json:"command,omitempty"`
}

// at is a time, or nil for none.
func at(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	out := metav1.NewTime(t.UTC())
	return &out
}

// limitField is the path of a limit of a NodePool.
func limitField(resource string) string { return `spec.limits["` + resource + `"]` }

// Reasons are all that a cause can have; docs/commands.md has what they mean to a user.
func Reasons() []Reason {
	return []Reason{
		reasonAtLimit, reasonTaintNotTolerated, reasonZoneNotOffered, reasonInstanceTypeNotOffered, reasonLabelMismatch, reasonGPUSharesNotAllocatable, reasonRequestTooLarge, reasonQuotaExceeded, reasonChangeHeld,
		reasonBudgetBlocking, reasonInsufficientCapacity, reasonOtherScheduler, reasonVolumeZone, reasonVolumeClaimUnusable, reasonBackOff, reasonStaticPool, reasonPoolNotReady, reasonNoInstanceType, reasonNoPool, reasonCombination, reasonResourceClaims, reasonDaemonSets,
		reasonTopology, reasonUnschedulable, reasonCompetingPods, reasonSchedulingGated, reasonDaemonSetPod, reasonSchedulingNotAttempted, reasonPreempting, reasonEngineNotRunning, reasonNodeStarting, reasonNodeAvailable, reasonLaunchable,
		reasonScheduled, reasonDoNotDisrupt, reasonPodDisruptionBudget, reasonConsolidateAfter, reasonConsolidateAfterNever, reasonBarePod, reasonGPUsInitializing, reasonInitializing, reasonAwaitingDisruption, reasonWhenEmpty,
		reasonUnconsolidatable, reasonNotEmpty, reasonTerminating, reasonDisruptable,
	}
}
