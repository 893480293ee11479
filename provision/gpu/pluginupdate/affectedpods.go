package pluginupdate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/gpu"
)

// users counts the pods that compute on a node's GPUs.
func (r *Updater) users(ctx context.Context, m *member) (*tally, error) {
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

// mayInterrupt reports whether a node's plugin may go as far as the pods there are concerned,
// and notes for its pool who keeps it otherwise.
func (r *Updater) mayInterrupt(ctx context.Context, s *decision, m *member) (bool, error) {
	impact := m.podImpact()
	if impact == "" {
		return true, nil
	}
	found, err := r.users(ctx, m)
	if err != nil || found.pods == 0 {
		return err == nil, err
	}
	if s.pendingPods[m.pool] == "" {
		s.pendingPods[m.pool] = fmt.Sprintf("waits: %s on node %s, %s", found.who("uses GPUs", "use GPUs"), m.node.Name, impact)
	}
	s.requeueAfter(recheckInterval)
	return false, nil
}
