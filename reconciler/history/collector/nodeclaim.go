package collector

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"
	"sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/recorder"
)

// observed is what was read of the cluster's nodes.
type observed struct {
	claims []recorder.Observation
	// present are the UIDs of all NodeClaims, pools the names of all NodePools that are not being deleted, and paid those of all that
	// there are or that have nodes.
	present, pools, paid map[string]bool
}

// onNode is what the pods of a node are together.
type onNode struct {
	// requested is how many GPUs, or shares of them, they request.
	requested int64
	// workloads are those that do not come with every node.
	workloads []workload
}

// workload is a pod that Karpenter launches nodes for.
type workload struct {
	*corev1.Pod
	gpus bool
}

// podsUntil is until what age of a node without GPUs its first pods are read.
const podsUntil = time.Hour

// nodeClaims observes all NodeClaims in the cache.
func (c *Collector) nodeClaims(ctx context.Context) (observed, error) {
	out := observed{present: map[string]bool{}, pools: map[string]bool{}, paid: map[string]bool{}}
	var claims karpv1.NodeClaimList
	var pools karpv1.NodePoolList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&claims, &pools, &nodes} {
		if err := c.cfg.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return out, fmt.Errorf("reading nodes for the history: %w", err)
		}
	}
	for i := range pools.Items {
		out.paid[pools.Items[i].Name] = true
		if pools.Items[i].DeletionTimestamp.IsZero() {
			out.pools[pools.Items[i].Name] = true
		}
	}
	byName := map[string]*corev1.Node{}
	for i := range nodes.Items {
		byName[nodes.Items[i].Name] = &nodes.Items[i]
	}
	now := c.cfg.Clock.Now()
	for i := range claims.Items {
		claim := &claims.Items[i]
		out.present[string(claim.UID)] = true
		o := c.observation(claim, out.pools)
		out.paid[o.NodePool] = true
		c.addPrice(c.state, claim.Labels[corev1.LabelTopologyRegion], &o)
		if node := byName[claim.Status.NodeName]; node != nil {
			advertised := gpusIn(node.Status.Allocatable)
			o.Advertises = advertised > 0 && nodeutils.GetCondition(node, corev1.NodeReady).Status == corev1.ConditionTrue
			// The pods of most nodes change nothing of what is recorded, and there are many.
			if o.GPUs > 0 || advertised > 0 || !c.state.HasPods(o.UID) && now.Sub(claim.CreationTimestamp.Time) < podsUntil {
				on, err := c.podsOn(ctx, node.Name)
				if err != nil {
					return out, err
				}
				o.Requested = float64(on.requested) / float64(max(advertised, 1))
				if !c.state.HasPods(o.UID) {
					o.Pods = on.names()
				}
			}
		}
		out.claims = append(out.claims, o)
	}
	return out, nil
}

// podsOn adds up the pods of a node, by the index that Karpenter has of them.
func (c *Collector) podsOn(ctx context.Context, node string) (onNode, error) {
	var out onNode
	var pods corev1.PodList
	if err := c.cfg.Cached.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("reading the pods of node %s for the history: %w", node, err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if pod.IsTerminal(p) {
			continue
		}
		var gpus int64
		for _, n := range gpu.Requests(p.Spec) {
			gpus += n
		}
		out.requested += gpus
		if !pod.IsOwnedByDaemonSet(p) && !pod.IsOwnedByNode(p) {
			out.workloads = append(out.workloads, workload{p, gpus > 0})
		}
	}
	return out, nil
}

