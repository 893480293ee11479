package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/admission"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/deviceplugin"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/userdata"
)

const (
	// forgetAfter is how long a kubelet remembers the devices of a plugin that is
	// gone: so long they count as capacity.
	forgetAfter = 5 * time.Minute
	// pluginRetry is how long a plugin that failed to start waits.
	pluginRetry = 2 * time.Second
	// builtin names Bottlerocket's own plugin among the sources.
	builtin = "builtin"
)

// deviceTable is the kubelet's device manager.
type deviceTable map[corev1.ResourceName]device

type device struct {
	capacity, healthy int
	onePerRequest     bool
	lost              time.Time // when its plugin went; zero while it is there
}

func (t deviceTable) admission() map[corev1.ResourceName]admission.Device {
	out := make(map[corev1.ResourceName]admission.Device, len(t))
	for name, d := range t {
		out[name] = admission.Device{Capacity: d.capacity, Healthy: d.healthy, OnePerRequest: d.onePerRequest}
	}
	return out
}

// source is the plugin that runs: a pod of one start, or the image's own.
type source struct {
	id    string // "" is none
	pod   *corev1.Pod
	delay time.Duration
}

// pluginRun is how far the device worker has come with its source.
type pluginRun struct {
	source     source
	next       time.Time // when the plugin registers, or tries again
	registered bool
	complaint  string
	posted     deviceTable
}

func (k *kubelet) wake() {
	select {
	case k.wakeDevices <- struct{}{}:
	default:
	}
}

// wakeFor wakes the device worker if the pod concerns it.
func (k *kubelet) wakeFor(pod *corev1.Pod) {
	if k.machine.Hardware.GPUs > 0 && (deviceplugin.Runs(pod) || deviceplugin.RunsMPS(pod)) {
		k.wake()
	}
}

// runDevices follows the device plugin on this machine until it stops.
func (k *kubelet) runDevices() {
	run := pluginRun{posted: deviceTable{}}
	clock := k.player.config.Clock
	for {
		wait := k.stepDevices(&run, clock.Now())
		timer := clock.NewTimer(wait)
		select {
		case <-timer.C():
		case <-k.wakeDevices:
		case <-k.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// stepDevices does what is due and returns how long nothing more is.
func (k *kubelet) stepDevices(run *pluginRun, now time.Time) time.Duration {
	if found := k.source(); found.id != run.source.id {
		*run = pluginRun{source: found, next: now.Add(found.delay), complaint: run.complaint, posted: run.posted}
		k.loseDevices(now)
	} else {
		run.source = found
	}
	wait := resync
	if run.source.id != "" && !run.registered {
		if !now.Before(run.next) {
			k.startPlugin(run, now)
		}
		if !run.registered {
			wait = min(wait, max(run.next.Sub(now), time.Millisecond))
		}
	}
	k.forgetDevices(now)
	if !k.postDevices(run) {
		wait = min(wait, retry)
	}
	return wait
}

// source finds the plugin that runs on this machine now.
func (k *kubelet) source() source {
	if k.machine.Hardware.GPUs == 0 {
		return source{}
	}
	delays := k.player.config.Delays
	var pod *corev1.Pod
	k.mu.Lock()
	for _, p := range k.boundPods() {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && deviceplugin.Runs(p) {
			pod = p
		}
	}
	k.mu.Unlock()
	if pod != nil {
		id := string(pod.UID)
		if label := deviceplugin.WatchedLabel(pod); label != "" {
			id += "/" + k.nodeLabels()[label]
		}
		return source{id: id, pod: pod, delay: delays.Plugin}
	}
	if k.image.nvidia && k.image.family == userdata.Bottlerocket {
		return source{id: builtin, delay: delays.BuiltinPlugin}
	}
	return source{}
}

func (k *kubelet) nodeLabels() map[string]string {
	if node, ok := cached[*corev1.Node](k.player.nodes, k.machine.DNSName); ok {
		return node.Labels
	}
	return nil
}

// startPlugin registers the plugin's devices, or says why it cannot.
func (k *kubelet) startPlugin(run *pluginRun, now time.Time) {
	config, gpus, err := k.offer(run.source)
	if err != nil {
		run.next = now.Add(pluginRetry)
		if run.complaint != err.Error() {
			run.complaint = err.Error()
			k.tell(NoDevices, run.complaint)
		}
		return
	}
	name, count := config.Offer(gpus)
	k.mu.Lock()
	k.devices[corev1.ResourceName(name)] = device{capacity: count, healthy: count, onePerRequest: config.OnePerRequest}
	k.mu.Unlock()
	run.registered, run.complaint = true, ""
}

// offer returns the running plugin's configuration and the GPUs that it finds.
func (k *kubelet) offer(from source) (deviceplugin.Config, int, error) {
	var none deviceplugin.Config
	fault := k.player.config.Fault(k.machine)
	if fault.NoPlugin {
		return none, 0, fmt.Errorf("a fault keeps the device plugin from starting")
	}
	if !k.image.nvidia {
		return none, 0, fmt.Errorf("the image %q has no NVIDIA driver; use one of its family's NVIDIA variant", k.machine.Image)
	}
	gpus := max(k.machine.Hardware.GPUs-fault.MissingGPUs, 0)
	if from.pod == nil {
		return builtinConfig(k.sharing), gpus, nil
	}
	config, err := deviceplugin.Locate(from.pod, k.nodeLabels(), k.configMap)
	if err != nil {
		return none, 0, err
	}
	if config.Strategy == deviceplugin.MPS && !k.runsMPS() {
		return none, 0, fmt.Errorf("the device plugin waits for the MPS control daemon, of which no pod runs on the node")
	}
	return config, gpus, nil
}

func builtinConfig(s userdata.Sharing) deviceplugin.Config {
	config := deviceplugin.Config{Replicas: s.Replicas, Resource: deviceplugin.GPU, OnePerRequest: s.FailRequestsGreaterThanOne}
	if s.RenameByDefault {
		config.Resource = deviceplugin.SharedGPU
	}
	return config
}

func (k *kubelet) runsMPS() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.boundPods(), func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && deviceplugin.RunsMPS(p)
	})
}

