package nodes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/admission"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/devicemanager"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/deviceplugin"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/dradriver"
)

// faultPoll is how often a machine with a plugin is checked for new faults.
const faultPoll = time.Second

func (k *kubelet) notifyDevices() {
	select {
	case k.devicesChanged <- struct{}{}:
	default:
	}
}

// notifyDevicesOf wakes the device worker if the pod concerns it.
func (k *kubelet) notifyDevicesOf(pod *corev1.Pod) {
	if deviceplugin.Runs(pod) || deviceplugin.DaemonContainer(pod) != "" || dradriver.Runs(pod) || len(pod.Spec.ResourceClaims) > 0 {
		k.notifyDevices()
	}
}

// runDevices follows the device plugin on this machine until it stops.
func (k *kubelet) runDevices() {
	clock := k.simulator.config.Clock
	run := pluginRun{posted: devicemanager.Table{}, addons: clock.Now().Add(k.simulator.config.Delays.Plugin)}
	for {
		wait := k.stepDevices(&run, clock.Now())
		timer := clock.NewTimer(wait)
		select {
		case <-timer.C():
		case <-k.devicesChanged:
		case <-k.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// stepDevices does what is due and returns how long nothing more is.
func (k *kubelet) stepDevices(run *pluginRun, now time.Time) time.Duration {
	wait := min(k.mountPlugins(), k.stepPlugin(run, now), k.stepDRA(run, now))
	served, left := k.served(run, now)
	wait = min(wait, left)
	k.mu.Lock()
	k.devices.Sync(now, served)
	k.mu.Unlock()
	if !k.updatePluginStatus(run) {
		wait = min(wait, retry)
	}
	return min(wait, k.postDevices(run, now))
}

// admissionDevices is what the kubelet's admission needs of the devices. The caller
// holds the lock.
func (k *kubelet) admissionDevices() map[corev1.ResourceName]admission.Device {
	out := make(map[corev1.ResourceName]admission.Device, len(k.devices))
	for name, d := range k.devices {
		out[name] = admission.Device{Capacity: d.Capacity, Healthy: d.Healthy, OnePerRequest: d.OnePerRequest}
	}
	return out
}

// postDevices writes the devices into the Node's status where they changed, at the
// earliest Delays.NodeStatus after the first change. It returns when to come back
// at the latest.
func (k *kubelet) postDevices(run *pluginRun, now time.Time) time.Duration {
	k.mu.Lock()
	known, name := maps.Clone(k.devices), k.node.Name
	k.mu.Unlock()
	changed := known.Changed(run.posted)
	if len(changed) == 0 {
		run.changed = time.Time{}
		return resync
	}
	if run.changed.IsZero() {
		run.changed = now
	}
	if left := run.changed.Add(k.simulator.config.Delays.NodeStatus).Sub(now); left > 0 {
		return left
	}
	capacity, allocatable := map[corev1.ResourceName]string{}, map[corev1.ResourceName]string{}
	var listed []string
	for _, resource := range slices.Sorted(maps.Keys(changed)) {
		d := changed[resource]
		capacity[resource], allocatable[resource] = strconv.Itoa(d.Capacity), strconv.Itoa(d.Healthy)
		listed = append(listed, fmt.Sprintf("%s: %d of %d", resource, d.Healthy, d.Capacity))
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": capacity, "allocatable": allocatable}})
	if err == nil {
		_, err = k.simulator.config.Client.CoreV1().Nodes().Patch(k.ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		if k.ctx.Err() == nil && !apierrors.IsNotFound(err) {
			k.simulator.config.Log.Warn("posting devices failed; it is repeated", "node", name, "error", err.Error())
		}
		return retry
	}
	run.posted, run.changed = known, time.Time{}
	k.notify(Devices, strings.Join(listed, ", "))
	return resync
}

// updatePluginStatus writes into the plugin's pod what became of its container. A container
// that never ended is left to kwok. False means that it must be tried again.
func (k *kubelet) updatePluginStatus(run *pluginRun) bool {
	if run.life == nil || run.source.pod == nil {
		return true
	}
	pod := run.source.pod
	want := withContainer(pod, run.life.Container(), k.simulator.config.Clock.Now())
	if want == nil || apiequality.Semantic.DeepEqual(want.Status, pod.Status) {
		return true
	}
	_, err := k.simulator.config.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(k.ctx, want, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && k.ctx.Err() == nil {
		k.simulator.config.Log.Warn("posting a container's state failed; it is repeated", "pod", pod.Namespace+"/"+pod.Name, "error", err.Error())
	}
	// A conflict means that the pod changed: it will be read, and compared again.
	return err == nil
}
