package reduce

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ShapeKey is where in memory all is of a pod by which pods of other shapes differ. Pods with the same are of one shape, as those
// are that [Pods] and [Identity.Of] made; pods of one shape that were made apart have another. As a key of a map it
// replaces working out the same of each of thousands of pods.
type ShapeKey struct {
	namespace           string
	labels, annotations uintptr
	owners              listAt[metav1.OwnerReference]
	deleted             *metav1.Time
	spec                podSpecKey
	status              podStatusKey
}

type podSpecKey struct {
	init, containers   listAt[corev1.Container]
	tolerations        listAt[corev1.Toleration]
	spread             listAt[corev1.TopologySpreadConstraint]
	gates              listAt[corev1.PodSchedulingGate]
	claims             listAt[corev1.PodResourceClaim]
	affinity           *corev1.Affinity
	priority           *int32
	resources          *corev1.ResourceRequirements
	selector, overhead uintptr
}

type podStatusKey struct {
	init, containers  listAt[corev1.ContainerStatus]
	conditions        listAt[corev1.PodCondition]
	claims            listAt[corev1.PodResourceClaimStatus]
	allocatableClaims listAt[corev1.NodeAllocatableResourceClaimStatus]
	resources         *corev1.ResourceRequirements
	phase             corev1.PodPhase
	nominated         string
	allocated         uintptr
}

// listAt is where a list is.
type listAt[T any] struct {
	first  *T
	length int
}

func listOf[T any](list []T) listAt[T] {
	if len(list) == 0 {
		return listAt[T]{}
	}
	return listAt[T]{&list[0], len(list)}
}

// ShapeKeyOf is the key of a pod's shape.
func ShapeKeyOf(pod *corev1.Pod) ShapeKey {
	spec, status := &pod.Spec, &pod.Status
	return ShapeKey{
		namespace: pod.Namespace, labels: at(pod.Labels), annotations: at(pod.Annotations), owners: listOf(pod.OwnerReferences), deleted: pod.DeletionTimestamp,
		spec: podSpecKey{
			init: listOf(spec.InitContainers), containers: listOf(spec.Containers), tolerations: listOf(spec.Tolerations),
			spread: listOf(spec.TopologySpreadConstraints), gates: listOf(spec.SchedulingGates), claims: listOf(spec.ResourceClaims),
			affinity: spec.Affinity, priority: spec.Priority, resources: spec.Resources, selector: at(spec.NodeSelector), overhead: at(spec.Overhead),
		},
		status: podStatusKey{
			init: listOf(status.InitContainerStatuses), containers: listOf(status.ContainerStatuses), conditions: listOf(status.Conditions),
			claims: listOf(status.ResourceClaimStatuses), allocatableClaims: listOf(status.NodeAllocatableResourceClaimStatuses),
			resources: status.Resources, phase: status.Phase, nominated: status.NominatedNodeName, allocated: at(status.AllocatedResources),
		},
	}
}

// at is where a map is.
func at[K comparable, V any](m map[K]V) uintptr { return reflect.ValueOf(m).Pointer() }
