package provision

import (
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/blocker"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/noderepair"
)

// Forecast is what the change from one ClusterSnapshot to another does. Its JSON form is
// stable: fields are added, never renamed or given another meaning. Lists are sorted as
// their fields describe, never null, and equal input gives equal output.
//
// All texts but the fixed parts of the sentences come from a repository or a cluster:
// whoever shows them must escape them.
type Forecast struct {
	// Pools are all that there are before or after, by name.
	Pools []Pool `json:"pools"`
	// Replaced are the nodes that the change makes Karpenter replace, in the order in
	// which it turns to them over all pools, see [Rollout]. Those of pools that go
	// are not among them.
	Replaced []Node `json:"replaced"`
	// Drifted are the nodes that are to be replaced without the change, in order.
	Drifted []Node `json:"drifted"`
	// Removed are the pools that go, by name.
	Removed []RemovedPool `json:"removed"`
	// Rollout is how long the replacing takes.
	Rollout Rollout `json:"rollout"`
	// PodScheduling is which pods become schedulable or unschedulable.
	PodScheduling PodScheduling `json:"podScheduling"`
	// Cost is that of all pools together.
	Cost Cost `json:"cost"`
	// ReservationEnds are the capacity reservations with an end date that pools may use after the change,
	// by their end.
	ReservationEnds []ReservationEnd `json:"reservationEnds,omitempty"`
	// Repairs are the unhealthy nodes that Karpenter replaces under its feature gate NodeRepair, with or without the
	// change, by when it may; there are none where the gate is off.
	Repairs []noderepair.Repair `json:"repairs,omitempty"`
	// Unknown is what the forecast leaves open, sorted by text.
	Unknown []Unknown `json:"unknown"`
}

// ReservationEnd is the end of a capacity reservation.
type ReservationEnd struct {
	// ID is the reservation's, "cr-0123456789abcdef0".
	ID string `json:"id"`
	// Type is "default" for an On-Demand Capacity Reservation, whose instances go on as On-Demand
	// Instances, or "capacity-block".
	Type string `json:"type"`
	// Pools are the NodePools that may use it, by name, and Nodes is how many nodes they have in it now.
	Pools []string `json:"pools"`
	Nodes int      `json:"nodes"`
	// End is its end date. From NodesLeave on Karpenter deletes the nodes of a Capacity Block and
	// launches no others into it; zero for another type.
	End        time.Time `json:"end"`
	NodesLeave time.Time `json:"nodesLeave,omitzero"`
}

// UnknownCode is a kind of Unknown, in CamelCase; a code is never renamed.
type UnknownCode string

// Unknown is something that a forecast leaves open.
type Unknown struct {
	Code UnknownCode `json:"code,omitempty"`
	// Object is "Kind/name" or "Kind/namespace/name" of what it is about; empty where that is no object.
	Object string `json:"object,omitempty"`
	// Text is a sentence that names the object and the reason.
	Text string `json:"text"`
	// MoreReplaced is true where more nodes than those of Replaced may be replaced.
	MoreReplaced bool `json:"moreReplaced,omitempty"`
}

// Pool is what happens to one NodePool.
type Pool struct {
	Name string `json:"name"`
	// Action is "create", "update" or "delete" where the NodePool itself changes,
	// else empty.
	Action string `json:"action,omitempty"`
	// Changes are what matters of the differences in the pool, in its class and in
	// the overlays that apply to it, by object and field.
	Changes []Change `json:"changes"`
	// Nodes counts the pool's NodeClaims now, Replaced those among them that the
	// change replaces.
	Nodes    int `json:"nodes"`
	Replaced int `json:"replaced"`
	// ReplacesAll is true where the change makes Karpenter replace every node that the pool
	// may have, as far as pool and class alone determine, and ReplacesSome where it replaces
	// some of them, or all, by what they are or by what only AWS has. Both are about nodes
	// whether any is known or not, so that they describe what a change does where nothing
	// but Git is known; where nodes are known, Replaced counts.
	ReplacesAll  bool `json:"replacesAll,omitempty"`
	ReplacesSome bool `json:"replacesSome,omitempty"`
	// OverLimit are the limits that the change sets below what the pool's nodes use
	// now, by resource: no node comes until enough have gone.
	OverLimit []ExceededLimit `json:"overLimit,omitempty"`
	// Cost is the pool's.
	Cost Cost `json:"cost"`
	// Disruption is how many of its nodes may be disrupted at once, after the change.
	Disruption PoolDisruption `json:"disruption"`
}

