package objects

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/simulate/reduce"
)

// reduced is an object with what reports and explanations read of it. Of ten kilobytes of a pod less than one is left, and nothing of its
// environment: a cluster has 150,000 pods.
func reduced(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		return reducedPod(o), nil
	case *corev1.Node:
		o.ManagedFields, o.Status.Images = nil, nil
	case client.Object:
		o.SetManagedFields(nil)
	}
	return object, nil
}

// reducedPod is a pod with what forecasts read of it, and what an explanation reads besides: its scheduler, and the volumes by which it is
// bound to a zone.
func reducedPod(pod *corev1.Pod) *corev1.Pod {
	id, shape := reduce.Split(pod)
	out := id.Of(shape)
	out.ResourceVersion = pod.ResourceVersion
	out.Spec.SchedulerName = pod.Spec.SchedulerName
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			out.Spec.Volumes = append(out.Spec.Volumes, v)
		}
	}
	return out
}
