// Package noderepair has the conditions of Nodes for which Karpenter repairs them under its feature gate
// NodeRepair. It repairs nothing: the engine does. Start reading at UnhealthyCondition.
package noderepair

import (
	"slices"

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
