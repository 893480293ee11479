// Package history has the record of what happened in a cluster: when nodes were launched and terminated, and why; what was
// applied; what drifted, and who had changed it; what became of pull requests; and how much of the GPUs that were paid for
// was requested.
//
// It has the records alone, and refuses to hold a value of a Secret: differences come in masked. Package recorder makes them
// of what package collector observes, and package store keeps them in ConfigMaps. Start reading at History.
package history

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/state/owner"
)

// History is what was recorded of a cluster. Every list is in the order of time, the oldest first. In JSON, fields are
// added, never renamed or given another meaning.
type History struct {
	// Time is until when nodes and GPUs are accounted for; zero where nothing was recorded.
	Time metav1.Time `json:"time,omitzero"`
	// NodeClaims are those whose instance was launched, by the time of their creation.
	NodeClaims []NodeClaim `json:"nodeClaims,omitempty"`
	// Applies are the runs in which a Sync changed something that a revision required.
	Applies []Apply `json:"applies,omitempty"`
	// Drift is what differed from the repository because somebody else had changed it.
	Drift []Drift `json:"drift,omitempty"`
	// PullRequests are those that were merged, by the time of the merge.
	PullRequests []PullRequest `json:"pullRequests,omitempty"`
	// PoolHours are the GPUs and the costs of NodePools, hour by hour, then by the pool's name.
	PoolHours []PoolHour `json:"poolHours,omitempty"`
	// Omitted is how many NodeClaims whose instances run are not in NodeClaims, since there are too many for a ConfigMap.
	// They are recorded when they terminate. Default 0.
	Omitted int `json:"omitted,omitempty"`
}

// Running are the NodeClaims that were not terminated, by name.
func (h History) Running() map[string]NodeClaim {
	out := map[string]NodeClaim{}
	for _, n := range h.NodeClaims {
		if n.Terminated.IsZero() {
			out[n.Name] = n
		}
	}
	return out
}

// Reader reads the History of a cluster. Any number may call it at a time, on every replica.
type Reader interface {
	// Read returns what is recorded. Without any record it is the zero History and no error.
	Read(ctx context.Context) (History, error)
}

