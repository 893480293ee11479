package e2e

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	overlayv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// rolling is a pool whose plugins are replaced, and what must not change with them.
type rolling struct {
	gpuSuite
	pool    string
	after   uint64
	nodes   *recording
	plugins *recording
	before  map[string]corev1.Pod
	running map[string]string
	bought  int
}

// rolls begins to watch a replacement.
func (g gpuSuite) rolls(pool string) *rolling {
	g.Helper()
	return &rolling{
		gpuSuite: g, pool: pool, after: g.revision(), nodes: g.record(&corev1.NodeList{}),
		plugins: g.record(&corev1.PodList{}, client.InNamespace(gpu.PluginNamespace), client.MatchingLabels{gpu.ConfigLabel: pool}),
		before:  g.pluginPods(pool), running: g.runningPods(pool), bought: g.launches(),
	}
}

// went compares, when all is done: every plugin was replaced, never two at a time,
// and nothing else.
func (r *rolling) went(many int) {
	r.Helper()
	now := r.pluginPods(r.pool)
	if len(now) != many || len(r.before) != many {
		r.Errorf("there were %d plugins and are %d", len(r.before), len(now))
	}
	for node, pod := range now {
		if pod.UID == r.before[node].UID {
			r.Errorf("the plugin of node %s was not replaced", node)
		}
	}
	if diff := cmp.Diff(r.running, r.runningPods(r.pool)); diff != "" {
		r.Errorf("the running pods changed:\n%s", diff)
	}
	if n := r.launches(); n != r.bought {
		r.Errorf("%d launches were made", n-r.bought)
	}
	idle := r.nodes.most(r.gpuSuite, r.after, func(o client.Object) bool {
		all := allocatableGPUs(o)
		return o.GetLabels()[karpv1.NodePoolLabelKey] == r.pool && all[gpu.Resource] == 0 && all[gpu.SharedResource] == 0
	})
	if idle > 1 {
		r.Errorf("%d nodes offered nothing at the same time", idle)
	}
	if least := r.fewest(many); least < many-1 {
		r.Errorf("only %d plugins were ready at a time", least)
	}
}

// fewest is how many nodes at least had a plugin that was ready and was to stay.
func (r *rolling) fewest(many int) int {
	r.Helper()
	least, ready := many, map[string]bool{}
	for _, one := range r.plugins.all(r.gpuSuite) {
		pod := one.object.(*corev1.Pod)
		delete(ready, pod.Name)
		if !one.gone && pod.DeletionTimestamp == nil && podIsReady(pod) {
			ready[pod.Name] = true
		}
		if one.revision > r.after {
			least = min(least, len(ready))
		}
	}
	return least
}

func podIsReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// configChanges: fewer shares, then more, while pods run on two nodes.
func (l *gpuSteps) configChanges(g gpuSuite) {
	const pool = changedPool
	config := l.config(pool)
	g.gpuPods("changed", pool, gpu.Resource, 1, 2, apart)
	g.allRun(pool)
	g.agrees(pool, pool, *config, 2)
	sets := g.record(&appsv1.DaemonSetList{}, client.InNamespace(gpu.PluginNamespace), client.MatchingLabels{gpu.ConfigLabel: pool})
	overlays := g.record(&overlayv1alpha1.NodeOverlayList{}, client.MatchingLabels{gpu.ConfigLabel: pool})
	for _, replicas := range []int{5, 20} {
		shrinks := replicas < config.Replicas
		was, err := g.declaredRevision(pool)
		if err != nil {
			g.Fatal(err)
		}
		r := g.rolls(pool)
		config.Replicas = replicas
		l.declares(g, fmt.Sprintf("Share each GPU among %d", replicas))
		g.agrees(pool, pool, *config, 2)
		r.went(2)
		set, written := sets.first(g, r.after, func(o client.Object) bool {
			return o.(*appsv1.DaemonSet).Spec.Template.Annotations[gpu.PluginHashAnnotation] != was
		})
		overlay, counted := overlays.first(g, r.after, func(o client.Object) bool {
			return o.GetName() == overlayName(pool) && capacityOf(o).String() == config.Allocatable(gpusPerMachine).String()
		})
		if !written || !counted || (overlay < set) != shrinks {
			g.Errorf("with %d shares the overlay was written at revision %d and the plugin at %d; shrinks: %t", replicas, overlay, set, shrinks)
		}
	}
	g.pluginReady("True", "Allocatable")
	g.isNotDrifted(pool)
}

// pluginIsUpgraded: on three nodes, while a pod waits for all GPUs of one of them,
// and when it is gone. The pool may have no fourth.
func (l *gpuSteps) pluginIsUpgraded(g gpuSuite) {
	const pool, blocker = changedPool, "blocker"
	config := *l.config(pool)
	g.gpuPods("changed-more", pool, gpu.Resource, 1, 3-len(g.runningPods(pool)), apart)
	g.allRun(pool)
	g.agrees(pool, pool, config, 3)
	r := g.rolls(pool)
	g.gpuPods(blocker, pool, gpu.Resource, int64(gpusPerMachine*config.Replicas), 1, func(p *corev1.Pod) { p.Labels["for"] = blocker })
	g.expectEvent(blocker+"-0", "FailedScheduling", karpenterFails)
	l.version = newPlugin
	l.declares(g, "Upgrade the device plugin")
	g.until("the update reports for whom it waits", func() error {
		p, err := g.poolStatus(pool)
		if err != nil {
			return err
		}
		if !strings.Contains(p.PluginUpdate, "default/"+blocker+"-0") {
			return fmt.Errorf("it says %q", p.PluginUpdate)
		}
		return nil
	})
	for node, pod := range g.pluginPods(pool) {
		if pod.UID != r.before[node].UID {
			g.Errorf("the plugin of node %s was replaced while a pod waited for GPUs", node)
		}
	}
	g.dropPods(blocker)
	g.agrees(pool, pool, config, 3)
	r.went(3)
	for node, pod := range g.pluginPods(pool) {
		if image := pod.Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+newPlugin) {
			g.Errorf("the plugin of node %s is %s", node, image)
		}
	}
	g.pluginReady("True", "Allocatable")
}
