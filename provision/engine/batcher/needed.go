package batcher

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"
)

// NodeNeeded reports whether a pod that a NodeClaim was made for still needs a node, or the NodeClaim
// was made for none. Where a pod cannot be read, it does.
//
// Nodes are drained while pods are scheduled: a pod of a node that is deleted was evicted by then,
// and the pod in its place runs on the node that was launched for it. Where the two cannot be
// placed on one node, Karpenter counts both and requires another node. pods must read from the cache
// that Karpenter scheduled by, which has the eviction where it has the pod in its place.
func NodeNeeded(ctx context.Context, pods client.Reader, claim *scheduling.NodeClaim) bool {
	return len(claim.Pods) == 0 || slices.ContainsFunc(claim.Pods, func(scheduled *corev1.Pod) bool {
		pod := &corev1.Pod{}
		if err := pods.Get(ctx, client.ObjectKeyFromObject(scheduled), pod); err != nil {
			return !apierrors.IsNotFound(err)
		}
		if pod.UID != scheduled.UID || pod.Spec.NodeName != scheduled.Spec.NodeName {
			return false
		}
		return podutils.IsProvisionable(pod) || pod.Spec.NodeName != "" && podutils.IsReschedulable(pod)
	})
}
