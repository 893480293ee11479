package snapshot

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	withoutVolumes(&out)
	return &out
}

func withoutVolumes(pod *corev1.Pod) {
	pod.Spec.Volumes = nil
	if pod.UID == "" || pod.Spec.NodeName != "" {
		pod.UID = PodID(pod)
	}
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
	f.setPods(slices.DeleteFunc(slices.Clone(f.Pods), stays))
	f.bind()
}

// setPods replaces the pods; Bound stays as it is.
func (f *Indexed) setPods(pods []*corev1.Pod) {
	f.Pods, f.labeled = pods, map[labelOf]map[string][]*corev1.Pod{}
}

// bind finds the pods by their nodes.
func (f *Indexed) bind() {
	f.Bound = map[string][]*corev1.Pod{}
	for _, pod := range f.Pods {
		if pod.Spec.NodeName != "" {
			f.Bound[pod.Spec.NodeName] = append(f.Bound[pod.Spec.NodeName], pod)
		}
	}
}

// labelOf is a label of the pods of a namespace; with no key it is the namespace alone.
type labelOf struct{ namespace, key string }

// listed are the pods among which are those of a list, in order: those of a node, or else those
// of the namespace with the label whose value the selector requires and the fewest have. The
// scheduler lists the pods of each workload that is spread, each time anew.
func (f *Indexed) listed(options *client.ListOptions) []*corev1.Pod {
	if name, ok := nodeOf(options); ok {
		return f.Bound[name]
	}
	if options.Namespace == "" {
		return f.Pods
	}
	least := f.byLabel(labelOf{namespace: options.Namespace})[""]
	if options.LabelSelector == nil {
		return least
	}
	requirements, _ := options.LabelSelector.Requirements()
	for _, r := range requirements {
		if values := r.ValuesUnsorted(); len(values) == 1 && (r.Operator() == selection.In || r.Operator() == selection.Equals || r.Operator() == selection.DoubleEquals) {
			if have := f.byLabel(labelOf{options.Namespace, r.Key()})[values[0]]; len(have) < len(least) {
				least = have
			}
		}
	}
	return least
}

// nodeOf is the node whose pods are listed; false where pods of all nodes are.
func nodeOf(options *client.ListOptions) (string, bool) {
	if options.FieldSelector == nil {
		return "", false
	}
	name, ok := options.FieldSelector.RequiresExactMatch("spec.nodeName")
	return name, ok && name != ""
}

// byLabel are the pods of a namespace by their value of a label.
func (f *Indexed) byLabel(of labelOf) map[string][]*corev1.Pod {
	if known, ok := f.labeled[of]; ok {
		return known
	}
	from := f.Pods
	if of.key != "" {
		from = f.byLabel(labelOf{namespace: of.namespace})[""]
	}
	out := map[string][]*corev1.Pod{}
	for _, pod := range from {
		value, ok := pod.Labels[of.key]
		if of.key == "" {
			value, ok = "", pod.Namespace == of.namespace
		}
		if ok {
			out[value] = append(out[value], pod)
		}
	}
	f.labeled[of] = out
	return out
}

// AsEngineReads is a copy of a Node as the engine's cache returns it to Karpenter, with the
// GPUs of the capacity annotation.
func AsEngineReads(node *corev1.Node) *corev1.Node {
	out := node.DeepCopy()
	startuptaint.WithRecordedCapacity(logr.Discard())(out)
	return out
}
