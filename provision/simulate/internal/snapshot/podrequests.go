package snapshot

import (
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/poolwright/poolwright/provision/simulate/reduce"
)

// AsCounted is a copy of a Node as [AsEngineReads] has it, with less allocatable by what those of its pods request that a
// Client with PodsAggregated leaves out. Karpenter subtracts what each pod requests from what the node has allocatable, and of
// most pods counts nothing else: to have it read them one by one takes most of the time of reading a cluster.
func (f *Indexed) AsCounted(node *corev1.Node) *corev1.Node {
	out := AsEngineReads(node)
	if !aggregates(node) {
		return out
	}
	requested := corev1.ResourceList{}
	for _, pod := range f.Bound[node.Name] {
		if onlyRequests(pod) && !podutil.IsTerminal(pod) {
			requested = resources.MergeInto(requested, f.requestsOf(pod))
		}
	}
	out.Status.Allocatable = resources.Subtract(out.Status.Allocatable, requested)
	return out
}

// aggregates reports whether Karpenter takes what a node has allocatable from the Node alone: until it is initialized, what is
// zero there is taken from the NodeClaim.
func aggregates(node *corev1.Node) bool {
	return node != nil && node.Labels[karpv1.NodeInitializedLabelKey] == "true"
}

// onlyRequests reports whether all that Karpenter counts of a pod on a node is what it requests. What a DaemonSet's requests is
// compared with what the DaemonSet is to request, ports of the host with those of other pods, and where a pod is that keeps
// others away decides where these may go.
func onlyRequests(pod *corev1.Pod) bool {
	return !podutil.IsOwnedByDaemonSet(pod) && (pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil) && len(scheduling.GetHostPorts(pod)) == 0
}

// requestsOf is what a pod requests, once for pods of one shape. It must not be changed.
func (f *Indexed) requestsOf(pod *corev1.Pod) corev1.ResourceList {
	key := reduce.ShapeKeyOf(pod)
	known, ok := f.requests[key]
	if !ok {
		known = resources.RequestsForPods(pod)
		f.requests[key] = known
	}
	return known
}
