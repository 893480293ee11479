package pluginrollout

import (
	"context"
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/gpu"
)

// mpsProgram is NVIDIA's control daemon.
const mpsProgram = "mps-control-daemon"

// serves tells whether the node's plugin pod runs the MPS daemon, through which pods
// reach the GPUs: it ends with the pod, and so does what they compute.
func (m *member) serves() bool {
	if m.plugin == nil {
		return false
	}
	all := append(slices.Clone(m.plugin.Spec.InitContainers), m.plugin.Spec.Containers...)
	return slices.ContainsFunc(all, func(c corev1.Container) bool {
		// "mount-shm" only prepares the daemon's memory.
		return len(c.Command) > 0 && path.Base(c.Command[0]) == mpsProgram && !slices.Contains(c.Command, "mount-shm")
	})
}

// harm says what the replacement of the node's plugin does to pods that use its
// GPUs; empty where it does nothing to them.
func (m *member) harm() string {
	was := gpu.SharedResource
	if m.profile.Renamed {
		was = gpu.Resource
	}
	switch {
	case m.serves():
		return "whose MPS daemon ends with the plugin"
	case m.profile.Strategy == gpu.MPS:
		return "whose GPUs MPS would take for itself"
	case m.has()[was] > 0:
		// The kubelet counts each name by itself: what they hold would be free again.
		return fmt.Sprintf("whose GPUs would be given out once more, as %s", m.profile.Resource())
	}
	return ""
}

// users counts the pods that compute on a node's GPUs.
func (r *Roller) users(ctx context.Context, m *member) (*tally, error) {
	found, pods := &tally{}, corev1.PodList{}
	for {
		err := r.Live.List(ctx, &pods, client.Limit(pageSize), client.Continue(pods.Continue),
			client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", m.node.Name)})
		if err != nil {
			return nil, fmt.Errorf("listing the pods of node %s: %w", m.node.Name, err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
			if !over && len(gpu.Requests(pod.Spec)) > 0 {
				found.add(pod)
			}
		}
		if pods.Continue == "" {
			return found, nil
		}
	}
}

// spare tells whether a node's plugin may go as far as the pods there are concerned,
// and notes for its pool who keeps it otherwise.
func (r *Roller) spare(ctx context.Context, s *step, m *member) (bool, error) {
	harm := m.harm()
	if harm == "" {
		return true, nil
	}
	found, err := r.users(ctx, m)
	if err != nil || found.pods == 0 {
		return err == nil, err
	}
	if s.waiting[m.pool] == "" {
		s.waiting[m.pool] = fmt.Sprintf("waits: %s on node %s, %s", found.who("uses GPUs", "use GPUs"), m.node.Name, harm)
	}
	s.requeueAfter(recheckInterval)
	return false, nil
}
