package get

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/noderepair"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Node is a node of a NodePool, or the NodeClaim of one that has not registered yet.
type Node struct {
	// Name is the Node's, and before there is one the NodeClaim's.
	Name string `json:"name"`
	// NodeClaim is empty for a node that has none.
	NodeClaim    string `json:"nodeClaim,omitempty"`
	NodePool     string `json:"nodePool"`
	InstanceType string `json:"instanceType,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	GPUs         GPUs   `json:"gpus"`
	// Pods counts those that Karpenter would have to move; absent where pods were not read.
	Pods *int `json:"pods,omitempty"`
	// USDPerHour is absent where it is not known.
	USDPerHour *USD        `json:"usdPerHour,omitempty"`
	Created    metav1.Time `json:"created"`
	// State is Launching, Registering, Initializing, Ready, NotReady or Terminating.
	State string `json:"state"`
	// Unschedulable is true for one that is cordoned.
	Unschedulable bool `json:"unschedulable,omitempty"`
	// Drifted is Karpenter's reason to replace it, such as AMIDrift; empty where it has none.
	Drifted string `json:"drifted,omitempty"`
	// Reason is why it is in this state, or why it stays, in CamelCase: a reason of Karpenter's or
	// of a DevicePlugin, that of a condition for which Karpenter repairs nodes, or one of DoNotDisrupt, NotEmpty and Empty. Of a node that stays, Karpenter's
	// reasons are DisruptionBlocked and Unconsolidatable, from its events of the last minutes.
	Reason string `json:"reason,omitempty"`
	// Message is more about Reason.
	Message string `json:"message,omitempty"`
	// Phases are what it was since it was created, in the order of time. One that began when the one before it did has no length.
	Phases []Phase `json:"phases,omitempty"`
}

const (
	// stateReady is the state of a node that is initialized, and whose kubelet reports that it is ready.
	stateReady = "Ready"
	// stateNotReady is that of one whose kubelet does not.
	stateNotReady = "NotReady"
	// stateTerminating is that of one that is being deleted.
	stateTerminating = "Terminating"
)

// Ready reports whether pods can run on the node.
func (n Node) Ready() bool { return n.State == stateReady }

// steady reports whether nothing is to happen to the node, or keeps it.
func (n Node) steady() bool {
	return n.Ready() && n.Drifted == "" && !n.Unschedulable && slices.Contains([]string{"", "NotEmpty", "Empty", reasonUnconsolidatable}, n.Reason)
}

// indexed are objects by what they are found by.
type indexed struct {
	Objects
	types *catalog.Catalog
	// What was read.
	podsRead, nodesRead, claimsRead bool
	// onNode are the pods of a node, unhealthy the nodes that do not advertise their GPUs, backoff the pools in back-off.
	onNode    map[string][]Pod
	unhealthy map[string]v1alpha1.UnhealthyGPUNode
	backoff   map[string]metav1.Time
	// blocked and unconsolidatable are the newest messages of Karpenter's, by Node and NodeClaim.
	blocked, unconsolidatable map[string]string
}

func index(o Objects, now time.Time, types *catalog.Catalog) *indexed {
	x := &indexed{Objects: o, types: types, podsRead: true, nodesRead: true, claimsRead: true, onNode: map[string][]Pod{}, unhealthy: map[string]v1alpha1.UnhealthyGPUNode{}, backoff: map[string]metav1.Time{}}
	for _, u := range o.IncompleteKinds {
		switch {
		case u.Reason == notInstalled:
		case u.Kind == kindPods:
			x.podsRead = false
		case u.Kind == kindNodes:
			x.nodesRead = false
		case u.Kind == kindClaims:
			x.claimsRead = false
		}
	}
	x.blocked, x.unconsolidatable = messages(o.Events, reasonBlocked, now), messages(o.Events, reasonUnconsolidatable, now)
	for _, p := range o.Pods {
		x.onNode[p.Node] = append(x.onNode[p.Node], p)
	}
	for _, d := range o.Plugins {
		for _, pool := range d.Status.Pools {
			if pool.BackoffUntil != nil {
				x.backoff[pool.Name] = *pool.BackoffUntil
			}
			for _, n := range pool.UnhealthyNodes {
				x.unhealthy[n.Node] = n
			}
		}
	}
	return x
}

// eventAge is how old an event may be: Karpenter repeats one every fifteen minutes as long as it holds.
const eventAge = 20 * time.Minute

// messages are the newest messages of a reason that hold, by the object that they are about.
func messages(events []corev1.Event, reason string, now time.Time) map[string]string {
	out, at := map[string]string{}, map[string]time.Time{}
	for _, e := range events {
		last, about := e.LastTimestamp.Time, e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name
		if e.Reason == reason && now.Sub(last) <= eventAge && last.After(at[about]) {
			out[about], at[about] = e.Message, last
		}
	}
	return out
}

// nodes are all of the pools, by pool and name.
func (x *indexed) nodes() []Node {
	byName := map[string]*corev1.Node{}
	for i := range x.Nodes {
		byName[x.Nodes[i].Name] = &x.Nodes[i]
	}
	out := []Node{}
	claimed := map[string]bool{}
	for i := range x.Claims {
		claim := &x.Claims[i]
		node := byName[claim.Status.NodeName]
		claimed[claim.Status.NodeName] = true
		out = append(out, x.node(claim, node))
	}
	for i := range x.Nodes {
		if node := &x.Nodes[i]; node.Labels[karpv1.NodePoolLabelKey] != "" && !claimed[node.Name] {
			out = append(out, x.node(nil, node))
		}
	}
	slices.SortFunc(out, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.NodePool, b.NodePool), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// node is one node, of which there is a claim, a Node, or both.
func (x *indexed) node(claim *karpv1.NodeClaim, node *corev1.Node) Node {
	var n Node
	var labels map[string]string
	if node != nil {
		n.Name, n.Created, labels = node.Name, node.CreationTimestamp, node.Labels
		n.Unschedulable = node.Spec.Unschedulable
	}
	if claim != nil {
		n.Name, n.NodeClaim, n.Created, labels = cmp.Or(n.Name, claim.Status.NodeName, claim.Name), claim.Name, claim.CreationTimestamp, claim.Labels
		if c := conditionOf(claim, karpv1.ConditionTypeDrifted); c.Status == metav1.ConditionTrue {
			n.Drifted = cmp.Or(c.Reason, c.Type)
		}
	}
	n.NodePool, n.InstanceType, n.Zone = labels[karpv1.NodePoolLabelKey], labels[corev1.LabelInstanceTypeStable], labels[corev1.LabelTopologyZone]
	n.CapacityType = labels[karpv1.CapacityTypeLabelKey]
	region := labels[corev1.LabelTopologyRegion]
	if region == "" && x.Cluster != nil {
		region = x.Cluster.Spec.Region
	}
	allocatableGPUs := x.allocatable(claim, node)
	allocatable := total(allocatableGPUs)
	n.GPUs.Allocatable = &allocatable
	n.USDPerHour = priceOf(x.types, region, n.InstanceType, n.CapacityType)
	requested := gpu.Resources{}
	if x.podsRead {
		n.Pods = new(int)
		for _, p := range x.onNode[n.Name] {
			for name, count := range p.GPUs {
				requested[name] += count
			}
			if !p.DaemonSet {
				*n.Pods++
			}
		}
	}
	n.State, n.Reason, n.Message = x.state(claim, node, n)
	n.Drifted, n.Reason, n.Message = sanitize.Text(n.Drifted), sanitize.Text(n.Reason), sanitize.Text(n.Message)
	n.Phases = phasesOf(claim, node, n)
	if x.podsRead {
		all, idle := total(requested), int64(0)
		if n.Ready() && !n.Unschedulable {
			idle = unrequested(allocatableGPUs, requested)
		}
		n.GPUs.Requested, n.GPUs.Idle = &all, &idle
	}
	return n
}

// allocatable are the GPUs that a node advertises: before it registers none, and where Nodes were not read
// what its claim has of it.
func (x *indexed) allocatable(claim *karpv1.NodeClaim, node *corev1.Node) gpu.Resources {
	switch {
	case node != nil:
		return gpusIn(node.Status.Allocatable)
	case !x.nodesRead && claim.Status.NodeName != "":
		return gpusIn(claim.Status.Allocatable)
	}
	return nil
}

// gpusIn are the resources of NVIDIA's.
func gpusIn(list corev1.ResourceList) gpu.Resources {
	out := gpu.Resources{}
	for name, quantity := range list {
		if strings.HasPrefix(string(name), "nvidia.com/") {
			out[name] = quantity.Value()
		}
	}
	return out
}

// total adds up the resources.
func total(resources gpu.Resources) int64 {
	var n int64
	for _, count := range resources {
		n += count
	}
	return n
}

// unrequested is how many of the resources that a node advertises are not requested.
func unrequested(allocatableGPUs, requested gpu.Resources) int64 {
	var n int64
	for name, count := range allocatableGPUs {
		n += max(0, count-requested[name])
	}
	return n
}

// conditionOf is a NodeClaim's condition; one that it does not have is empty.
func conditionOf(claim *karpv1.NodeClaim, kind string) metav1.Condition {
	for _, c := range claim.Status.Conditions {
		if c.Type == kind {
			return metav1.Condition(c)
		}
	}
	return metav1.Condition{}
}

// startup are the conditions of a NodeClaim in the order in which they become true, with the state
// of one whose condition is not.
var startup = []struct{ condition, state string }{
	{karpv1.ConditionTypeLaunched, "Launching"},
	{karpv1.ConditionTypeRegistered, "Registering"},
	{karpv1.ConditionTypeInitialized, "Initializing"},
}

// state is in which state a node is, why, and more about that.
func (x *indexed) state(claim *karpv1.NodeClaim, node *corev1.Node, n Node) (state, reason, message string) {
	if claim != nil {
		if !claim.DeletionTimestamp.IsZero() {
			reason, message = terminating(claim)
			return stateTerminating, reason, message
		}
		for _, step := range startup {
			c := conditionOf(claim, step.condition)
			if c.Status == metav1.ConditionTrue {
				continue
			}
			if u, found := x.unhealthy[n.Name]; found {
				return step.state, u.Reason, u.Message
			}
			return step.state, c.Reason, c.Message
		}
	}
	switch {
	case node == nil && !x.nodesRead:
		return stateReady, "", ""
	case node == nil:
		return stateNotReady, "NodeNotFound", "there is no Node " + n.Name
	case !node.DeletionTimestamp.IsZero():
		return stateTerminating, "", ""
	}
	if c := nodeutils.GetCondition(node, corev1.NodeReady); c.Type != "" && c.Status != corev1.ConditionTrue {
		return stateNotReady, c.Reason, c.Message
	}
	reason, message = x.notDisrupted(claim, node, n)
	return stateReady, reason, message
}

// terminating is why a NodeClaim is being deleted, and what it waits for.
func terminating(claim *karpv1.NodeClaim) (reason, message string) {
	reason = conditionOf(claim, karpv1.ConditionTypeDisruptionReason).Reason
	for _, kind := range []string{karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached, karpv1.ConditionTypeInstanceTerminating} {
		if c := conditionOf(claim, kind); c.Type != "" && c.Status != metav1.ConditionTrue {
			return cmp.Or(reason, c.Reason), c.Message
		}
	}
	return reason, ""
}

// notDisrupted is why a node that is ready is not replaced or removed, as far as its objects have it.
func (x *indexed) notDisrupted(claim *karpv1.NodeClaim, node *corev1.Node, n Node) (reason, message string) {
	if u, found := x.unhealthy[n.Name]; found {
		return u.Reason, u.Message
	}
	if c, found := noderepair.UnhealthyCondition(node); found {
		return cmp.Or(c.Reason, string(c.Type)), strings.TrimSuffix(fmt.Sprintf("%s is %s since %s: %s", c.Type, c.Status, c.LastTransitionTime.UTC().Format(time.RFC3339), c.Message), ": ")
	}
	blocker := doNotDisrupt(node, x.onNode[node.Name])
	blocked := cmp.Or(x.blocked["Node/"+n.Name], x.blocked["NodeClaim/"+n.NodeClaim])
	unconsolidatable := cmp.Or(x.unconsolidatable["Node/"+n.Name], x.unconsolidatable["NodeClaim/"+n.NodeClaim])
	switch {
	case blocker != "":
		return "DoNotDisrupt", blocker
	case blocked != "":
		return reasonBlocked, blocked
	case n.Drifted != "":
		return n.Drifted, conditionOf(claim, karpv1.ConditionTypeDrifted).Message
	case n.Pods == nil:
		return "", ""
	case *n.Pods > 0 && unconsolidatable != "":
		return reasonUnconsolidatable, unconsolidatable
	case *n.Pods > 0:
		return "NotEmpty", x.policy(n.NodePool, true)
	case x.policy(n.NodePool, false) != "":
		return "Empty", x.policy(n.NodePool, false)
	case claim != nil && conditionOf(claim, karpv1.ConditionTypeConsolidatable).Status != metav1.ConditionTrue:
		return "Empty", "consolidateAfter has not passed"
	}
	return "Empty", ""
}

// policy is what of a pool's disruption settings keeps a node that is ready, with pods or without; empty
// where nothing does.
func (x *indexed) policy(pool string, withPods bool) string {
	at := slices.IndexFunc(x.Pools, func(p karpv1.NodePool) bool { return p.Name == pool })
	if at < 0 {
		return ""
	}
	spec := x.Pools[at].Spec
	switch {
	case spec.Replicas != nil:
		return "its pool has a number of replicas"
	case spec.Disruption.ConsolidateAfter.Duration == nil:
		return "consolidateAfter of its pool is Never"
	case withPods && spec.Disruption.ConsolidationPolicy == karpv1.ConsolidationPolicyWhenEmpty:
		return "consolidationPolicy of its pool is WhenEmpty"
	}
	return ""
}

// doNotDisrupt is what keeps Karpenter from disrupting a node by an annotation, or empty.
func doNotDisrupt(node *corev1.Node, pods []Pod) string {
	if node.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true" {
		return "the node has the annotation " + karpv1.DoNotDisruptAnnotationKey
	}
	var names []string
	for _, p := range pods {
		if p.DoNotDisrupt {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "pod " + slices.Min(names) + " has the annotation " + karpv1.DoNotDisruptAnnotationKey
}
