package workload

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

// Pods is a declared workload with the pods of it that there are.
type Pods struct {
	provision.Workload
	// Live are on nodes first, then by name.
	Live []*corev1.Pod
	// Invalid is true when the API server would refuse its pods.
	Invalid bool
}

// Ref names a workload: kind, namespace and name.
type Ref struct{ Kind, Namespace, Name string }

func refOf(w provision.Workload) Ref { return Ref{w.Kind, w.Pod.Namespace, w.Pod.Name} }

// PodsByWorkload finds the pods of each workload as the controllers do: by the owner that
// made them, and of those that nobody owns by the selector. Of two workloads of one
// name the last counts.
func PodsByWorkload(workloads []provision.Workload, pods []*corev1.Pod) map[Ref]Pods {
	out := make(map[Ref]Pods, len(workloads))
	for _, w := range workloads {
		out[refOf(w)] = Pods{Workload: w}
	}
	var free []*corev1.Pod
	join := func(of Ref, pod *corev1.Pod) bool {
		c, ok := out[of]
		if ok && counts(of.Kind, pod) {
			c.Live = append(c.Live, pod)
			out[of] = c
		}
		return ok
	}
	for _, pod := range pods {
		owner := metav1.GetControllerOf(pod)
		switch {
		case owner != nil:
			_ = slices.ContainsFunc(possibleOwners(pod, owner), func(of Ref) bool { return join(of, pod) })
		case !join(Ref{"Pod", pod.Namespace, pod.Name}, pod):
			free = append(free, pod)
		}
	}
	adopt(out, free)
	for _, c := range out {
		slices.SortStableFunc(c.Live, func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(waits(a), waits(b)), ComparePods(NameOf(a), NameOf(b)))
		})
	}
	return out
}

// possibleOwners are what may have had the pod made: what owns it, and what owns that by
// the way in which Kubernetes names things.
func possibleOwners(pod *corev1.Pod, owner *metav1.OwnerReference) []Ref {
	out := []Ref{{owner.Kind, pod.Namespace, owner.Name}}
	name, suffix := owner.Name, ""
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		name, suffix = name[:i], name[i+1:]
	}
	switch hash := pod.Labels["pod-template-hash"]; {
	case suffix == "":
	case owner.Kind == "ReplicaSet" && (hash == suffix || hash == ""):
		out = append(out, Ref{"Deployment", pod.Namespace, name})
	case owner.Kind == "Job" && strings.Trim(suffix, "0123456789") == "":
		out = append(out, Ref{"CronJob", pod.Namespace, name})
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
func adopt(all map[Ref]Pods, free []*corev1.Pod) {
	if len(free) == 0 {
		return
	}
	for of, c := range all {
		selector, err := metav1.LabelSelectorAsSelector(c.Selector)
		if err != nil || selector.Empty() {
			continue
		}
		for _, pod := range free {
			if pod.Namespace == of.Namespace && selector.Matches(labels.Set(pod.Labels)) && counts(of.Kind, pod) {
				c.Live = append(c.Live, pod)
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

// Desired is how many pods there are to be at a time: the declared replicas, or as many as
// are there where something else scales them.
func (c Pods) Desired() int {
	switch {
	case c.Replicas == nil:
		return max(1, len(c.Live))
	case *c.Replicas <= 0:
		return len(c.Live)
	default:
		return int(*c.Replicas)
	}
}

// ScaleToZero gives zero replicas to the workloads that something has scaled to zero: they
// declare no number, and in the cluster, which is known, they have no pod.
func ScaleToZero(was, is map[Ref]Pods) {
	for of, c := range was {
		if c.Replicas != nil || len(c.Live) > 0 {
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

// ScaledToZero reports whether the workload has zero replicas now.
func (c Pods) ScaledToZero() bool { return c.Desired() == 0 }

// Sorted are the workloads by namespace, name and kind.
func Sorted(all map[Ref]Pods) []Ref {
	out := make([]Ref, 0, len(all))
	for of := range all {
		out = append(out, of)
	}
	slices.SortFunc(out, func(a, b Ref) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	return out
}

// NameOf is the pod's namespace and name.
func NameOf(pod *corev1.Pod) provision.Pod {
	return provision.Pod{Namespace: pod.Namespace, Name: pod.Name}
}

// ComparePods orders by namespace, then by name.
func ComparePods(a, b provision.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
