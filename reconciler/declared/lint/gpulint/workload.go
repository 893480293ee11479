package gpulint

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/reconciler/state"
)

// workload is something that makes pods.
type workload struct {
	item state.Item
	// path is that of the pods' spec in the object.
	path string
	pod  corev1.PodSpec
	// atOnce is how many pods come at once.
	atOnce int
	// amounts are what the pods request of NVIDIA's resources, on where they can run.
	amounts []gpuRequest
	on      []compatiblePool
}

// controller is what matters of an object that makes pods: of any of the kinds.
type controller struct {
	Spec struct {
		Replicas            *int64    `json:"replicas"`
		Parallelism         *int64    `json:"parallelism"`
		Completions         *int64    `json:"completions"`
		PodManagementPolicy string    `json:"podManagementPolicy"`
		Template            podSpecOf `json:"template"`
		JobTemplate         struct {
			Spec struct {
				Parallelism *int64    `json:"parallelism"`
				Completions *int64    `json:"completions"`
				Template    podSpecOf `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

type podSpecOf struct {
	Spec corev1.PodSpec `json:"spec"`
}

func (r *repository) readWorkload(item state.Item) {
	w := workload{item: item, path: "spec.template.spec", atOnce: 1}
	if item.Key.Group+"/"+item.Key.Kind == "/Pod" {
		var pod podSpecOf
		if read(item.Object, &pod) {
			w.path, w.pod = "spec", pod.Spec
			r.workloads = append(r.workloads, w)
		}
		return
	}
	var o controller
	known := item.Key.Group + "/" + item.Key.Kind
	switch known {
	case "apps/Deployment", "apps/StatefulSet", "apps/ReplicaSet", "apps/DaemonSet", "/ReplicationController", "batch/Job", "batch/CronJob":
	default:
		return
	}
	if !read(item.Object, &o) {
		return
	}
	w.pod = o.Spec.Template.Spec
	switch known {
	case "batch/CronJob":
		job := o.Spec.JobTemplate.Spec
		w.path, w.pod, w.atOnce = "spec.jobTemplate.spec.template.spec", job.Template.Spec, parallel(job.Parallelism, job.Completions)
	case "batch/Job":
		w.atOnce = parallel(o.Spec.Parallelism, o.Spec.Completions)
	case "apps/DaemonSet": // Its pods bring no nodes.
	case "apps/StatefulSet":
		// Otherwise each pod waits for the one before.
		if o.Spec.PodManagementPolicy == "Parallel" {
			w.atOnce = bounded(o.Spec.Replicas)
		}
	default:
		w.atOnce = bounded(o.Spec.Replicas)
	}
	r.workloads = append(r.workloads, w)
}

func parallel(parallelism, completions *int64) int {
	if completions == nil {
		return bounded(parallelism)
	}
	return min(bounded(parallelism), bounded(completions))
}

// bounded is a number of pods; nil is one, and nobody's pods are counted beyond
// what one batch of the scheduler may hold.
func bounded(n *int64) int {
	const most = 10_000
	if n == nil {
		return 1
	}
	return int(max(0, min(*n, most)))
}

// gpuRequest is what one container requests of one resource.
type gpuRequest struct {
	// path is the field's.
	path     string
	resource string
	amount   int64
}

// gpuRequests lists what the containers request of NVIDIA's resources. The kubelet gives
// devices to each container by itself, so that they are not added up.
func (w workload) gpuRequests() []gpuRequest {
	var out []gpuRequest
	add := func(field string, containers []corev1.Container) {
		for i, c := range containers {
			where, list := "limits", c.Resources.Limits
			if len(list) == 0 {
				where, list = "requests", c.Resources.Requests
			}
			for _, name := range nvidia(list) {
				out = append(out, gpuRequest{
					path:     fmt.Sprintf("%s.%s[%d].resources.%s[%s]", w.path, field, i, where, name),
					resource: name, amount: amountOf(list, name),
				})
			}
		}
	}
	add("containers", w.pod.Containers)
	add("initContainers", w.pod.InitContainers)
	return out
}

// nvidia are the names of NVIDIA's resources that a list requests.
func nvidia(list corev1.ResourceList) []string {
	named := map[string]bool{}
	for name, q := range list {
		if isNVIDIA(string(name)) && q.Sign() > 0 {
			named[string(name)] = true
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// installs reports whether the repository runs an image with one of these in its
// name, or has somebody else install such a chart.
func (r *repository) installs(parts ...string) bool {
	has := func(text string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	for _, w := range r.workloads {
		if slices.ContainsFunc(slices.Concat(w.pod.InitContainers, w.pod.Containers), func(o corev1.Container) bool { return has(o.Image) }) {
			return true
		}
	}
	for _, item := range r.items {
		switch item.Key.Kind {
		case "ClusterPolicy", "NVIDIADriver":
			if item.Key.Group == "nvidia.com" {
				return true
			}
		case "HelmRelease", "HelmChart", "Application", "ApplicationSet":
			if raw, err := json.Marshal(item.Object["spec"]); err == nil && has(string(raw)) {
				return true
			}
		}
	}
	return false
}

// amountOf is the whole number of a resource in a container's list.
func amountOf(list corev1.ResourceList, name string) int64 {
	q := list[corev1.ResourceName(name)]
	return q.Value()
}

// requestOf is a request, which is the limit where only that is written.
func requestOf(requests, limits corev1.ResourceList, name corev1.ResourceName) float64 {
	q, ok := requests[name]
	if !ok {
		q = limits[name]
	}
	return q.AsApproximateFloat64()
}