// ExceededLimit is a limit below what is in use.
type ExceededLimit struct {
	// Resource is as in spec.limits: "nvidia.com/gpu", or "nodes".
	Resource string `json:"resource"`
	// Used is what the nodes hold now, Limit what they may after the change, both as
	// Kubernetes writes quantities.
	Used  string `json:"used"`
	Limit string `json:"limit"`
}

// Change is one field that differs.
type Change struct {
	// Object is kind and name, "EC2NodeClass/gpu".
	Object string `json:"object"`
	// Field is the path of the field, "spec.template.spec.taints"; empty for an
	// object that comes or goes.
	Field string `json:"field,omitempty"`
	// Reason is Karpenter's name for the drift that this causes: NodePoolDrifted,
	// NodeClassDrift, RequirementsDrifted, AMIDrift, SubnetDrift, SecurityGroupDrift or
	// CapacityReservationDrift. Empty where no node is replaced for it.
	Reason string `json:"reason,omitempty"`
}

// String writes the object, and the field where it is about one.
func (c Change) String() string { return strings.TrimSpace(c.Object + " " + c.Field) }

// Node is a node with what stands in the way of its replacement.
type Node struct {
	// NodeClaim and Pool are names; Name is the Node's, empty while there is none.
	NodeClaim string `json:"nodeClaim"`
	Name      string `json:"node,omitempty"`
	Pool      string `json:"pool"`
	// InstanceType, CapacityType and Zone are as the labels name them.
	InstanceType string    `json:"instanceType"`
	CapacityType string    `json:"capacityType"`
	Zone         string    `json:"zone"`
	Created      time.Time `json:"created"`
	// Reason is Karpenter's name for the drift, as in [Change], or "NodePoolRemoved";
	// Changes are those of its Pool that cause it, where that can be determined.
	Reason  string   `json:"reason"`
	Changes []Change `json:"changes,omitempty"`
	// Pods are those that must move, by namespace and name: neither a DaemonSet's
	// nor finished ones.
	Pods []Pod `json:"pods"`
	// Blockers are what keeps Karpenter from replacing the node now, or a node of a
	// pool that goes from being drained.
	Blockers []Blocker `json:"blockers,omitempty"`
}

// Blocked reports whether something keeps Karpenter from replacing the node until
// somebody acts. What a termination grace period overrules does not.
func (n Node) Blocked() bool {
	return slices.ContainsFunc(n.Blockers, func(b Blocker) bool { return b.ForcedAfterSeconds == 0 })
}

// Pod names a pod.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// WithoutController is true in [Node.Pods] for a pod that has no owner and that no revision
	// declares: once it is evicted, nothing makes it again.
	WithoutController bool `json:"withoutController,omitempty"`
}

// Blocker is something that protects a node.
type Blocker struct {
	Kind blocker.Kind `json:"kind"`
	// Pod is the protected pod; empty when it is the node itself.
	Pod Pod `json:"pod,omitzero"`
	// Budgets are the PodDisruptionBudgets that allow no eviction, as
	// namespace/name.
	PodDisruptionBudgets []string `json:"podDisruptionBudgets,omitempty"`
	// ForcedAfterSeconds is when Karpenter goes ahead nevertheless, counted from when
	// the replacing starts: the node's termination grace period. Zero means never.
	ForcedAfterSeconds int `json:"forcedAfterSeconds,omitempty"`
}

// RemovedPool is a pool that goes, with its nodes: all at once, whatever the pool's budgets
// are, and without replacements started before. PodDisruptionBudgets still and pods
// that must not be disrupted still hold their nodes until the node's termination grace
// period is over, or for good where it has none: those nodes have Blockers, and
// [Node.Blocked] is which of the two.
type RemovedPool struct {
	Pool  string `json:"pool"`
	Nodes []Node `json:"nodes"`
	// Pods counts the pods on them.
	Pods int `json:"pods"`
	// Rescheduled counts those of the pods that find another node, Unschedulable those that are
	// desired and find none. Pods that end with the change or that nothing makes again
	// are in neither.
	Rescheduled   int `json:"rescheduled,omitempty"`
	Unschedulable int `json:"unschedulable,omitempty"`
}