// NodeClaim is the lifetime of one node, from the creation of its NodeClaim to the termination of its instance.
type NodeClaim struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Node is the name of the Node; empty where none registered.
	Node         string `json:"node,omitempty"`
	NodePool     string `json:"nodePool"`
	InstanceType string `json:"instanceType,omitempty"`
	// CapacityType is on-demand, spot or reserved.
	CapacityType string `json:"capacityType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	// GPUs is how many the instance has: devices, not the shares that a DevicePlugin makes of them. Default 0.
	GPUs int64 `json:"gpus,omitempty"`
	// Pods are the first pods that Karpenter nominated for it or that ran on it, as namespace/name: at most three.
	Pods []string `json:"pods,omitempty"`

	// Lifecycle are its times.
	Lifecycle `json:",inline"`

	// Reason is why it was deleted; empty while it is not. Message is more about it, such as by which of its fields a
	// drifted node differs.
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Revision is the one whose change had it replaced, as branch@sha1:commit; empty where none is known.
	Revision string `json:"revision,omitempty"`

	// AccountedFrom is from when USD and GPUSeconds are, where the instance was launched long before it was observed for the
	// first time; zero where that is from its launch.
	AccountedFrom metav1.Time `json:"accountedFrom,omitzero"`
	// USDPerHour is the price of the instance at its launch, or the first that AWS returned after it; absent where it is not
	// known. PriceBasis is where it is from.
	USDPerHour *float64   `json:"usdPerHour,omitempty"`
	PriceBasis PriceBasis `json:"priceBasis,omitempty"`
	// USD is what it cost until now, or until it was terminated: a minute at least, as EC2 charges it. Absent where the
	// price is not known. Where AccountedFrom is set, it is what it cost from then on.
	USD *float64 `json:"usd,omitempty"`
	// GPUSeconds are the seconds of its GPUs until now, or until it was terminated.
	GPUSeconds States `json:"gpuSeconds,omitzero"`
}

// Lifecycle is when a NodeClaim went through the stages of its lifetime.
type Lifecycle struct {
	// Created is when the NodeClaim was; the others are when its conditions of these names became true, zero where they
	// did not.
	Created     metav1.Time `json:"created"`
	Launched    metav1.Time `json:"launched,omitzero"`
	Registered  metav1.Time `json:"registered,omitzero"`
	Initialized metav1.Time `json:"initialized,omitzero"`
	// Deleted is when its deletion was requested, Terminated when its instance was terminated; zero while it is not.
	Deleted    metav1.Time `json:"deleted,omitzero"`
	Terminated metav1.Time `json:"terminated,omitzero"`
	// TerminationUnobserved is true where the termination was not observed: Terminated is then the last time at which the
	// instance was observed, and it may have run for longer. Default false.
	TerminationUnobserved bool `json:"terminationUnobserved,omitempty"`
}

// Reason is why a NodeClaim was deleted, in CamelCase: a reason of Karpenter's for disruption, or that of one of its events,
// or one of the constants.
type Reason string

// The reasons. Empty, Underutilized, Drifted and Unhealthy are Karpenter's; an interruption has the reason of Karpenter's
// event, such as SpotInterrupted.
const (
	ReasonEmpty   Reason = "Empty"
	ReasonDrifted Reason = "Drifted"
	// ReasonExpired is a node that was older than expireAfter.
	ReasonExpired Reason = "Expired"
	// ReasonNodePoolDeleted is a node whose NodePool was deleted.
	ReasonNodePoolDeleted Reason = "NodePoolDeleted"
	// ReasonRegistrationTimeout is a node that did not register in time.
	ReasonRegistrationTimeout Reason = "RegistrationTimeout"
	// ReasonGPUsNotAllocatable is a node that was replaced because it never advertised its GPUs.
	ReasonGPUsNotAllocatable Reason = "GPUsNotAllocatable"
	// ReasonDeleted is a NodeClaim that somebody else deleted: a person, or another controller.
	ReasonDeleted Reason = "Deleted"
	// ReasonUnknown is a NodeClaim that is gone, and whose deletion was not observed.
	ReasonUnknown Reason = "Unknown"
)

// Interruption reports whether AWS took the instance, or was about to: the reason is that of Karpenter's event of it.
func (r Reason) Interruption() bool {
	return slices.Contains([]Reason{"SpotInterrupted", "CapacityReservationInstanceInterrupted", "InstanceStopping", "InstanceTerminating", "InstanceUnhealthy"}, r)
}

// PriceBasis is where the price of an instance is from.
type PriceBasis string

// The bases: what AWS returned for the region or, of a spot instance, for the zone; else the catalog's price of the region, or
// of another one. Spot instances without a price of their own have the most that they can cost, which is the price on demand.
const (
	PriceList        PriceBasis = "price-list"
	PriceSpotHistory PriceBasis = "spot-price-history"
	PriceCatalog     PriceBasis = "catalog"
	PriceOtherRegion PriceBasis = "other-region"
	PriceSpotAtMost  PriceBasis = "spot-at-most"
)

// Approximate reports whether the price is not one that AWS has for these instances.
func (b PriceBasis) Approximate() bool { return b == PriceOtherRegion || b == PriceSpotAtMost }

// States are an amount by what became of it: seconds of GPUs, or US dollars for them. What is paid for is either not
// allocatable yet or no more, requested, idle, or not observed.
type States struct {
	// Paid is from the launch of the instances to their termination.
	Paid float64 `json:"paid"`
	// Allocatable is the part of it in which nodes advertised the GPUs; Requested is the part of that which pods requested,
	// and Idle the rest.
	Allocatable float64 `json:"allocatable"`
	Requested   float64 `json:"requested"`
	Idle        float64 `json:"idle"`
	// Unobserved is the part of Paid in which no replica observed how much of it was allocatable and requested, such as
	// while another became the leader. Default 0.
	Unobserved float64 `json:"unobserved,omitempty"`
}

// Plus is the sum of both.
func (s States) Plus(other States) States {
	return States{
		Paid: s.Paid + other.Paid, Allocatable: s.Allocatable + other.Allocatable, Requested: s.Requested + other.Requested,
		Idle: s.Idle + other.Idle, Unobserved: s.Unobserved + other.Unobserved,
	}
}

// Times is the amount multiplied by a factor.
func (s States) Times(factor float64) States {
	return States{Paid: s.Paid * factor, Allocatable: s.Allocatable * factor, Requested: s.Requested * factor, Idle: s.Idle * factor, Unobserved: s.Unobserved * factor}
}

// PoolHour is what the nodes of a NodePool were in one hour.
type PoolHour struct {
	NodePool string `json:"nodePool"`
	// Hour is the start of the hour, UTC.
	Hour metav1.Time `json:"hour"`
	// NodeSeconds are the seconds of its nodes, from launch to termination.
	NodeSeconds float64 `json:"nodeSeconds"`
	// GPUSeconds are the seconds of their GPUs.
	GPUSeconds States `json:"gpuSeconds,omitzero"`
	// USD is what they cost: Paid that of the instances, whether they have GPUs or not, the other states those of
	// instances with GPUs.
	USD States `json:"usd,omitzero"`
	// UnpricedSeconds are the part of NodeSeconds whose price is not known, which is not in USD. Default 0.
	UnpricedSeconds float64 `json:"unpricedSeconds,omitempty"`
	// Approximate is true where a price in USD is not one that AWS has for these instances. Default false.
	Approximate bool `json:"approximate,omitempty"`
}

// Apply is one run in which a Sync changed what a revision required.
type Apply struct {
	// Sync is the name of the Sync.
	Sync string `json:"sync"`
	// Revision is what was applied, as branch@sha1:commit. TreeID identifies its files, of which a source of Flux
	// may have others under the same revision; may be empty.
	Revision string `json:"revision"`
	TreeID   string `json:"treeID,omitempty"`
	// Time is when the run ended, Seconds how long it took.
	Time    metav1.Time `json:"time"`
	Seconds float64     `json:"seconds"`
	// Created, Updated and Deleted count the objects that were, Failed those that could not be, and Held those that are held
	// until a confirmation.
	Created int `json:"created,omitempty"`
	Updated int `json:"updated,omitempty"`
	Deleted int `json:"deleted,omitempty"`
	Failed  int `json:"failed,omitempty"`
	Held    int `json:"held,omitempty"`
	// Objects are the objects that were changed, as Kind.group/name, those of Karpenter first: at most twenty.
	Objects []string `json:"objects,omitempty"`
}

// Drift is an object that differed from the repository because somebody else had changed it.
type Drift struct {
	Sync string `json:"sync"`
	// Object is its name, as Kind.group/namespace/name; behind "aws " where it is a resource in AWS.
	Object string `json:"object"`
	// Time is when the difference was found, and Last when it was found for the last time where it stays.
	Time metav1.Time `json:"time"`
	Last metav1.Time `json:"last,omitzero"`
	// Deleted is true where the object was deleted. Default false.
	Deleted bool `json:"deleted,omitempty"`
	// Fields are what differed: at most ten.
	Fields []FieldChange `json:"fields,omitempty"`
	// Managers are those that had changed the fields, from the object's managedFields, the latest first. They are names of
	// programs, not of persons. Empty where they are not known, as of resources in AWS.
	Managers []owner.Manager `json:"managers,omitempty"`
	// Result is what became of it.
	Result DriftResult `json:"result"`
}

// DriftResult is what became of drift.
type DriftResult string

// The results.
const (
	// DriftCorrected is drift that was corrected.
	DriftCorrected DriftResult = "Corrected"
	// DriftReported is drift that is only reported, since the Sync or the object is not to be corrected.
	DriftReported DriftResult = "Reported"
	// DriftNotCorrected is drift that could not be corrected.
	DriftNotCorrected DriftResult = "NotCorrected"
)

// FieldChange is how a field differed: Before is the value that somebody set, After that of the repository. Values of Secrets
// are masked, and long ones are cut.
type FieldChange struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// PullRequest is a pull request that was merged: what was predicted of it, and what happened.
type PullRequest struct {
	Sync   string `json:"sync"`
	Number int64  `json:"number"`
	// Headline is the first line of its comment.
	Headline string `json:"headline,omitempty"`
	// Commit is that of the merge.
	Commit string `json:"commit,omitempty"`
	// Merged is when it was merged, Applied when that was applied, and RolledOut when the last node that had to be
	// replaced for it was gone; zero while it is not.
	Merged    metav1.Time `json:"merged"`
	Applied   metav1.Time `json:"applied,omitzero"`
	RolledOut metav1.Time `json:"rolledOut,omitzero"`
	// Predicted is what its comment showed before the merge; absent where it showed no nodes.
	Predicted *NodeChanges `json:"predicted,omitempty"`
	// Actual is what was observed until now.
	Actual NodeChanges `json:"actual"`
}

// NodeChanges are what a pull request does to nodes.
type NodeChanges struct {
	// Replaced counts the nodes that are replaced, Removed those that go with their NodePool.
	Replaced int `json:"replaced"`
	Removed  int `json:"removed"`
	// Seconds is how long that took, from the apply to the end of the roll-out. Absent where it has not ended, and of a
	// prediction.
	Seconds *float64 `json:"seconds,omitempty"`
}
