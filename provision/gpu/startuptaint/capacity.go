package startuptaint

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// WithRecordedCapacity returns what the engine's cache makes of every Node that enters it:
// where gpu.AllocatableAnnotation can be read and the node is initialized, capacity and
// allocatable are the recorded numbers, so that Karpenter buys no node because a
// plugin restarts. Before that they stay as they are: Karpenter then waits for the
// true ones, and counts what the instance type should have. Everything else passes
// as it is; an annotation that cannot be read is logged once and ignored.
//
// None of this comes back to the API server. Karpenter writes Nodes only with
// patches between two versions of the same object (finalizers, labels, taints,
// annotations), in which the status is the same on both sides; it neither updates
// whole Nodes nor writes their status, and the API server takes no status from a
// write of the Node itself. A test reads such patches.
//
// Whoever checks what a node advertises must read it past this cache.
func WithRecordedCapacity(logger logr.Logger) func(*corev1.Node) {
	logged := &onceEach{}
	return func(node *corev1.Node) {
		text, ok := node.Annotations[gpu.AllocatableAnnotation]
		if !ok || node.Labels[karpv1.NodeInitializedLabelKey] != "true" {
			return
		}
		allocatable, err := gpu.ParseResources(text)
		if err != nil {
			if logged.changed(node.Name, text) {
				logger.Error(err, "ignoring a node's recorded capacity", "Node", node.Name, "annotation", gpu.AllocatableAnnotation)
			}
			return
		}
		node.Status.Capacity = allocatable.ApplyTo(node.Status.Capacity)
		node.Status.Allocatable = allocatable.ApplyTo(node.Status.Allocatable)
	}
}