// PoolDisruption is how many nodes of a pool may be disrupted at once.
type PoolDisruption struct {
	// AllowedDisruptions is what the pool's budgets allow for drift now, less the nodes that are
	// on their way already.
	AllowedDisruptions int `json:"allowedDisruptions"`
	// Budget is which budget that is: "10%", or with its schedule. Empty when there is
	// none.
	Budget string `json:"budget,omitempty"`
	// Blocking is true where that budget allows no node, however many the pool has, and none
	// does within a year.
	Blocking bool `json:"blocking,omitempty"`
	// NextWindow is when a blocking budget allows a node next; zero when none is blocking or none
	// allows one within a year.
	NextWindow time.Time `json:"nextWindow,omitzero"`
	// LimitMessage is for people: it names the limit which leaves no room for replacements
	// beside the other nodes; empty where there is room.
	LimitMessage string `json:"limitMessage,omitempty"`
}

// Rollout is how long the replacing takes. Karpenter turns to nodes without pods
// first, then to those marked as drifted for the longest time, over all pools; it
// marks them within five minutes of the change, and which first is chance, so that
// nodes of one change are listed oldest first.
type Rollout struct {
	// Nodes is how many are replaced, Blocked how many of them cannot be now.
	Nodes   int `json:"nodes"`
	Blocked int `json:"blocked"`
	// Pods is how many pods move.
	Pods int `json:"pods"`
	// MinMinutes and MaxMinutes bound the time until the last node that is not
	// blocked is replaced. Both are zero when there is none.
	MinMinutes int `json:"minMinutes"`
	MaxMinutes int `json:"maxMinutes"`
	// Incomplete is true when some of the nodes stay as long as nobody does anything:
	// something blocks them, a budget allows none within a year, or a limit leaves no
	// room. The minutes are those of the others.
	Incomplete bool `json:"incomplete,omitempty"`
	// Assumptions are the sentences under which the minutes hold.
	Assumptions []string `json:"assumptions"`
}

// PodScheduling is which pods become schedulable or unschedulable, computed by Karpenter's scheduler over the catalog's
// instance types. Lists are by namespace and name.
type PodScheduling struct {
	// NewlySchedulable are pods that are unschedulable before the change, or are not requested, and are
	// scheduled after.
	NewlySchedulable []Placement `json:"newlySchedulable"`
	// NewlyUnschedulable are pods that are schedulable before the change and not after it, be
	// it that they wait, that they run on a node that goes, or that their workload
	// changes what it requires of nodes.
	NewlyUnschedulable []Placement `json:"newlyUnschedulable"`
	// Unschedulable are pods that are unschedulable either way: after the change, and before it too
	// unless they are new.
	Unschedulable []Placement `json:"unschedulable"`
}

// Placement is a pod with what becomes of it.
type Placement struct {
	Pod
	// Workload is the kind of the declared object whose pod this is to be, and Name
	// then is that object's; empty for a pod that there is.
	Workload string `json:"workload,omitempty"`
	// New is true for a pod that only the change requests.
	New bool `json:"new,omitempty"`
	// Inactive is true for a pod that nothing requests now, since its workload is declared
	// with no replicas, is suspended or waits for its schedule: this is what would become
	// of one such pod, with nothing else waiting.
	Inactive bool `json:"inactive,omitempty"`
	// Similar counts further pods with the same requirements of which the same is true.
	Similar int `json:"similar,omitempty"`
	// Pool is the pool of the node that it gets; empty when it gets none or one of
	// no pool.
	Pool string `json:"pool,omitempty"`
	// Reason is the reason when it gets none: what the pool that comes closest to what the
	// pod requires lacks, and at most one other that comes as close.
	Reason string `json:"reason,omitempty"`
}

