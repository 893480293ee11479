// Package workload has the pods of declared workloads: those that a controller makes, as the
// API server of EKS completes them, those that exist, and how many there are to be.
package workload

import (
	"encoding/json"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision"
)

// Add adds a declared object that has pods to the snapshot's Workloads, by its kind as
// group/version/Kind; other kinds are passed over. An error is one of [Decode].
func Add(snapshot *provision.ClusterSnapshot, kind string, object map[string]any) error {
	var w provision.Workload
	var err error
	switch kind {
	case "apps/v1/Deployment":
		var o appsv1.Deployment
		err = Decode(object, &o)
		w = workload("ReplicaSet", o.ObjectMeta, o.Spec.Template)
		w.Kind, w.Replicas, w.Selector = "Deployment", o.Spec.Replicas, o.Spec.Selector
	case "apps/v1/ReplicaSet":
		var o appsv1.ReplicaSet
		err = Decode(object, &o)
		w = workload("ReplicaSet", o.ObjectMeta, o.Spec.Template)
		w.Replicas, w.Selector = o.Spec.Replicas, o.Spec.Selector
	case "apps/v1/StatefulSet":
		var o appsv1.StatefulSet
		err = Decode(object, &o)
		w = workload("StatefulSet", o.ObjectMeta, o.Spec.Template)
		w.Replicas, w.Selector = o.Spec.Replicas, o.Spec.Selector
	case "batch/v1/Job":
		var o batchv1.Job
		err = Decode(object, &o)
		w = workload("Job", o.ObjectMeta, o.Spec.Template)
		w.Replicas = Parallelism(o.Spec)
	case "batch/v1/CronJob":
		var o batchv1.CronJob
		err = Decode(object, &o)
		w = workload("Job", o.ObjectMeta, o.Spec.JobTemplate.Spec.Template)
		w.Kind, w.Replicas = "CronJob", new(int32)
	case "v1/Pod":
		var o corev1.Pod
		err = Decode(object, &o)
		w = workload("Pod", o.ObjectMeta, corev1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec})
	default:
		return nil
	}
	if err != nil {
		return err
	}
	snapshot.Workloads = append(snapshot.Workloads, w)
	return nil
}

// workload is that of an object whose pods an owner of the given kind makes.
func workload(owner string, meta metav1.ObjectMeta, template corev1.PodTemplateSpec) provision.Workload {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, Labels: template.Labels, Annotations: template.Annotations,
	}, Spec: *template.Spec.DeepCopy()}
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	if owner != "Pod" {
		// Karpenter treats a pod that nobody makes anew in another way.
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: meta.Name, Controller: &yes}}
	}
	admit(&pod.Spec)
	return provision.Workload{Kind: owner, Pod: pod}
}

// Parallelism is how many pods a Job has at a time.
func Parallelism(job batchv1.JobSpec) *int32 {
	n := int32(1)
	if job.Parallelism != nil {
		n = *job.Parallelism
	}
	if job.Completions != nil {
		n = min(n, *job.Completions)
	}
	if job.Suspend != nil && *job.Suspend {
		n = 0
	}
	return &n
}

// admit fills in what the API server of EKS does for every new pod, as far as it
// decides about nodes: its defaults, and the tolerations of its admission plugin
// ExtendedResourceToleration.
func admit(spec *corev1.PodSpec) {
	spec.Volumes = nil // where they are is not known here
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			defaultRequestsToLimits(&containers[i].Resources)
			openPorts(containers[i].Ports, spec.HostNetwork)
			for _, name := range SortedNames(containers[i].Resources.Requests) {
				if IsExtendedResource(name) {
					Tolerate(spec, corev1.Toleration{Key: string(name), Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
				}
			}
		}
	}
	if spec.Resources != nil {
		for name, quantity := range spec.Resources.Limits {
			if !Requested(spec.Containers, name) {
				setRequest(spec.Resources, name, quantity)
			}
		}
	}
}

// defaultRequestsToLimits requests what is limited and not requested, as for GPUs, of which
// only the limit is usually written.
func defaultRequestsToLimits(resources *corev1.ResourceRequirements) {
	for name, quantity := range resources.Limits {
		setRequest(resources, name, quantity)
	}
}

func setRequest(resources *corev1.ResourceRequirements, name corev1.ResourceName, quantity resource.Quantity) {
	if _, ok := resources.Requests[name]; ok {
		return
	}
	if resources.Requests == nil {
		resources.Requests = corev1.ResourceList{}
	}
	resources.Requests[name] = quantity
}

// Requested reports whether one of the containers requests the resource.
func Requested(containers []corev1.Container, name corev1.ResourceName) bool {
	for _, c := range containers {
		if _, ok := c.Resources.Requests[name]; ok {
			return true
		}
	}
	return false
}

func openPorts(ports []corev1.ContainerPort, ofHost bool) {
	for i := range ports {
		if ports[i].Protocol == "" {
			ports[i].Protocol = corev1.ProtocolTCP
		}
		if ofHost && ports[i].HostPort == 0 {
			ports[i].HostPort = ports[i].ContainerPort
		}
	}
}

// IsExtendedResource reports whether a resource is none of Kubernetes' own.
func IsExtendedResource(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
}

// Tolerate adds a toleration unless another one covers it.
func Tolerate(spec *corev1.PodSpec, desired corev1.Toleration) {
	for _, have := range spec.Tolerations {
		if have.MatchToleration(&desired) {
			return
		}
	}
	spec.Tolerations = append(spec.Tolerations, desired)
}

// WithRuntimeClass is the pod with what its runtime class adds.
func WithRuntimeClass(pod *corev1.Pod, class *nodev1.RuntimeClass) *corev1.Pod {
	out := pod.DeepCopy()
	if class.Overhead != nil {
		out.Spec.Overhead = class.Overhead.PodFixed
	}
	if class.Scheduling == nil {
		return out
	}
	for key, value := range class.Scheduling.NodeSelector {
		if out.Spec.NodeSelector == nil {
			out.Spec.NodeSelector = map[string]string{}
		}
		out.Spec.NodeSelector[key] = value
	}
	for _, t := range class.Scheduling.Tolerations {
		Tolerate(&out.Spec, t)
	}
	return out
}

// Decode converts through JSON, since some of Karpenter's types read only that. An
// object without metadata.name is an error.
func Decode(object map[string]any, into any) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return err
	}
	if name, ok := object["metadata"].(map[string]any); !ok || name["name"] == nil {
		return errors.New("it has no metadata.name")
	}
	return nil
}
