package simulate

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/placement"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
	"github.com/poolwright/poolwright/provision/simulate/reduce"
)

// mostPods are placed one by one; of more, one of each shape.
const mostPods = 200

// pendingPod is a pod without a node, alone or for others of its shape.
type pendingPod struct {
	// pod has an id by which it is found again.
	pod *corev1.Pod
	// more counts the others, like are those of them that there are, as they are there.
	more int
	like []*corev1.Pod
	// kind is that of the workload for a pod that is only declared.
	kind string
	// later is a pod that nothing requests now.
	later bool
	// prior is its id before the change, none for a pod that is new; runs is true where it
	// had a node then.
	prior types.UID
	runs  bool
}

// queue is the pods that need a node at one moment. Those for later are each tried
// without the others.
type queue struct {
	now, later []pendingPod
}

// mostAlone is how many shapes of pods for later are tried alone.
const mostAlone = 10

// queues are those of before and after: pods that wait, and pods that are declared
// and not there yet. Few are listed one by one, of many one of each shape, on both
// sides alike.
func (c *comparison) queues(was, is map[workload.Ref]workload.Pods) (before, after queue) {
	waiting, waitingAfter := c.before.PendingPods(), c.after.PendingPods()
	whole := len(waiting)+missing(was, was) > mostPods || len(waitingAfter)+missing(is, was) > mostPods
	if whole {
		c.unknown.Add(codeTooManyPods, "", "%s", manyPods())
		before.now, after.now = shapes(waiting), shapes(waitingAfter)
	} else {
		before.now, after.now = each(waiting), each(waitingAfter)
	}
	before.add(was, was, whole)
	after.add(is, was, whole)
	return before, after
}

// missing is how many pods the workloads have made, those that change anew.
func missing(all, was map[workload.Ref]workload.Pods) int {
	n := 0
	for of, c := range all {
		n += max(0, c.Desired()-keptPods(c, was[of]))
	}
	return n
}

// add adds the pods that workloads lack; was is what they were before the change.
func (q *queue) add(all, was map[workload.Ref]workload.Pods, whole bool) {
	for _, of := range workload.Sorted(all) {
		c, old := all[of], was[of]
		if c.Invalid || c.Pod.Spec.NodeName != "" || len(c.Pod.Spec.SchedulingGates) > 0 {
			continue
		}
		if c.ScaledToZero() {
			q.later = append(q.later, newPendingPod(c, of, 0, 1, podID(of, 0)))
			continue
		}
		known := 0 // before the change, so many were requested
		if old.Pod != nil {
			known = old.Desired()
		}
		from, to := keptPods(c, old), c.Desired()
		for from < to {
			next := from + 1
			if whole {
				next = reach(from, to, len(c.Live), known)
			}
			s := newPendingPod(c, of, from, next, "")
			switch {
			case from < len(c.Live):
				s.runs, s.prior = c.Live[from].Spec.NodeName != "", snapshot.PodID(c.Live[from])
			case from < known:
				s.prior = podID(of, from)
			}
			q.now, from = append(q.now, s), next
		}
	}
}

// reach is up to where pods that are not tried one by one have the same past.
func reach(from, to int, cuts ...int) int {
	for _, cut := range cuts {
		if from < cut {
			to = min(to, cut)
		}
	}
	return to
}

// podID is that of a workload's pod by its number.
func podID(of workload.Ref, number int) types.UID {
	return types.UID(fmt.Sprintf("%s %s/%s#%d", of.Kind, of.Namespace, of.Name, number))
}

// newPendingPod is the pod of a number of a workload, for those up to another one.
func newPendingPod(c workload.Pods, of workload.Ref, from, to int, prior types.UID) pendingPod {
	pod := *c.Pod
	pod.UID = podID(of, from)
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	return pendingPod{pod: &pod, more: to - from - 1, kind: of.Kind, later: c.ScaledToZero(), prior: prior}
}

// keptPods is how many of the pods that there are stay as they are: none of a workload
// that requires something else of nodes than before.
func keptPods(c, was workload.Pods) int {
	if was.Pod != nil && !was.Invalid && !c.Invalid && placement.Shape(was.Pod) != placement.Shape(c.Pod) {
		return 0
	}
	return len(c.Live)
}

// ending are the pods that the change ends: those of workloads that it takes away, or
// that require something else of nodes and so have new ones made.
func ending(was, is map[workload.Ref]workload.Pods) map[provision.Pod]bool {
	out := map[provision.Pod]bool{}
	for of, old := range was {
		if c, there := is[of]; there && keptPods(c, old) == len(c.Live) {
			continue
		}
		for _, pod := range old.Live {
			out[workload.NameOf(pod)] = true
		}
	}
	return out
}