// Cost is what nodes cost, in US dollars an hour, before tax and discounts.
type Cost struct {
	// Now is that of the nodes there are.
	Now Amount `json:"now"`
	// After is that of the same nodes once the change has done what it can by itself:
	// a node that is replaced is counted as its own type where that is still allowed,
	// else as the cheapest allowed that holds as much; one without pods that come
	// back is not counted where its replacement does not come or goes again, being
	// empty. What keeps a node for good keeps its cost. Nodes of a pool that goes are
	// gone, and what their pods need elsewhere is not counted, see Notes.
	After Amount `json:"after"`
	// Unblocked is what After would be if somebody let the nodes go that something
	// keeps; absent where there are none, or where it makes no difference.
	Unblocked *Amount `json:"unblocked,omitempty"`
	// Notes are sentences about what After leaves out.
	Notes []string `json:"notes,omitempty"`
	// SpotUnchanged is that part of SpotAtMost which Now and After have in common: of instances
	// that come to cost the same, whatever that is.
	SpotUnchanged float64 `json:"spotUnchanged,omitempty"`
	// UnpricedUnchanged is how many of the instances without a known price are in both Now and After.
	UnpricedUnchanged int `json:"unpricedUnchanged,omitempty"`
	// Min is what is paid after the change with no pod at all: 0, or the replicas
	// of a static pool at the cheapest type allowed. MinAtMost is true where it is at most
	// that, since these are spot instances whose price is not known, and MinUnknown where a
	// part of it is not known at all.
	Min        float64 `json:"min"`
	MinAtMost  bool    `json:"minAtMost,omitempty"`
	MinUnknown bool    `json:"minUnknown,omitempty"`
	// Max is the most that the limits allow after the change, every node being of
	// the type that costs most for each unit of what is limited. Absent without a
	// limit that bounds it, and where it is not known.
	Max        *float64 `json:"max,omitempty"`
	MaxUnknown bool     `json:"maxUnknown,omitempty"`
	// MaxBefore is the same before the change.
	MaxBefore        *float64 `json:"maxBefore,omitempty"`
	MaxBeforeUnknown bool     `json:"maxBeforeUnknown,omitempty"`
	// NonComputeNow and NonComputeAfter are what the same nodes cost beside their instances, which is in none
	// of the sums above.
	NonComputeNow   NonCompute `json:"nonComputeNow,omitzero"`
	NonComputeAfter NonCompute `json:"nonComputeAfter,omitzero"`
	// Prices are where the prices of instances come from, by capacity type.
	Prices []Price `json:"prices"`
}

// NonCompute is what nodes cost beside their instances, at the prices that AWS publishes for us-east-1.
type NonCompute struct {
	// Volumes is that of the EBS volumes that the nodes' classes declare, or Karpenter by default, and
	// VolumesUnknown true where it is without some whose price is not known.
	Volumes        float64 `json:"volumes"`
	VolumesUnknown bool    `json:"volumesUnknown,omitempty"`
	// PublicIPv4 is that of public addresses that the classes declare, and PublicIPv4Unknown true where
	// the subnets of some decide about them.
	PublicIPv4        float64 `json:"publicIPv4"`
	PublicIPv4Unknown bool    `json:"publicIPv4Unknown,omitempty"`
}

// Approximate reports whether some of the prices are those of the catalog, or older than [pricelist.MaxAge], and not the
// region's of today.
func (c Cost) Approximate() bool {
	return slices.ContainsFunc(c.Prices, func(p Price) bool {
		return p.Outdated || p.Basis == string(catalog.HomeRegion) || p.Basis == string(catalog.OtherRegion)
	})
}

// SpotUnknown reports whether there are spot instances whose prices are not known.
func (c Cost) SpotUnknown() bool {
	return slices.ContainsFunc(c.Prices, func(p Price) bool { return p.Basis == UnknownPrice })
}

// Difference is the least and the most that After is more than Now, without the instances that have no known price. Where
// unpriced of these come or go, the difference is not known, be it more or less.
func (c Cost) Difference() (least, most float64, unpriced int) {
	known := c.After.OnDemand + c.After.Spot - c.Now.OnDemand - c.Now.Spot
	after, now := c.After.SpotAtMost-c.SpotUnchanged, c.Now.SpotAtMost-c.SpotUnchanged
	unpriced = max(c.Now.Unpriced, c.After.Unpriced) - c.UnpricedUnchanged
	return known + after*catalog.LowestSpot - now, known + after - now*catalog.LowestSpot, unpriced
}

// Amount is money by how it was bought.
type Amount struct {
	OnDemand float64 `json:"onDemand"`
	// Spot is that of the spot instances whose prices are known.
	Spot float64 `json:"spot"`
	// SpotAtMost is the most that the other spot instances cost, which is their on-demand price.
	// They cost a tenth of it or more.
	SpotAtMost float64 `json:"spotAtMost,omitempty"`
	// Unpriced is how many instances are left out, since no price of theirs is known.
	Unpriced int `json:"unpriced,omitempty"`
}

// Least is the least that it may be.
func (a Amount) Least() float64 { return a.OnDemand + a.Spot + a.SpotAtMost*catalog.LowestSpot }

// Most is the most that it may be.
func (a Amount) Most() float64 { return a.OnDemand + a.Spot + a.SpotAtMost }
