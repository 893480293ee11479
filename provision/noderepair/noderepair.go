// Package noderepair has the conditions of Nodes for which Karpenter repairs them under its feature gate
// NodeRepair, and the Backoff by which the engine bounds these repairs over time. It repairs nothing: the engine does.
// Start reading at UnhealthyCondition, and for the bound at Backoff.
package noderepair

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// conditions are those that the node monitoring agent of EKS sets, which are False on an unhealthy Node.
// A test compares them with the repair policies of Karpenter's AWS provider.
var conditions = []corev1.NodeConditionType{"AcceleratedHardwareReady", "StorageReady", "NetworkingReady", "KernelReady", "ContainerRuntimeReady"}

// UnhealthyCondition is the first condition of a Node, other than Ready, for which Karpenter replaces it.
// Found is false where there is none.
func UnhealthyCondition(node *corev1.Node) (condition corev1.NodeCondition, found bool) {
	for _, c := range node.Status.Conditions {
		if c.Status == corev1.ConditionFalse && slices.Contains(conditions, c.Type) {
			return c, true
		}
	}
	return corev1.NodeCondition{}, false
}

// UnhealthySince is since when a Node has had the oldest of its conditions for which Karpenter replaces it, Ready among them.
// It is zero for a healthy one.
func UnhealthySince(node *corev1.Node) time.Time {
	var since time.Time
	for _, c := range node.Status.Conditions {
		unhealthy := c.Status == corev1.ConditionFalse && slices.Contains(conditions, c.Type) || c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
		if at := c.LastTransitionTime.Time; unhealthy && (since.IsZero() || at.Before(since)) {
			since = at
		}
	}
	return since
}