// names are those of the pods that came first, those with GPUs before all others.
func (n *onNode) names() []string {
	slices.SortFunc(n.workloads, func(a, b workload) int {
		switch {
		case a.gpus != b.gpus && a.gpus:
			return -1
		case a.gpus != b.gpus:
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var out []string
	for _, w := range n.workloads {
		out = append(out, w.Namespace+"/"+w.Name)
	}
	return out
}

// gpusIn is how many GPUs, or shares of them, a node advertises.
func gpusIn(list corev1.ResourceList) int64 {
	var sum int64
	for name, quantity := range list {
		if strings.HasPrefix(string(name), "nvidia.com/") {
			sum += quantity.Value()
		}
	}
	return sum
}

// observation is what the object of a NodeClaim has. Pools are those that there are; nil where that is not known.
func (c *Collector) observation(claim *karpv1.NodeClaim, pools map[string]bool) recorder.Observation {
	o := recorder.Observation{NodeClaim: history.NodeClaim{
		Name: claim.Name, UID: string(claim.UID), Node: claim.Status.NodeName, NodePool: claim.Labels[karpv1.NodePoolLabelKey],
		InstanceType: claim.Labels[corev1.LabelInstanceTypeStable], CapacityType: claim.Labels[karpv1.CapacityTypeLabelKey],
		Zone: claim.Labels[corev1.LabelTopologyZone], Lifecycle: history.Lifecycle{Created: claim.CreationTimestamp, Launched: becameTrue(claim, karpv1.ConditionTypeLaunched), Registered: becameTrue(claim, karpv1.ConditionTypeRegistered), Initialized: becameTrue(claim, karpv1.ConditionTypeInitialized), Terminated: becameTrue(claim, karpv1.ConditionTypeInstanceTerminating)},
	}}
	if ref := claim.Spec.NodeClassRef; ref != nil {
		o.NodeClass = ref.Name
	}
	if n, err := strconv.ParseInt(claim.Labels[awsv1.LabelInstanceGPUCount], 10, 64); err == nil {
		o.GPUs = n
	} else if known, found := c.types.Lookup(o.InstanceType); found {
		o.GPUs = int64(known.GPU.Count)
	}
	if drifted := conditionOf(claim, karpv1.ConditionTypeDrifted); drifted.Status == metav1.ConditionTrue {
		o.Drifted, o.DriftReason = drifted.LastTransitionTime, drifted.Reason
	}
	if claim.DeletionTimestamp != nil {
		o.Deleted = *claim.DeletionTimestamp
		o.Reason, o.Message = c.reason(claim, pools)
	}
	return o
}

// registrationTimeout is after how long Karpenter deletes a NodeClaim whose node has not registered.
const registrationTimeout = 15 * time.Minute

// reason is why a NodeClaim is being deleted.
func (c *Collector) reason(claim *karpv1.NodeClaim, pools map[string]bool) (history.Reason, string) {
	if disrupted := conditionOf(claim, karpv1.ConditionTypeDisruptionReason); disrupted.Status == metav1.ConditionTrue {
		message := ""
		if history.Reason(disrupted.Reason) == history.ReasonDrifted {
			message = conditionOf(claim, karpv1.ConditionTypeDrifted).Reason
		}
		return history.Reason(shortened(disrupted.Reason)), shortened(message)
	}
	if message, failed := claim.Annotations[readiness.FailedAnnotation]; failed {
		return history.ReasonGPUsNotAllocatable, shortened(message)
	}
	c.mu.Lock()
	interrupted := c.interruptions[string(claim.UID)]
	c.mu.Unlock()
	age := claim.DeletionTimestamp.Sub(claim.CreationTimestamp.Time)
	registered := becameTrue(claim, karpv1.ConditionTypeRegistered)
	switch expires := claim.Spec.ExpireAfter.Duration; {
	case interrupted != "":
		return interrupted, ""
	case expires != nil && age >= *expires:
		return history.ReasonExpired, ""
	case pools != nil && !pools[claim.Labels[karpv1.NodePoolLabelKey]]:
		return history.ReasonNodePoolDeleted, ""
	case registered.IsZero() && age >= registrationTimeout:
		return history.ReasonRegistrationTimeout, ""
	}
	return history.ReasonDeleted, ""
}

// deleted takes in the last state of a NodeClaim that is gone. A replica that does not lead passes it over: the
// leader records it.
func (c *Collector) deleted(claim *karpv1.NodeClaim) {
	defer c.guard()
	if !c.leads.Load() {
		return
	}
	now := metav1.NewTime(c.cfg.Clock.Now())
	o := c.observation(claim, nil)
	if o.Terminated.IsZero() {
		o.Terminated = now
	}
	region := claim.Labels[corev1.LabelTopologyRegion]
	c.queue(func(s *recorder.State) {
		c.addPrice(s, region, &o)
		s.Observe(now.Time, []recorder.Observation{o})
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.interruptions, o.UID)
	delete(c.recorded, o.UID)
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

// becameTrue is when a NodeClaim's condition became true; zero where it is not.
func becameTrue(claim *karpv1.NodeClaim, kind string) metav1.Time {
	if c := conditionOf(claim, kind); c.Status == metav1.ConditionTrue {
		return c.LastTransitionTime
	}
	return metav1.Time{}
}
