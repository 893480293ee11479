package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/devicemanager"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/deviceplugin"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/dradriver"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/pluginlife"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/userdata"
)

// builtin names Bottlerocket's own plugin among the sources.
const builtin = "builtin"

// source is the plugin that runs: a pod, or the image's own.
type source struct {
	id    string      // "" is none
	pod   *corev1.Pod // as last observed; nil for the image's own
	label string      // what its config manager reads on the Node
}

// pluginRun is how far the device worker has come with its source.
type pluginRun struct {
	source    source
	life      *pluginlife.Life // nil without a source
	complaint string           // reported last
	posted    devicemanager.Table
	changed   time.Time // when the devices first differed from posted; zero if they do not
	addons    time.Time // from when on the add-ons offer their devices
	// driverSince is from when on the DRA driver's pod runs; zero without one.
	driverSince time.Time
}

// served is what all plugins list, and how long that stays so.
func (k *kubelet) served(run *pluginRun, now time.Time) (devicemanager.Table, time.Duration) {
	out := devicemanager.Table{}
	maps.Copy(out, run.served())
	left := run.addons.Sub(now)
	if len(k.machine.Hardware.Devices) == 0 || left > 0 {
		return out, cmp.Or(max(left, 0), resync)
	}
	for name, n := range k.machine.Hardware.Devices {
		out[corev1.ResourceName(name)] = devicemanager.Device{Capacity: n, Healthy: n}
	}
	return out, resync
}

// served is what the plugin lists, for the kubelet's device manager.
func (r *pluginRun) served() devicemanager.Table {
	if r.life == nil {
		return nil
	}
	offer, healthy, ok := r.life.Offer()
	if !ok {
		return nil
	}
	out := devicemanager.Table{}
	for name, each := range offer.PerGPU {
		out[corev1.ResourceName(name)] = devicemanager.Device{Capacity: offer.GPUs * each, Healthy: healthy * each, OnePerRequest: offer.OnePerRequest}
	}
	return out
}

// stepPlugin follows the plugin that runs now by a step, and returns how long
// nothing more is due.
func (k *kubelet) stepPlugin(run *pluginRun, now time.Time) time.Duration {
	found := k.source()
	switch {
	case found.id != run.source.id:
		run.life = nil
		if found.id != "" {
			run.life = pluginlife.Begin(k.timing(found), now)
		}
	case found.label != run.source.label:
		run.life.Reload(now)
	}
	run.source = found
	if run.life == nil {
		return resync
	}
	fault := k.simulator.config.Fault(k.machine)
	next, due := run.life.Step(now, pluginlife.Facts{Missing: fault.MissingGPUs, Crashes: fault.PluginCrashes,
		Start: func() (pluginlife.Advertised, *pluginlife.Failure) { return k.startPlugin(found, fault) }})
	if complaint := run.life.Complaint(); complaint != run.complaint {
		run.complaint = complaint
		if complaint != "" {
			k.notify(NoDevices, complaint)
		}
	}
	if !due {
		return faultPoll
	}
	return min(faultPoll, max(next.Sub(now), time.Millisecond))
}

// source finds the plugin that runs on this machine now.
func (k *kubelet) source() source {
	k.mu.Lock()
	pod := k.newest(deviceplugin.Runs)
	k.mu.Unlock()
	if pod != nil {
		found := source{id: string(pod.UID), pod: pod}
		if label := deviceplugin.WatchedLabel(pod); label != "" {
			found.label = k.nodeLabels()[label]
		}
		return found
	}
	if k.machine.Hardware.GPUs > 0 && k.image.nvidia && k.image.family == userdata.Bottlerocket {
		return source{id: builtin}
	}
	return source{}
}

// newest returns the youngest running pod of a kind, or nil. The caller holds the
// lock.
func (k *kubelet) newest(kind func(*corev1.Pod) bool) *corev1.Pod {
	pods := k.boundPods()
	for _, p := range slices.Backward(pods) {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && kind(p) {
			return p
		}
	}
	return nil
}

func (k *kubelet) timing(of source) pluginlife.Timing {
	d := k.simulator.config.Delays
	t := pluginlife.Timing{Start: d.Plugin, Retry: d.PluginRetry, BackOff: d.CrashBackOff, Restart: d.PodStart}
	if of.pod == nil {
		t.Start = d.BuiltinPlugin
	} else {
		t.Never = of.pod.Spec.RestartPolicy == corev1.RestartPolicyNever
	}
	return t
}

func (k *kubelet) nodeLabels() map[string]string {
	if node, ok := cached[*corev1.Node](k.simulator.nodes, k.machine.DNSName); ok {
		return node.Labels
	}
	return nil
}

