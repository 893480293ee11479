package snapshot

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/gpu/startuptaint"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// PendingPods are the pods that have no node and need one.
func (f *Indexed) PendingPods() []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range f.Pods {
		if pod.Spec.NodeName == "" && pod.Status.NominatedNodeName == "" && len(pod.Spec.SchedulingGates) == 0 && podutil.IsReschedulable(pod) {
			out = append(out, Unbound(pod))
		}
	}
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int { return workload.ComparePods(workload.NameOf(a), workload.NameOf(b)) })
	return out
}

// Unbound is the pod as one that waits. Its id is its name's, so that the pod can be
// found again on the other side.
func Unbound(pod *corev1.Pod) *corev1.Pod {
	out := WithoutVolumes(pod)
	out.UID = PodID(pod)
	out.Spec.NodeName = ""
	out.Status = corev1.PodStatus{Phase: corev1.PodPending}
	return out
}

// WithoutVolumes is a copy without volumes: where those are is not known here.
func WithoutVolumes(pod *corev1.Pod) *corev1.Pod {
	out := *pod
	out.Spec.Volumes = nil
	if out.UID == "" || out.Spec.NodeName != "" {
		out.UID = PodID(pod)
	}
	return &out
}

// PodID is the id of a pod that there is.
func PodID(pod *corev1.Pod) types.UID { return types.UID(pod.Namespace + "/" + pod.Name) }

func labelsOf(pod *corev1.Pod) labels.Set { return pod.Labels }

// RemovePods takes away the pods that end.
func (f *Indexed) RemovePods(ending map[provision.Pod]bool) {
	if len(ending) == 0 {
		return
	}
	stays := func(p *corev1.Pod) bool { return ending[workload.NameOf(p)] }
	f.Pods = slices.DeleteFunc(slices.Clone(f.Pods), stays)
	f.Bound = map[string][]*corev1.Pod{}
	for _, pod := range f.Pods {
		if pod.Spec.NodeName != "" {
			f.Bound[pod.Spec.NodeName] = append(f.Bound[pod.Spec.NodeName], pod)
		}
	}
}

// AsEngineReads is a copy of a Node as the engine's cache returns it to Karpenter, with the
// GPUs of the capacity annotation.
func AsEngineReads(node *corev1.Node) *corev1.Node {
	out := node.DeepCopy()
	startuptaint.WithRecordedCapacity(logr.Discard())(out)
	return out
}
