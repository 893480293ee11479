// Package reduce drops from the pods and nodes of a cluster what no forecast reads: of
// ten kilobytes of a pod, less than one is left, and most of that is the same for all pods of
// a workload. What is kept is written out field by field; a test holds the lists against
// Kubernetes' types and Karpenter's code, so that an upgrade that reads more fails.
//
// It refuses to decide what a forecast does with the objects. Start reading at Split.
package reduce

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// podAnnotations are those of a pod that count.
var podAnnotations = []string{karpv1.DoNotDisruptAnnotationKey, corev1.PodDeletionCost, autoscalingv1beta1.FakePodAnnotationKey}

// Identity is what pods that are otherwise alike differ in.
type Identity struct {
	Name     string       `json:"name"`
	UID      types.UID    `json:"uid,omitempty"`
	NodeName string       `json:"node,omitempty"`
	Created  metav1.Time  `json:"created,omitzero"`
	Started  *metav1.Time `json:"started,omitempty"`
}

// Split divides a pod into what identifies it and the rest, of which only what a forecast
// reads is left: its shape, which other pods may have too. The shape shares its content with
// the pod, which is not changed.
func Split(pod *corev1.Pod) (Identity, *corev1.Pod) {
	id := Identity{Name: pod.Name, UID: pod.UID, NodeName: pod.Spec.NodeName, Created: pod.CreationTimestamp, Started: pod.Status.StartTime}
	return id, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Labels: pod.Labels, Annotations: only(pod.Annotations, podAnnotations),
			OwnerReferences: pod.OwnerReferences, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec: corev1.PodSpec{
			InitContainers: containers(pod.Spec.InitContainers), Containers: containers(pod.Spec.Containers),
			NodeSelector: pod.Spec.NodeSelector, Affinity: pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations,
			TopologySpreadConstraints: pod.Spec.TopologySpreadConstraints, SchedulingGates: pod.Spec.SchedulingGates,
			Priority: pod.Spec.Priority, Overhead: pod.Spec.Overhead, Resources: pod.Spec.Resources, ResourceClaims: pod.Spec.ResourceClaims,
		},
		Status: corev1.PodStatus{
			Phase: pod.Status.Phase, NominatedNodeName: pod.Status.NominatedNodeName, Conditions: conditions(pod.Status.Conditions),
			InitContainerStatuses: statuses(pod.Status.InitContainerStatuses), ContainerStatuses: statuses(pod.Status.ContainerStatuses),
			AllocatedResources: pod.Status.AllocatedResources, Resources: pod.Status.Resources,
			ResourceClaimStatuses: pod.Status.ResourceClaimStatuses, NodeAllocatableResourceClaimStatuses: pod.Status.NodeAllocatableResourceClaimStatuses,
		},
	}
}

// Of is the pod of that identity and shape. It shares its content with the shape.
func (i Identity) Of(shape *corev1.Pod) *corev1.Pod {
	out := *shape
	out.Name, out.UID, out.CreationTimestamp = i.Name, i.UID, i.Created
	out.Spec.NodeName, out.Status.StartTime = i.NodeName, i.Started
	return &out
}

// Pods reduces pods, of which those of one shape share it. The zero value is ready to use.
type Pods struct {
	shapes map[string]*corev1.Pod
}

// Pod is the pod with what a forecast reads of it. The given one is not changed; the result shares
// its content with it and with others, and must not be changed.
func (p *Pods) Pod(pod *corev1.Pod) (*corev1.Pod, error) {
	id, shape := Split(pod)
	key, err := shape.Marshal()
	if err != nil {
		return nil, err
	}
	known, ok := p.shapes[string(key)]
	if !ok {
		if p.shapes == nil {
			p.shapes = map[string]*corev1.Pod{}
		}
		known = shape
		p.shapes[string(key)] = known
	}
	return id.Of(known), nil
}

// Node is the Node with what a forecast reads of it. The given one is not changed; the result
// shares its content with it.
func Node(node *corev1.Node) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, Labels: node.Labels, Annotations: node.Annotations, OwnerReferences: node.OwnerReferences,
			CreationTimestamp: node.CreationTimestamp, DeletionTimestamp: node.DeletionTimestamp,
		},
		Spec:   corev1.NodeSpec{ProviderID: node.Spec.ProviderID, Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable},
		Status: corev1.NodeStatus{Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable, Conditions: node.Status.Conditions},
	}
}

// containers are what they request of a node, with the names by which their statuses are found.
func containers(list []corev1.Container) []corev1.Container {
	return each(list, func(c corev1.Container) corev1.Container {
		return corev1.Container{Name: c.Name, Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
	})
}

// statuses are what the node has allocated to containers.
func statuses(list []corev1.ContainerStatus) []corev1.ContainerStatus {
	return each(list, func(s corev1.ContainerStatus) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: s.Name, AllocatedResources: s.AllocatedResources, Resources: s.Resources}
	})
}

// conditions are without their times and messages, which make pods differ.
func conditions(list []corev1.PodCondition) []corev1.PodCondition {
	return each(list, func(c corev1.PodCondition) corev1.PodCondition {
		return corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason}
	})
}

// each is a list of what becomes of each; nil stays nil.
func each[T any](list []T, of func(T) T) []T {
	if list == nil {
		return nil
	}
	out := make([]T, 0, len(list))
	for _, one := range list {
		out = append(out, of(one))
	}
	return out
}

// only are the values of these keys; nil where there are none.
func only(all map[string]string, keys []string) map[string]string {
	var out map[string]string
	for _, key := range keys {
		value, ok := all[key]
		if !ok {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out
}
