package simulate

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/poolwright/poolwright/provision"
)

// mostPods are placed one by one; of more, one of each shape.
const mostPods = 200

// fit tells which pods find a node, before and after.
func (c *comparison) fit(ctx context.Context) error {
	c.found = provision.Fit{Scheduled: []provision.Placement{}, Unscheduled: []provision.Placement{}, Waiting: []provision.Placement{}}
	gone, movers := c.leaving()
	before, after := c.groups(c.before.waiting()), c.groups(c.after.waiting())
	moving := c.groups(movers)
	if len(after)+len(moving) == 0 {
		return nil
	}
	c.doubtPods(append(slices.Clone(c.after.waiting()), movers...))
	was, err := c.place(ctx, c.before, before, nil)
	if err != nil {
		return err
	}
	is, err := c.place(ctx, c.after, append(slices.Clone(after), moving...), gone)
	if err != nil {
		return err
	}
	for _, g := range after {
		now, then := was[g.pod.UID], is[g.pod.UID]
		then.Pod, then.Like = nameOf(g.pod), len(g.like)
		switch {
		case then.Why != "" && now != nil && now.Why == "":
			c.found.Unscheduled = append(c.found.Unscheduled, *then)
		case then.Why != "":
			c.found.Waiting = append(c.found.Waiting, *then)
		case now == nil || now.Why != "":
			c.found.Scheduled = append(c.found.Scheduled, *then)
		}
	}
	stuck := map[provision.Pod]bool{}
	for _, g := range moving {
		if then := is[g.pod.UID]; then.Why != "" {
			then.Pod, then.Like = nameOf(g.pod), len(g.like)
			c.found.Unscheduled = append(c.found.Unscheduled, *then)
			for _, pod := range append([]*corev1.Pod{g.pod}, g.like...) {
				stuck[nameOf(pod)] = true
			}
		}
	}
	c.hold(stuck)
	for _, list := range [][]provision.Placement{c.found.Scheduled, c.found.Unscheduled, c.found.Waiting} {
		slices.SortFunc(list, func(a, b provision.Placement) int { return comparePods(a.Pod, b.Pod) })
	}
	return nil
}

// hold adds what keeps a node whose pods would find no other: Karpenter takes none
// away before its pods have somewhere to go.
func (c *comparison) hold(stuck map[provision.Pod]bool) {
	for i, node := range c.replaced {
		for _, pod := range node.Pods {
			if stuck[pod] {
				c.replaced[i].Blockers = append(c.replaced[i].Blockers, provision.Blocker{Kind: "unschedulable", Pod: pod})
			}
		}
	}
}

// leaving are the nodes that go, and their pods that must find another.
func (c *comparison) leaving() (map[string]bool, []*corev1.Pod) {
	gone := map[string]bool{}
	nodes := slices.Clone(c.replaced)
	for _, removal := range c.removed {
		nodes = append(nodes, removal.Nodes...)
	}
	var pods []*corev1.Pod
	for _, node := range nodes {
		if node.Name == "" {
			continue
		}
		gone[node.Name] = true
		for _, pod := range c.before.bound[node.Name] {
			if podutil.IsReschedulable(pod) {
				pods = append(pods, loose(pod))
			}
		}
	}
	return gone, pods
}

// waiting are the pods that have no node and want one.
func (f *fleet) waiting() []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range f.Pods {
		if pod.Spec.NodeName == "" && pod.Status.NominatedNodeName == "" && len(pod.Spec.SchedulingGates) == 0 && podutil.IsReschedulable(pod) {
			out = append(out, loose(pod))
		}
	}
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int { return comparePods(nameOf(a), nameOf(b)) })
	return out
}

// loose is the pod as one that waits. Its id is its name's, so that the pod can be
// found again on the other side.
func loose(pod *corev1.Pod) *corev1.Pod {
	out := bare(pod)
	out.UID = types.UID(pod.Namespace + "/" + pod.Name)
	out.Spec.NodeName = ""
	out.Status = corev1.PodStatus{Phase: corev1.PodPending}
	return out
}

// bare is a copy without volumes: where those are is not known here.
func bare(pod *corev1.Pod) *corev1.Pod {
	out := *pod
	out.Spec.Volumes = nil
	if out.UID == "" || out.Spec.NodeName != "" {
		out.UID = types.UID(pod.Namespace + "/" + pod.Name)
	}
	return &out
}

func labelsOf(pod *corev1.Pod) labels.Set { return pod.Labels }

// group stands for a pod and others of its shape.
type group struct {
	pod  *corev1.Pod
	like []*corev1.Pod
}

// groups takes few pods one by one and of many one of each shape.
func (c *comparison) groups(pods []*corev1.Pod) []group {
	out := make([]group, 0, min(len(pods), mostPods))
	if len(pods) <= mostPods {
		for _, pod := range pods {
			out = append(out, group{pod: pod})
		}
		return out
	}
	c.unknown.say("More than %d pods look for a node: one of each shape was tried, so that whether there is room for all of them cannot be told.", mostPods)
	at := map[string]int{}
	for _, pod := range pods {
		key := shape(pod)
		if i, ok := at[key]; ok {
			out[i].like = append(out[i].like, pod)
			continue
		}
		at[key] = len(out)
		out = append(out, group{pod: pod})
	}
	return out
}

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

// doubtPods says what of the pods is not considered.
func (c *comparison) doubtPods(pods []*corev1.Pod) {
	for _, pod := range pods {
		if slices.ContainsFunc(podTerms(pod), func(t corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil }) {
			c.unknown.say("Some pods choose others by the labels of namespaces, which are not known here: they may fit otherwise than told.")
		}
	}
}

// why cuts the scheduler's reason to what a person reads.
func why(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
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
