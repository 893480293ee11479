package nodes

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/admission"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/deviceplugin"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/kwokbridge"
)

// podRecord is a pod as its kubelet has it.
type podRecord struct {
	pod      *corev1.Pod // the last state observed
	rejected *admission.Rejection
	// mounted are the ConfigMaps in its volumes, as last read, of a plugin's pod; nil
	// before all of them could be mounted.
	mounted map[string]*corev1.ConfigMap
}

func (r *podRecord) ended() bool {
	return r.rejected != nil || finished(r.pod)
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// handlePod decides what a pod's new state requires of the kubelet: admit it, end it or
// let kwok go on with it.
func (k *kubelet) syncPod(pod *corev1.Pod) {
	k.mu.Lock()
	record, known := k.pods[pod.UID]
	if known {
		record.pod = pod
	} else {
		record = &podRecord{pod: pod}
		if pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil {
			record.rejected = admission.Check(pod, k.view())
		}
		k.pods[pod.UID] = record
	}
	rejected := record.rejected
	k.mu.Unlock()
	k.notifyDevicesOf(pod)
	if rejected != nil && !finished(pod) {
		k.simulator.running.Go(func() { k.reject(pod, rejected) })
		return
	}
	if !isSteady(pod) && k.startable(pod) {
		k.feed(func(ctx context.Context) { k.simulator.bridge.Pod(ctx, pod) })
	}
}

// isSteady reports whether a pod just runs on: kwok has nothing to plan for it.
func isSteady(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil ||
		pod.Spec.ActiveDeadlineSeconds != nil || kwokbridge.Ends(pod) {
		return false
	}
	return !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue
	})
}

// startable is false for a pod that must wait for the node's network, for the
// volumes of a device plugin, or for the DRA driver that prepares its claims.
func (k *kubelet) startable(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending {
		return true
	}
	if deviceplugin.Runs(pod) && !k.mounted(pod) || !k.prepared(pod) {
		return false
	}
	if pod.Spec.HostNetwork || !k.registeredNotReady() {
		return true
	}
	node, ok := cached[*corev1.Node](k.simulator.nodes, pod.Spec.NodeName)
	return ok && ready(node)
}

// registeredNotReady reports whether this kubelet came up without a network; only
// then do pods wait for the Ready condition.
func (k *kubelet) registeredNotReady() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.node != nil && !ready(k.node)
}

// resume hands pods to kwok that waited for the network.
func (k *kubelet) resume() {
	if !k.registeredNotReady() {
		return
	}
	k.mu.Lock()
	var waiting []*corev1.Pod
	for _, r := range k.pods {
		if !r.ended() && r.pod.Status.Phase == corev1.PodPending {
			waiting = append(waiting, r.pod)
		}
	}
	k.mu.Unlock()
	for _, pod := range waiting {
		if !k.startable(pod) {
			continue
		}
		k.feed(func(ctx context.Context) { k.simulator.bridge.Pod(ctx, pod) })
	}
}

// losePod drops a pod that is gone from the API server.
func (k *kubelet) losePod(pod *corev1.Pod) {
	k.mu.Lock()
	delete(k.pods, pod.UID)
	k.mu.Unlock()
	k.feed(func(ctx context.Context) { k.simulator.bridge.PodGone(ctx, pod) })
	k.notifyDevicesOf(pod)
}

// view is the node as admission reads it. The caller holds the lock.
func (k *kubelet) view() admission.Node {
	view := admission.Node{Allocatable: k.node.Status.Allocatable, Devices: k.admissionDevices()}
	for _, r := range k.pods {
		if !r.ended() {
			view.Others = append(view.Others, r.pod)
		}
	}
	return view
}

// boundPods returns the pods that have not ended, oldest first. The caller holds
// the lock.
func (k *kubelet) boundPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, r := range k.pods {
		if !r.ended() {
			pods = append(pods, r.pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return pods
}

// reject ends a pod that the kubelet does not admit. A failed write is repeated
// when the pod is reconciled again.
func (k *kubelet) reject(pod *corev1.Pod, r *admission.Rejection) {
	ended := pod.DeepCopy()
	ended.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: r.Reason, Message: r.Message,
		QOSClass: pod.Status.QOSClass, StartTime: &metav1.Time{Time: k.simulator.config.Clock.Now()}, Conditions: pod.Status.Conditions}
	_, err := k.simulator.config.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(k.ctx, ended, metav1.UpdateOptions{})
	switch {
	case err == nil:
		k.notify(Rejected, fmt.Sprintf("pod %s/%s: %s: %s", pod.Namespace, pod.Name, r.Reason, r.Message))
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), k.ctx.Err() != nil:
	default:
		k.simulator.config.Log.Warn("rejecting a pod failed; it is repeated", "pod", pod.Namespace+"/"+pod.Name, "error", err.Error())
	}
}
