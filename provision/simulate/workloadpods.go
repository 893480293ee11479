package simulate

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/poolwright/poolwright/provision"
)

// workloadPods is a declared workload with the pods of it that there are.
type workloadPods struct {
	provision.Workload
	// live are on nodes first, then by name.
	live []*corev1.Pod
	// invalid is true when the API server would refuse its pods.
	invalid bool
}

// workloadRef names a workload: kind, namespace and name.
type workloadRef struct{ kind, namespace, name string }

func refOf(w provision.Workload) workloadRef { return workloadRef{w.Kind, w.Pod.Namespace, w.Pod.Name} }

// podsByWorkload finds the pods of each workload as the controllers do: by the owner that
// made them, and of those that nobody owns by the selector. Of two workloads of one
// name the last counts.
func podsByWorkload(workloads []provision.Workload, pods []*corev1.Pod) map[workloadRef]workloadPods {
	out := make(map[workloadRef]workloadPods, len(workloads))
	for _, w := range workloads {
		out[refOf(w)] = workloadPods{Workload: w}
	}
	var free []*corev1.Pod
	join := func(of workloadRef, pod *corev1.Pod) bool {
		c, ok := out[of]
		if ok && counts(of.kind, pod) {
			c.live = append(c.live, pod)
			out[of] = c
		}
		return ok
	}
	for _, pod := range pods {
		owner := metav1.GetControllerOf(pod)
		switch {
		case owner != nil:
			_ = slices.ContainsFunc(possibleOwners(pod, owner), func(of workloadRef) bool { return join(of, pod) })
		case !join(workloadRef{"Pod", pod.Namespace, pod.Name}, pod):
			free = append(free, pod)
		}
	}
	adopt(out, free)
	for _, c := range out {
		slices.SortStableFunc(c.live, func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(waits(a), waits(b)), comparePods(nameOf(a), nameOf(b)))
		})
	}
	return out
}

// possibleOwners are what may have had the pod made: what owns it, and what owns that by
// the way in which Kubernetes names things.
func possibleOwners(pod *corev1.Pod, owner *metav1.OwnerReference) []workloadRef {
	out := []workloadRef{{owner.Kind, pod.Namespace, owner.Name}}
	name, suffix := owner.Name, ""
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		name, suffix = name[:i], name[i+1:]
	}
	switch hash := pod.Labels["pod-template-hash"]; {
	case suffix == "":
	case owner.Kind == "ReplicaSet" && (hash == suffix || hash == ""):
		out = append(out, workloadRef{"Deployment", pod.Namespace, name})
	case owner.Kind == "Job" && strings.Trim(suffix, "0123456789") == "":
		out = append(out, workloadRef{"CronJob", pod.Namespace, name})
	}
	return out
}

// counts reports whether a pod is one that its workload need not make any more.
func counts(kind string, pod *corev1.Pod) bool {
	if kind == "Job" || kind == "Pod" {
		return pod.DeletionTimestamp.IsZero() && (kind == "Pod" || pod.Status.Phase != corev1.PodFailed)
	}
	return podutil.IsActive(pod)
}

// adopt gives pods without an owner to the workloads that select them.
func adopt(all map[workloadRef]workloadPods, free []*corev1.Pod) {
	if len(free) == 0 {
		return
	}
	for of, c := range all {
		selector, err := metav1.LabelSelectorAsSelector(c.Selector)
		if err != nil || selector.Empty() {
			continue
		}
		for _, pod := range free {
			if pod.Namespace == of.namespace && selector.Matches(labels.Set(pod.Labels)) && counts(of.kind, pod) {
				c.live = append(c.live, pod)
			}
		}
		all[of] = c
	}
}

func waits(pod *corev1.Pod) int {
	if pod.Spec.NodeName == "" {
		return 1
	}
	return 0
}

// wanted is how many pods there are to be at a time.
func (c workloadPods) wanted() int {
	switch {
	case c.Replicas == nil:
		return max(1, len(c.live))
	case *c.Replicas <= 0:
		return len(c.live)
	default:
		return int(*c.Replicas)
	}
}

// sleeping finds the workloads that something has put to sleep: they declare no
// number, and in the cluster, which is known, they have no pod.
func sleeping(was, is map[workloadRef]workloadPods) {
	for of, c := range was {
		if c.Replicas != nil || len(c.live) > 0 {
			continue
		}
		c.Replicas = new(int32)
		was[of] = c
		if now, ok := is[of]; ok && now.Replicas == nil {
			now.Replicas = c.Replicas
			is[of] = now
		}
	}
}

// later reports whether nothing asks for a pod now.
func (c workloadPods) later() bool { return c.wanted() == 0 }

// sorted returns the workloads in order.
func sorted(all map[workloadRef]workloadPods) []workloadRef {
	out := make([]workloadRef, 0, len(all))
	for of := range all {
		out = append(out, of)
	}
	slices.SortFunc(out, func(a, b workloadRef) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name), strings.Compare(a.kind, b.kind))
	})
	return out
}