// each are pods one by one.
func each(pods []*corev1.Pod) []pendingPod {
	out := make([]pendingPod, 0, len(pods))
	for _, pod := range pods {
		out = append(out, unbound(pod))
	}
	return out
}

// shapes are pods by their shape.
func shapes(pods []*corev1.Pod) []pendingPod {
	var out []pendingPod
	at, byKey := map[string]int{}, map[reduce.ShapeKey]int{}
	for _, pod := range pods {
		i, known := byKey[reduce.ShapeKeyOf(pod)]
		if !known {
			shape := placement.Shape(pod)
			if i, known = at[shape]; !known {
				i = len(out)
				at[shape] = i
			}
			byKey[reduce.ShapeKeyOf(pod)] = i
		}
		if i == len(out) {
			out = append(out, unbound(pod))
			continue
		}
		out[i].like = append(out[i].like, pod)
		out[i].more++
	}
	return out
}

func unbound(pod *corev1.Pod) pendingPod {
	return pendingPod{pod: snapshot.Unbound(pod), prior: snapshot.PodID(pod)}
}

// alike takes few pods one by one and of many one of each shape.
func (c *comparison) alike(pods []*corev1.Pod) []pendingPod {
	if len(pods) <= mostPods {
		return each(pods)
	}
	c.unknown.Add(codeTooManyPods, "", "%s", manyPods())
	return shapes(pods)
}

func manyPods() string {
	return fmt.Sprintf("More than %d pods are pending: one of each shape was tried, so that whether there is room for all of them is not known.", mostPods)
}

// warnPods warns of what of the pods is not considered.
func (c *comparison) warnPods(pending []pendingPod) {
	for _, s := range pending {
		if slices.ContainsFunc(workload.AffinityTerms(s.pod), func(t corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil }) {
			c.unknown.Add(codeNamespaceLabelsUnknown, "", "Some pods choose others by the labels of namespaces, which are not known here: they may fit otherwise.")
		}
	}
}

// warnClaims warns of pods that are left out.
func (c *comparison) warnClaims(pending []pendingPod) {
	if slices.ContainsFunc(pending, func(s pendingPod) bool { return claimsDevices(s.pod) }) {
		c.unknown.Add(codeResourceClaimsUnplaced, "", "Some pods claim devices with resourceClaims (DRA), which the forecast does not allocate: whether they find a node, and which nodes come for them at which cost, is left out.")
	}
}

// claimsDevices reports whether a pod claims devices. Karpenter's scheduler would have to allocate them, of nodes that there
// are and of those that it launches.
func claimsDevices(pod *corev1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 }

// place finds nodes for the pods, and for each like one of them what it finds. Those that claim devices are left out.
func (c *comparison) place(ctx context.Context, f *placement.Simulation, pending []pendingPod, gone map[string]bool) (map[types.UID]placement.Outcome, error) {
	pods := make([]*corev1.Pod, 0, len(pending))
	for _, s := range pending {
		if !claimsDevices(s.pod) {
			pods = append(pods, s.pod)
		}
	}
	out, err := f.Place(ctx, pods, gone)
	if err != nil {
		return nil, err
	}
	for _, s := range pending {
		for _, pod := range s.like {
			out[snapshot.PodID(pod)] = out[s.pod.UID]
		}
	}
	return out, nil
}

// placeAll finds nodes for a queue, and for each of those for later as if it were
// alone.
func (c *comparison) placeAll(ctx context.Context, f *placement.Simulation, q queue, gone map[string]bool) (map[types.UID]placement.Outcome, error) {
	out, err := c.place(ctx, f, q.now, gone)
	if err != nil {
		return nil, err
	}
	// What fits beside the others fits alone.
	together, err := c.place(ctx, f, q.later, gone)
	if err != nil {
		return nil, err
	}
	alone := map[string]placement.Outcome{}
	for _, s := range q.later {
		gets := together[s.pod.UID]
		if gets.Reason != "" && len(q.later) > 1 {
			key := placement.Shape(s.pod)
			if _, tried := alone[key]; !tried && len(alone) < mostAlone {
				one, err := c.place(ctx, f, []pendingPod{s}, gone)
				if err != nil {
					return nil, err
				}
				alone[key] = one[s.pod.UID]
			}
			if known, ok := alone[key]; ok {
				gets = known
			} else {
				c.unknown.Add(codeTooManyPodKinds, "", "More than %d kinds of pods that nothing requests yet find no node when all come at once: whether each would alone was tried for %d.", mostAlone, mostAlone)
			}
		}
		out[s.pod.UID] = gets
	}
	return out, nil
}
