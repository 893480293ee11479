package forecasting

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// managedSnapshot is a snapshot without the pools, classes and overlays that a Sync has not
// applied, the nodes of those and the pods on them: a forecast in a pull request must
// not depend on whether a pool of some name exists. Nodes of no pool have room for pods,
// whoever made them.
func managedSnapshot(all provision.ClusterSnapshot, sync string) provision.ClusterSnapshot {
	out := all
	out.NodePools, out.NodeClasses, out.Overlays = applied(all.NodePools, sync), applied(all.NodeClasses, sync), applied(all.Overlays, sync)
	pools := map[string]bool{"": true}
	for _, pool := range out.NodePools {
		pools[pool.Name] = true
	}
	out.NodeClaims = of(all.NodeClaims, pools)
	out.Nodes = of(all.Nodes, pools)
	gone := map[string]bool{}
	for _, node := range all.Nodes {
		gone[node.Name] = !pools[node.Labels[karpv1.NodePoolLabelKey]]
	}
	out.Pods = slices.DeleteFunc(slices.Clone(all.Pods), func(pod *corev1.Pod) bool { return gone[pod.Spec.NodeName] })
	return out
}

// applied are the objects that carry the label of a Sync.
func applied[T client.Object](all []T, sync string) []T {
	return slices.DeleteFunc(slices.Clone(all), func(o T) bool { return o.GetLabels()[v1alpha1.SyncLabel] != sync })
}

// of are the objects that belong to one of the pools.
func of[T client.Object](all []T, pools map[string]bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(o T) bool { return !pools[o.GetLabels()[karpv1.NodePoolLabelKey]] })
}
