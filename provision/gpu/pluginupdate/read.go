package pluginupdate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/gpu"
)

// readNodes reads the nodes. It is errBehind while the cache does not show what this
// process did.
func (r *Updater) readNodes(ctx context.Context) (gpuNodes, error) {
	sharing, err := r.Sharing(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading how GPUs are shared: %w", err)
	}
	var (
		nodes corev1.NodeList
		pods  corev1.PodList
		sets  appsv1.DaemonSetList
		ours  = []client.ListOption{client.UnsafeDisableDeepCopy, client.InNamespace(gpu.PluginNamespace), client.HasLabels{gpu.ConfigLabel}}
	)
	if err := r.Cache.List(ctx, &pods, ours...); err != nil {
		return nil, fmt.Errorf("listing the device plugin's pods: %w", err)
	}
	if err := r.Cache.List(ctx, &sets, ours...); err != nil {
		return nil, fmt.Errorf("listing the device plugin's DaemonSets: %w", err)
	}
	if err := r.Cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	if !r.caughtUp(nodes.Items) {
		return nil, errBehind
	}
	on := map[string][]*corev1.Pod{}
	for i := range pods.Items {
		on[pods.Items[i].Spec.NodeName] = append(on[pods.Items[i].Spec.NodeName], &pods.Items[i])
	}
	var out gpuNodes
	for i := range nodes.Items {
		if m := newMember(&nodes.Items[i], sharing, sets.Items, on[nodes.Items[i].Name]); m != nil {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *member) int { return cmp.Compare(a.node.Name, b.node.Name) })
	r.observe(out)
	return out, nil
}

// observe keeps since when each node agrees, and drops pods that are gone.
func (r *Updater) observe(f gpuNodes) {
	now, agreed := r.Clock.Now(), map[types.UID]time.Time{}
	for _, m := range f {
		if !m.agrees() {
			continue
		}
		since, known := r.agreed[m.plugin.UID]
		if !known {
			since = now
		}
		agreed[m.plugin.UID] = since
		m.agreed = now.Sub(since)
	}
	r.agreed = agreed
}
