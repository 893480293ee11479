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

// crew is a declared workload with the pods of it that there are.
type crew struct {
	provision.Workload
	// live are on nodes first, then by name.
	live []*corev1.Pod
	// odd is true when the API server would refuse its pods.
	odd bool
}

// maker names a workload: kind, namespace and name.
type maker struct{ kind, namespace, name string }

func makerOf(w provision.Workload) maker { return maker{w.Kind, w.Pod.Namespace, w.Pod.Name} }

// crews finds the pods of each workload as the controllers do: by the owner that
// made them, and of those that nobody owns by the selector. Of two workloads of one
// name the last counts.
func crews(workloads []provision.Workload, pods []*corev1.Pod) map[maker]crew {
	out := make(map[maker]crew, len(workloads))
	for _, w := range workloads {
		out[makerOf(w)] = crew{Workload: w}
	}
	var free []*corev1.Pod
	join := func(of maker, pod *corev1.Pod) bool {
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
			_ = slices.ContainsFunc(makers(pod, owner), func(of maker) bool { return join(of, pod) })
		case !join(maker{"Pod", pod.Namespace, pod.Name}, pod):
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

// makers are what may have had the pod made: what owns it, and what owns that by
// the way in which Kubernetes names things.
func makers(pod *corev1.Pod, owner *metav1.OwnerReference) []maker {
	out := []maker{{owner.Kind, pod.Namespace, owner.Name}}
	name, suffix := owner.Name, ""
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		name, suffix = name[:i], name[i+1:]
	}
	switch hash := pod.Labels["pod-template-hash"]; {
	case suffix == "":
	case owner.Kind == "ReplicaSet" && (hash == suffix || hash == ""):
		out = append(out, maker{"Deployment", pod.Namespace, name})
	case owner.Kind == "Job" && strings.Trim(suffix, "0123456789") == "":
		out = append(out, maker{"CronJob", pod.Namespace, name})
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
func adopt(all map[maker]crew, free []*corev1.Pod) {
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
func (c crew) wanted() int {
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
func sleeping(was, is map[maker]crew) {
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
func (c crew) later() bool { return c.wanted() == 0 }

// sorted are the makers in order.
func sorted(all map[maker]crew) []maker {
	out := make([]maker, 0, len(all))
	for of := range all {
		out = append(out, of)
	}
	slices.SortFunc(out, func(a, b maker) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name), strings.Compare(a.kind, b.kind))
	})
	return out
}