// startPlugin lists devices as the plugin does, in its order: it watches the kubelet's
// folder, reads its configuration, loads the driver, counts GPUs, and queries the MPS
// daemon.
func (k *kubelet) startPlugin(from source, fault Fault) (pluginlife.Advertised, *pluginlife.Failure) {
	if fault.NoPlugin {
		return pluginlife.Advertised{}, &pluginlife.Failure{Code: 1, Why: "a fault keeps the device plugin from starting",
			Log: "Starting the device plugin\nno watch can be set on /var/lib/kubelet/device-plugins/: too many open files"}
	}
	config := builtinConfig(k.sharing)
	if from.pod != nil {
		var failure *pluginlife.Failure
		if config, failure = k.readConfig(from); failure != nil {
			return pluginlife.Advertised{}, failure
		}
	}
	if failure := k.loadDriver(config); failure != nil {
		return pluginlife.Advertised{}, failure
	}
	gpus := k.machine.Hardware.GPUs - fault.MissingGPUs
	if gpus <= 0 {
		return pluginlife.Advertised{}, &pluginlife.Failure{Then: pluginlife.Idles, Why: "the driver finds no GPU: the device plugin waits for ever"}
	}
	if config.Strategy == deviceplugin.SharingStrategyMPS && !k.runsMPS() {
		return pluginlife.Advertised{}, &pluginlife.Failure{Then: pluginlife.Retries,
			Why: "the device plugin waits for the MPS control daemon, which does not run on the node"}
	}
	if !deviceplugin.HasMIG(k.machine.Hardware.GPUModel) {
		config.MIGDevices = nil
	}
	return pluginlife.Advertised{GPUs: gpus, PerGPU: config.AdvertisedPerGPU(), OnePerRequest: config.OnePerRequest}, nil
}

func (k *kubelet) readConfig(from source) (deviceplugin.Config, *pluginlife.Failure) {
	labels := k.nodeLabels()
	config, err := deviceplugin.Locate(from.pod, labels, k.volumes(from.pod))
	if err == nil {
		return config, nil
	}
	if errors.As(err, new(unreachableError)) {
		return config, &pluginlife.Failure{Then: pluginlife.Unknown}
	}
	return config, &pluginlife.Failure{Code: 1, Why: err.Error(), Daemon: true,
		Log: "Loading configuration.\nerror starting plugins: unable to load config: " + err.Error()}
}

// loadDriver fails where NVIDIA's library does not load. The MPS daemon needs it too.
func (k *kubelet) loadDriver(config deviceplugin.Config) *pluginlife.Failure {
	f := pluginlife.Failure{Code: 1, Daemon: true}
	switch {
	case !k.image.nvidia:
		f.Why = fmt.Sprintf("the image %q has no NVIDIA driver; use one of its family's NVIDIA variant", k.machine.Image)
		f.Log = "ERROR_LIBRARY_NOT_FOUND"
	case k.machine.Hardware.GPUs == 0:
		f.Why = fmt.Sprintf("the instance type %s has no NVIDIA GPU: its driver is not loaded", k.machine.Type)
		f.Log = "Driver Not Loaded"
	case len(config.MIGDevices) > 0 && deviceplugin.NeedsReset(k.machine.Hardware.GPUModel):
		f.Why = fmt.Sprintf("nvidia-mig-parted can not reset the GPUs of the instance type %s, which it has to for MIG", k.machine.Type)
		f.Log = "error applying MIG configuration with hooks: error resetting all GPUs: exit status 255"
		return &f
	default:
		return nil
	}
	// As v0.19.3 ends on a machine without the library.
	f.Log = "Loading configuration.\nFailed to initialize NVML: " + f.Log + ".\n" +
		"error starting plugins: error getting plugins: unable to create plugins: failed to construct resource managers: nvml init failed: " + f.Log
	if config.Patient {
		f.Then = pluginlife.Idles
	}
	return &f
}

func builtinConfig(s userdata.Sharing) deviceplugin.Config {
	config := deviceplugin.Config{Replicas: s.Replicas, Resource: deviceplugin.GPU, OnePerRequest: s.FailRequestsGreaterThanOne}
	if s.RenameByDefault {
		config.Resource = deviceplugin.SharedGPU
	}
	return config
}

// runsMPS reports whether the MPS control daemon runs: in a pod of its own or beside
// the plugin.
func (k *kubelet) runsMPS() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.newest(func(p *corev1.Pod) bool { return deviceplugin.DaemonContainer(p) != "" }) != nil
}

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
	if err := k.publish(node, dradriver.PublishedGPUs{Model: hardware.GPUModel, MemoryMiB: hardware.GPUMemoryMiB, Count: gpus}); err != nil {
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
func (k *kubelet) publish(node *corev1.Node, gpus dradriver.PublishedGPUs) error {
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