func (k *kubelet) configMap(namespace, name string) (*corev1.ConfigMap, error) {
	cm, err := k.player.config.Client.CoreV1().ConfigMaps(namespace).Get(k.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return cm, err
}

// loseDevices is a plugin's end: its devices stay known and are not allocatable.
func (k *kubelet) loseDevices(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, d := range k.devices {
		if d.lost.IsZero() {
			d.lost = now
		}
		d.healthy = 0
		k.devices[name] = d
	}
}

func (k *kubelet) forgetDevices(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, d := range k.devices {
		if !d.lost.IsZero() && now.Sub(d.lost) >= forgetAfter {
			d.capacity = 0
			k.devices[name] = d
		}
	}
}

// postDevices writes the devices into the Node's status where they changed. False
// means that it must be tried again.
func (k *kubelet) postDevices(run *pluginRun) bool {
	k.mu.Lock()
	now, name := maps.Clone(k.devices), k.node.Name
	k.mu.Unlock()
	capacity, allocatable := map[corev1.ResourceName]string{}, map[corev1.ResourceName]string{}
	var said []string
	for _, resource := range slices.Sorted(maps.Keys(now)) {
		d, old := now[resource], run.posted[resource]
		if _, known := run.posted[resource]; known && old.capacity == d.capacity && old.healthy == d.healthy {
			continue
		}
		capacity[resource], allocatable[resource] = strconv.Itoa(d.capacity), strconv.Itoa(d.healthy)
		said = append(said, fmt.Sprintf("%s: %d of %d", resource, d.healthy, d.capacity))
	}
	if len(said) == 0 {
		return true
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": capacity, "allocatable": allocatable}})
	if err == nil {
		_, err = k.player.config.Client.CoreV1().Nodes().Patch(k.ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		if context.Cause(k.ctx) == nil && !apierrors.IsNotFound(err) {
			k.player.config.Log.Warn("posting devices failed; it is repeated", "node", name, "error", err.Error())
		}
		return false
	}
	run.posted = now
	k.tell(Devices, strings.Join(said, ", "))
	return true
}
