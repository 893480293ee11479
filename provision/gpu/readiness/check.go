package readiness

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// Reasons why a node does not advertise what its configuration declares.
const (
	// NoPluginPod: no pod of the plugin is on the node.
	NoPluginPod = "NoPluginPod"
	// NotScheduled: the plugin's pod finds no place on the node.
	NotScheduled = "NotScheduled"
	// ImagePull: the plugin's image cannot be pulled.
	ImagePull = "ImagePull"
	// PluginFailing: the plugin's pod does not become ready.
	PluginFailing = "PluginFailing"
	// InvalidConfig: the plugin refuses its configuration.
	InvalidConfig = "InvalidConfig"
	// NoDriver: the plugin finds no NVIDIA driver on the node.
	NoDriver = "NoDriver"
	// MissingGPUs: some GPUs are found, and fewer than the instance type has.
	MissingGPUs = "MissingGPUs"
	// Mismatch: nothing is advertised yet, or something else than the configuration declares.
	Mismatch = "Mismatch"
	// NotPublished: the DRA driver's pod is ready, and has not published all GPUs of the node. Check never returns it.
	NotPublished = "NotPublished"
	// NotApplied: the plugin's DaemonSet was not made from the DevicePlugin that
	// counts, or is not there. Check never returns it.
	NotApplied = "NotApplied"
	// AnotherPlugin: a device plugin that is not ours serves the node, too. Check never
	// returns it.
	AnotherPlugin = "AnotherPlugin"
	// NodeNotReady: the node's kubelet does not report it ready. Check never returns it; a
	// node that is replaced may have it for a reason.
	NodeNotReady = "NodeNotReady"
)

// Labels that Karpenter puts on a node.
const (
	gpuCountLabel        = "karpenter.k8s.aws/instance-gpu-count"
	gpuManufacturerLabel = "karpenter.k8s.aws/instance-gpu-manufacturer"
)

// View is a node with all that decides about its GPUs.
type View struct {
	Node *corev1.Node
	// Config serves the node's pool.
	Config gpu.PluginConfig
	// Plugin is the plugin's pod on the node, or nil. Where there are several, it
	// is the newest that is not being deleted.
	Plugin *corev1.Pod
	// Others counts the plugin's pods beside it, of whatever configuration, that still
	// run: all of them serve one socket, and the one that ends takes it along.
	Others int
	// PluginHash is the PluginHashAnnotation of the pod template of the configuration's
	// DaemonSet.
	PluginHash string
}

// Health is the result of checking a View.
type Health struct {
	// Expected is what the node must advertise.
	Expected gpu.Resources
	// Current is true when the plugin on the node is the declared one.
	Current bool
	// Ready is true when the plugin is current and ready, and the node's
	// allocatable resources are what it must advertise: pods may come.
	Ready bool
	// Reason and Message diagnose a node that is not ready; both are empty
	// where it is. The message is one line.
	Reason, Message string
}

