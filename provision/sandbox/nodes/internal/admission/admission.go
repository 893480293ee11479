// Package admission decides, as a kubelet does, whether a pod that is bound to a
// node may start there: first the device manager allocates what the containers request,
// then the node's allocatable must hold the pod beside the others.
//
// Like a kubelet it lets a pod pass that requests an extended resource which the node
// has never had, because that may be a resource of the cluster. Affinity and taints are
// left to the scheduler: the simulator receives labels and taints later than the pod,
// and would refuse good pods.
//
// Start reading at Check.
package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
)

// Device is a device-plugin resource as the kubelet's device manager has it.
type Device struct {
	Capacity      int  // devices ever registered and still counted
	Healthy       int  // 0 when the plugin is gone
	OnePerRequest bool // the plugin shares devices and refuses to give out two
}

// Node is a node as its own kubelet has it.
type Node struct {
	Allocatable corev1.ResourceList // without device-plugin resources
	Devices     map[corev1.ResourceName]Device
	Others      []*corev1.Pod // admitted before and not ended
}

// Rejection is the end of a pod that was not admitted.
type Rejection struct {
	Reason  string // as in the pod's status
	Message string
}

// Check returns nil when the node's kubelet admits the pod.
func Check(pod *corev1.Pod, node Node) *Rejection {
	if r := allocate(pod, node); r != nil {
		return r
	}
	return fit(pod, node)
}

// allocate has the device manager allocate for each container in turn.
func allocate(pod *corev1.Pod, node Node) *Rejection {
	for _, name := range slices.Sorted(maps.Keys(node.Devices)) {
		device := node.Devices[name]
		if device.Capacity == 0 {
			continue // the device manager has dropped it
		}
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			limit := c.Resources.Limits[name]
			if limit.Value() == 0 {
				continue
			}
			if device.Healthy == 0 {
				return unexpected("no healthy devices present; cannot allocate unhealthy devices %s", name)
			}
			if device.OnePerRequest && limit.Value() > 1 {
				return unexpected("rpc error: code = Unknown desc = invalid allocation request for %q: invalid request: maximum request size for shared resources is 1; found %d", name, limit.Value())
			}
		}
		requested := request(pod, name)
		if free := int64(device.Healthy) - used(node.Others, name); requested > 0 && requested > free {
			return unexpected("requested number of devices unavailable for %s. Requested: %d, Available: %d", name, requested, max(free, 0))
		}
	}
	return nil
}

func unexpected(format string, args ...any) *Rejection {
	return &Rejection{Reason: "UnexpectedAdmissionError",
		Message: "Pod was rejected: Allocate failed due to " + fmt.Sprintf(format, args...) + ", which is unexpected"}
}

// fit compares the pod's requests with what the others leave.
func fit(pod *corev1.Pod, node Node) *Rejection {
	if pods := node.Allocatable[corev1.ResourcePods]; int64(len(node.Others))+1 > pods.Value() {
		return outOf(corev1.ResourcePods, 1, int64(len(node.Others)), pods.Value())
	}
	requests := requests(pod)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		total, known := node.Allocatable[name]
		if device, ok := node.Devices[name]; ok {
			total.Set(int64(device.Healthy))
			known = true
		}
		if !known && extended(name) {
			continue
		}
		requested, taken, whole := request(pod, name), used(node.Others, name), amount(name, total)
		if requested > 0 && requested+taken > whole {
			return outOf(name, requested, taken, whole)
		}
	}
	return nil
}

func outOf(name corev1.ResourceName, requested, taken, whole int64) *Rejection {
	return &Rejection{Reason: "OutOf" + string(name),
		Message: fmt.Sprintf("Pod was rejected: Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, requested, taken, whole)}
}

// extended reports resources that only a plugin or the cluster provides.
func extended(name corev1.ResourceName) bool {
	domain, _, ok := strings.Cut(string(name), "/")
	return ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

func requests(pod *corev1.Pod) corev1.ResourceList {
	return resource.PodRequests(pod, resource.PodResourcesOptions{})
}

func request(pod *corev1.Pod, name corev1.ResourceName) int64 {
	return amount(name, requests(pod)[name])
}

func used(pods []*corev1.Pod, name corev1.ResourceName) int64 {
	sum := int64(0)
	for _, p := range pods {
		sum += request(p, name)
	}
	return sum
}

// amount is a quantity in the unit that kubelet compares: thousandths of a core,
// else whole units.
func amount(name corev1.ResourceName, q quantity.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}
