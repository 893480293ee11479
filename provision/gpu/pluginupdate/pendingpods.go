package pluginupdate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	schedulecorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/gpu"
)

// pageSize bounds how many pending pods are in memory at a time.
const pageSize = 200

// pick takes the first able node that no waiting pod could be put on, or one of a
// pool that has waited for long enough.
func (r *Updater) pick(ctx context.Context, s *decision) error {
	now, found := r.Clock.Now(), map[*member]*tally{}
	r.endPauses(s)
	for _, m := range s.able {
		if !r.rests(s, m, now) {
			found[m] = &tally{}
		}
	}
	if len(found) == 0 {
		return nil
	}
	if err := r.count(ctx, found); err != nil {
		s.requeueAfter(recheckInterval)
		return err
	}
	waits := map[string]bool{}
	for m, t := range found {
		waits[m.pool] = waits[m.pool] || t.pods > 0
	}
	for _, m := range s.able {
		t := found[m]
		switch {
		case t == nil, t.pods > 0 && r.wait(s, m, t, now):
			continue
		case !waits[m.pool]:
			delete(r.pauses, m.pool)
		}
		if s.next != nil {
			continue
		}
		free, err := r.mayInterrupt(ctx, s, m)
		if err != nil {
			s.requeueAfter(recheckInterval)
			return err
		}
		if free {
			s.next = m
		}
	}
	return nil
}

// tally counts the pods that wait, and keeps the first by name.
type tally struct {
	first string
	pods  int
}

func (t *tally) add(pod *corev1.Pod) {
	t.pods++
	if full := pod.Namespace + "/" + pod.Name; t.first == "" || full < t.first {
		t.first = full
	}
}

// who names the pods with what one of them does, or several do.
func (t *tally) who(does, do string) string {
	if t.pods == 1 {
		return fmt.Sprintf("pod %s %s", t.first, does)
	}
	return fmt.Sprintf("pod %s and %d more %s", t.first, t.pods-1, do)
}

// count adds up, for each node, the pending pods that the replacement of its plugin
// could hit.
func (r *Updater) count(ctx context.Context, into map[*member]*tally) error {
	var pods corev1.PodList
	for {
		err := r.Live.List(ctx, &pods, client.Limit(pageSize), client.Continue(pods.Continue),
			client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("status.phase", string(corev1.PodPending))})
		if err != nil {
			return fmt.Errorf("listing pending pods: %w", err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			requests := gpu.Requests(pod.Spec)
			if len(requests) == 0 {
				continue
			}
			for m, t := range into {
				if hits(m, pod, requests) {
					t.add(pod)
				}
			}
		}
		if pods.Continue == "" {
			return nil
		}
	}
}

// hits reports whether a pending pod could be put on the node, or already is and not
// yet admitted, just when its GPUs are gone.
//
// A pod that requests more than the node advertises, or for what it does not advertise, cannot;
// were it waited for, nobody could ever rename the shares, or make more of them,
// because of the very pods that need it.
func hits(m *member, pod *corev1.Pod, requests gpu.Resources) bool {
	if !pod.DeletionTimestamp.IsZero() || len(pod.Spec.SchedulingGates) > 0 {
		return false
	}
	if pod.Spec.NodeName != "" {
		// The kubelet sets the start time once it has given the pod its devices.
		return pod.Spec.NodeName == m.node.Name && pod.Status.StartTime == nil
	}
	helped := unschedulable(pod)
	has := m.has()
	for name, n := range requests {
		if n > has[name] {
			return false
		}
		helped = helped && m.health.Expected[name] > has[name]
	}
	// The scheduler found no room for it on any node, and there will be more room
	// on this one.
	if helped {
		return false
	}
	return fits(m.node, pod)
}

func unschedulable(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
		}
	}
	return false
}

// fits reports whether the node's taints and labels let the pod in. What cannot be
// read counts as fitting.
func fits(node *corev1.Node, pod *corev1.Pod) bool {
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err == nil && !matches {
		return false
	}
	_, kept := schedulecorev1.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, true)
	return !kept
}