// GPUs is how many NVIDIA GPUs the node's instance type has; 0 where its labels
// name none.
func GPUs(node *corev1.Node) int {
	if node.Labels[gpuManufacturerLabel] != "nvidia" {
		return 0
	}
	n, err := strconv.Atoi(node.Labels[gpuCountLabel])
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// HasBuiltinPlugin reports whether the node's image runs a device plugin of its own, beside
// which no pod of ours comes: Bottlerocket.
func HasBuiltinPlugin(node *corev1.Node) bool {
	return strings.HasPrefix(node.Status.NodeInfo.OSImage, "Bottlerocket")
}

// Check compares a node with GPUs with its configuration.
func Check(v View) Health {
	out := Health{Expected: v.Config.Allocatable(GPUs(v.Node))}
	differs := out.Expected.Differs(v.Node.Status.Allocatable)
	if HasBuiltinPlugin(v.Node) {
		out.Current = true
		out.Ready = differs == ""
		if !out.Ready {
			out.Reason, out.Message = Mismatch, "Bottlerocket's own plugin advertises "+differs+": set settings.kubelet-device-plugins.nvidia in the EC2NodeClass's userData as the configuration declares"
		}
		return out
	}
	if v.Plugin == nil {
		out.Reason, out.Message = NoPluginPod, "no pod of the device plugin is on the node: its DaemonSet must tolerate the node's taints"
		return out
	}
	out.Current = gpu.PluginHash(v.Plugin.Annotations) == v.PluginHash
	switch {
	case !ready(v.Plugin):
		out.Reason, out.Message = failing(v.Plugin)
	case !out.Current:
		out.Reason, out.Message = Mismatch, "the plugin of an earlier version or configuration still runs"
	case v.Others > 0:
		out.Reason, out.Message = Mismatch, fmt.Sprintf("two plugins are on the node: beside pod %s, %d more have not ended yet", v.Plugin.Name, v.Others)
	case differs == "":
		out.Ready = true
	case v.none():
		out.Reason, out.Message = crashed(v.Plugin)
		if out.Reason == "" {
			out.Reason, out.Message = Mismatch, "the node advertises none yet: "+differs
		}
	default:
		out.Reason, out.Message = v.short(out.Expected), "the node advertises "+differs
	}
	return out
}

// none reports whether the node advertises nothing at all: no plugin has registered with
// the kubelet, which proves nothing about what the plugin finds.
func (v View) none() bool {
	advertised := gpu.Resources{}
	advertised.Add(v.Node.Status.Allocatable)
	return !advertised.Any()
}

// short distinguishes a node that misses GPUs from one that advertises something else.
func (v View) short(allocatable gpu.Resources) string {
	resource := v.Config.Resource()
	quantity := v.Node.Status.Allocatable[resource]
	share := v.Config.Allocatable(1)[resource]
	if got := quantity.Value(); got > 0 && got < allocatable[resource] && got%share == 0 {
		return MissingGPUs
	}
	return Mismatch
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// maxMessage is the longest part of a container's last log lines that is repeated.
const maxMessage = 300

// failing diagnoses a pod that is not ready from its containers' last log lines, which
// the kubelet keeps because the pods request it (terminationMessagePolicy:
// FallbackToLogsOnError).
func failing(pod *corev1.Pod) (reason, message string) {
	all := append(append([]corev1.ContainerStatus(nil), pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...)
	if c := scheduled(pod); c != nil && c.Status == corev1.ConditionFalse {
		return NotScheduled, fmt.Sprintf("the plugin's pod %s is not scheduled: %s", pod.Name, cut(c.Reason+": "+c.Message))
	}
	for _, c := range all {
		if c.Ready {
			continue
		}
		text, waiting := terminationMessage(c), c.State.Waiting
		switch {
		case waiting != nil && unpulled(waiting.Reason):
			return ImagePull, fmt.Sprintf("the image of the plugin's container %s cannot be pulled: %s%s", c.Name, waiting.Reason, messageSuffix(waiting.Message))
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing":
			// What the kubelet reports of a container is not what the plugin wrote.
			return classify(text), fmt.Sprintf("the plugin's container %s waits: %s%s", c.Name, waiting.Reason, messageSuffix(cmp.Or(text, waiting.Message)))
		case text != "":
			return classify(text), fmt.Sprintf("the plugin's container %s ended%s", c.Name, messageSuffix(text))
		}
	}
	return PluginFailing, fmt.Sprintf("the plugin's pod %s is not ready yet", pod.Name)
}

// crashed diagnoses a plugin that runs again after it crashed: it counts as ready
// until the next time. The reason is empty where it has not crashed.
func crashed(pod *corev1.Pod) (reason, message string) {
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.LastTerminationState.Terminated; t != nil && t.ExitCode != 0 {
			text := oneLine(t.Message)
			return classify(text), fmt.Sprintf("the plugin's container %s ended, and was started again%s", c.Name, messageSuffix(text))
		}
	}
	return "", ""
}

// unpulled reports whether a container waits for an image that cannot be pulled.
func unpulled(reason string) bool {
	return slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}, reason)
}

func scheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func terminationMessage(c corev1.ContainerStatus) string {
	for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
		if t != nil && t.ExitCode != 0 {
			return oneLine(t.Message)
		}
	}
	return ""
}

func messageSuffix(text string) string {
	if text = cut(text); text == "" {
		return ""
	}
	return ": " + text
}

// oneLine drops line breaks and what else is invisible.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
}

// cut keeps the end of a long text, where programs write what ended them.
func cut(text string) string {
	text = oneLine(text)
	if len(text) > maxMessage {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxMessage:], "")
	}
	return text
}

// classify reads the plugin's last log lines. They hold more than the error: the plugin
// prints its whole configuration at each start, so a name alone proves nothing. It has neither codes nor an exit status by
// which they differ.
func classify(text string) string {
	text = strings.ToLower(text)
	for _, known := range []struct{ reason, part string }{
		{NoDriver, "libnvidia-ml"},
		{NoDriver, "could not load nvml"},
		{NoDriver, "initialize nvml"},
		{NoDriver, "initializing nvml"}, // nvidia-mig-parted
		{NoDriver, "driver/library version mismatch"},
		{NoDriver, "driver not loaded"},
		{NoDriver, "no nvidia driver"},
		{NoDriver, "incompatible strategy detected"},
		{NoDriver, "invalid device discovery strategy"},
		{InvalidConfig, "finalize config"},
		{InvalidConfig, "unable to load config"},
		{InvalidConfig, "validate flags"},
		{InvalidConfig, "config file"},
		{InvalidConfig, "invalid config"},
		{InvalidConfig, "parsing config"},
		{InvalidConfig, "unmarshal"},
	} {
		if strings.Contains(text, known.part) {
			return known.reason
		}
	}
	return PluginFailing
}
