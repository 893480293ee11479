package nodes

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/dradriver"
)

// stepDRA follows NVIDIA's DRA driver on this machine: it publishes the GPUs once its pod has run for Delays.Plugin, and
// pods with claims start while it runs. It returns how long nothing more is due. The slice stays while the driver
// restarts, as it does in the real one; a real kubelet deletes it half a minute after the driver has gone for good, and
// this one with the Node.
func (k *kubelet) stepDRA(run *pluginRun, now time.Time) time.Duration {
	k.mu.Lock()
	pod := k.newest(dradriver.Runs)
	k.draReady = k.draReady && pod != nil
	ready, node := k.draReady, k.node
	k.mu.Unlock()
	if pod == nil {
		run.driverSince = time.Time{}
		return resync
	}
	if ready {
		k.startClaimants()
		return resync
	}
	if run.driverSince.IsZero() {
		run.driverSince = now
	}
	if left := run.driverSince.Add(k.simulator.config.Delays.Plugin).Sub(now); left > 0 {
		return left
	}
	fault, hardware := k.simulator.config.Fault(k.machine), k.machine.Hardware
	gpus := hardware.GPUs - fault.MissingGPUs
	if fault.NoPlugin || !k.image.nvidia || gpus <= 0 {
		return faultPoll
	}
	if err := k.publish(node, dradriver.GPUs{Model: hardware.GPUModel, MemoryMiB: hardware.GPUMemoryMiB, Count: gpus}); err != nil {
		if k.ctx.Err() == nil {
			k.simulator.config.Log.Warn("publishing a ResourceSlice failed; it is repeated", "node", node.Name, "error", err.Error())
		}
		return retry
	}
	k.mu.Lock()
	k.draReady = true
	k.mu.Unlock()
	k.startClaimants()
	return resync
}

// publish creates the machine's ResourceSlice, unless it has one.
func (k *kubelet) publish(node *corev1.Node, gpus dradriver.GPUs) error {
	client := k.simulator.config.Client.ResourceV1().ResourceSlices()
	known, err := client.List(k.ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node.Name})
	if err != nil || len(known.Items) > 0 {
		return err
	}
	slice := dradriver.Slice(node, gpus)
	if _, err := client.Create(k.ctx, slice, metav1.CreateOptions{}); err != nil {
		return err
	}
	k.notify(Devices, fmt.Sprintf("%s: a ResourceSlice of %d", dradriver.Driver, len(slice.Spec.Devices)))
	return nil
}

// prepared reports whether a pod's claims can be prepared: it has none, or the driver runs. The scheduler binds no pod
// before its claims are allocated.
func (k *kubelet) prepared(pod *corev1.Pod) bool {
	if len(pod.Spec.ResourceClaims) == 0 {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.draReady
}

// startClaimants lets pods start that waited for the driver.
func (k *kubelet) startClaimants() {
	k.mu.Lock()
	waiting := slices.DeleteFunc(k.boundPods(), func(p *corev1.Pod) bool {
		return p.Status.Phase != corev1.PodPending || len(p.Spec.ResourceClaims) == 0
	})
	k.mu.Unlock()
	for _, pod := range waiting {
		if k.startable(pod) {
			k.feed(func(ctx context.Context) { k.simulator.bridge.Pod(ctx, pod) })
		}
	}
}
