package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// mostPods are placed one by one; of more, one of each shape.
const mostPods = 200

// fit tells which pods find a node, before and after.
func (c *comparison) fit(ctx context.Context) error {
	c.found = provision.Fit{Scheduled: []provision.Placement{}, Unscheduled: []provision.Placement{}, Pending: []provision.Placement{}}
	was, is := c.before.podsByWorkload(c.before.Pods, c.unknown), c.after.podsByWorkload(c.before.Pods, c.unknown)
	if len(c.before.Nodes) > 0 {
		workload.ScaleToZero(was, is)
	}
	ending := ending(was, is)
	c.after.lose(ending)
	c.release(ending)
	gone, movers, uncontrolled := c.leaving(ending)
	if err := c.blockUncontrolled(ctx, movers, uncontrolled, gone); err != nil {
		return err
	}
	before, after := c.queues(was, is)
	moving := c.alike(movers)
	if err := c.alreadyLeaving(ctx, before.now, slices.Concat(after.now, moving), gone, ending); err != nil {
		return err
	}
	if err := c.schedulePending(ctx, before, after, moving, gone); err != nil {
		return err
	}
	for _, list := range [][]provision.Placement{c.found.Scheduled, c.found.Unscheduled, c.found.Pending} {
		slices.SortStableFunc(list, func(a, b provision.Placement) int {
			return cmp.Or(workload.ComparePods(a.Pod, b.Pod), strings.Compare(a.Workload, b.Workload), strings.Compare(a.Pool, b.Pool))
		})
	}
	return nil
}

// schedulePending finds nodes for the queues, and for those whose nodes the step takes.
func (c *comparison) schedulePending(ctx context.Context, before, after queue, moving []pendingPod, gone map[string]bool) error {
	c.warnZones(slices.Concat(after.now, after.later, moving))
	if len(after.now)+len(after.later)+len(moving) == 0 {
		return nil
	}
	c.warnPods(append(slices.Clone(after.now), moving...))
	then, err := c.placeAll(ctx, c.before, before, nil)
	if err != nil {
		return err
	}
	after.now, moving = slices.Clip(after.now), slices.Clip(moving)
	now, err := c.placeAll(ctx, c.after, queue{now: append(after.now, moving...), later: after.later}, gone)
	if err != nil {
		return err
	}
	c.recordUnschedulable(slices.Concat(after.now, after.later), then, now)
	c.recordStuck(moving, now)
	c.warnNodes()
	return nil
}

// recordUnschedulable records the pending pods whose outcome the step changes.
func (c *comparison) recordUnschedulable(pending []pendingPod, then, now map[types.UID]outcome) {
	type change struct {
		list *[]provision.Placement
		provision.Placement
	}
	known := map[change]int{}
	for _, s := range pending {
		had, there := then[s.prior]
		found, gets := s.runs || there && had.why == "", now[s.pod.UID]
		list := &c.found.Pending
		switch {
		case gets.why == "" && found:
			continue
		case gets.why == "":
			list = &c.found.Scheduled
		case found:
			list = &c.found.Unscheduled
		}
		p := provision.Placement{Pod: workload.NameOf(s.pod), Workload: s.kind, New: !s.runs && !there, Inactive: s.later, Pool: gets.pool}
		same := change{list, p}
		if i, ok := known[same]; ok && s.kind != "" {
			(*list)[i].Similar += 1 + s.more
			continue
		}
		known[same] = len(*list)
		p.Similar, p.Reason = s.more, gets.why
		*list = append(*list, p)
	}
}

// recordStuck records the pods that lose their node and find no other.
func (c *comparison) recordStuck(moving []pendingPod, now map[types.UID]outcome) {
	stuck := map[provision.Pod]bool{} // false for those that find one
	for _, s := range moving {
		gets := now[s.pod.UID]
		for _, pod := range append([]*corev1.Pod{s.pod}, s.like...) {
			stuck[workload.NameOf(pod)] = gets.why != ""
		}
		if gets.why != "" {
			c.found.Unscheduled = append(c.found.Unscheduled, provision.Placement{Pod: workload.NameOf(s.pod), Similar: s.more, Reason: gets.why})
		}
	}
	keep(c.replaced, stuck)
	for i, removal := range c.removed {
		for _, node := range removal.Nodes {
			for _, pod := range node.Pods {
				pod.Unowned = false
				switch lost, sought := stuck[pod]; {
				case lost:
					c.removed[i].Unschedulable++
				case sought && !keptFor(node, pod):
					c.removed[i].Rescheduled++
				}
			}
		}
	}
}

// waiting are the pods that have no node and want one.
func (f *fleet) waiting() []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range f.Pods {
		if pod.Spec.NodeName == "" && pod.Status.NominatedNodeName == "" && len(pod.Spec.SchedulingGates) == 0 && podutil.IsReschedulable(pod) {
			out = append(out, loose(pod))
		}
	}
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int { return workload.ComparePods(workload.NameOf(a), workload.NameOf(b)) })
	return out
}

// loose is the pod as one that waits. Its id is its name's, so that the pod can be
// found again on the other side.
func loose(pod *corev1.Pod) *corev1.Pod {
	out := bare(pod)
	out.UID = idOf(pod)
	out.Spec.NodeName = ""
	out.Status = corev1.PodStatus{Phase: corev1.PodPending}
	return out
}

// bare is a copy without volumes: where those are is not known here.
func bare(pod *corev1.Pod) *corev1.Pod {
	out := *pod
	out.Spec.Volumes = nil
	if out.UID == "" || out.Spec.NodeName != "" {
		out.UID = idOf(pod)
	}
	return &out
}

// idOf is the id of a pod that there is.
func idOf(pod *corev1.Pod) types.UID { return types.UID(pod.Namespace + "/" + pod.Name) }

func labelsOf(pod *corev1.Pod) labels.Set { return pod.Labels }

// shape is what of a pod the scheduler looks at.
func shape(pod *corev1.Pod) string {
	type container struct {
		Resources corev1.ResourceRequirements
		Ports     []corev1.ContainerPort
		Restart   *corev1.ContainerRestartPolicy
	}
	var containers []container
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, one := range list {
			containers = append(containers, container{one.Resources, one.Ports, one.RestartPolicy})
		}
		containers = append(containers, container{})
	}
	// These are plain values of the API, which always marshal.
	text, _ := json.Marshal([]any{
		pod.Namespace, pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations, pod.Spec.TopologySpreadConstraints,
		pod.Spec.Overhead, pod.Spec.Resources, pod.Spec.ResourceClaims, containers,
	})
	return string(text)
}

// warnPods warns of what of the pods is not considered.
func (c *comparison) warnPods(pending []pendingPod) {
	for _, s := range pending {
		if slices.ContainsFunc(workload.AffinityTerms(s.pod), func(t corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil }) {
			c.unknown.add("Some pods choose others by the labels of namespaces, which are not known here: they may fit otherwise.")
		}
	}
}

// warnNodes warns where only pools could take the pods.
func (c *comparison) warnNodes() {
	if len(c.before.Nodes) == 0 && len(c.found.Pending)+len(c.found.Unscheduled) > 0 {
		c.unknown.add("No node is known here: pods for which no pool has a node may have one that Karpenter did not make.")
	}
}

// why cuts a reason to what a person reads.
func why(reason string) string {
	text := strings.Join(strings.Fields(reason), " ")
	const most = 400
	if len(text) > most {
		cut := most
		for cut > 0 && text[cut]&0xC0 == 0x80 {
			cut--
		}
		text = text[:cut] + " …"
	}
	return text
}
