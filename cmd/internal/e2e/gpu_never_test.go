package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
	"github.com/poolwright/poolwright/provision/sandbox/nodes"
)

const replacedMetric = "poolwright_gpu_nodes_replaced_total"

// nodesNeverOffer: on the first node the plugin does not start, the second lacks a
// GPU. Then no other is bought, although a pod waits, and other pools get theirs.
// A controller that starts later remembers; when the hold is over and a node
// offers its GPUs, all is forgotten.
func (l *gpuSteps) nodesNeverOffer(g gpuSuite) {
	const pool = neverPool
	config, begin := l.config(pool), time.Now()
	g.faults.Store(pool, nodes.Fault{NoPlugin: true})
	g.gpuPods("never", pool, gpu.SharedResource, 1, 1)
	// The next node's minute begins by itself: the ends are awaited after it.
	first := g.givesUp(l.metrics, pool, readiness.PluginFailing, nodes.Fault{MissingGPUs: 1}, "is replaced")
	second := g.givesUp(l.metrics, pool, readiness.MissingGPUs, nodes.Fault{NoPlugin: true}, "30 of 40", "number 2 in a row", "no GPU node of pool never is launched until")
	g.Logf("the pool was held after %s", since(begin))

	message := g.pluginReady(metav1.ConditionFalse, "PoolsBackingOff")
	if !strings.Contains(message, pool+" until ") {
		g.Errorf("the DevicePlugin says: %s", message)
	}
	g.awaitSeries(g.until, l.metrics, "PoolwrightGPUPoolBackoff")
	held, err := g.poolStatus(pool)
	if err != nil || held.BackoffUntil == nil {
		g.Fatalf("the status of the pool is %+v, %v", held, err)
	}
	config.ReadyTimeout = 30 * time.Minute // a slow machine has time from here on
	l.declares(g, "Give the nodes time")
	g.until("the DevicePlugin is applied", func() error {
		plugin, err := g.devicePlugin()
		if err != nil {
			return err
		}
		for _, p := range plugin.Spec.Configs {
			if p.Name == pool && p.ReadyTimeout.Duration != config.ReadyTimeout {
				return fmt.Errorf("it says %s", p.ReadyTimeout.Duration)
			}
		}
		return nil
	})
	g.gpuPods("other", otherPool, gpu.Resource, 1, 2)
	if c := g.allRun(otherPool); c.running != 2 {
		g.Errorf("the pods of the other pool are %+v", c)
	}
	claims, err := g.claims(pool)
	claims = slices.DeleteFunc(claims, func(c karpv1.NodeClaim) bool { return c.DeletionTimestamp != nil })
	launched := g.launched(pool)
	if lasts := time.Now().Before(held.BackoffUntil.Time); err != nil || lasts && (len(claims) > 0 || launched != 2) {
		g.Errorf("of the held pool there are %d NodeClaims and were %d instances; %v", len(claims), launched, err)
	}

	g.terminated(first)
	g.terminated(second)
	g.Logf("the other pool had its pods after %s", since(begin))
	g.recordsHold(pool, "--metrics-addr="+l.metrics)
	g.Logf("the next controller had a node after %s", since(begin))
	g.faults.Delete(pool)
	g.allRun(pool)
	g.agrees(pool, pool, *config, 1)
	g.until("the row has ended", func() error {
		p, err := g.poolStatus(pool)
		if err != nil {
			return err
		}
		if p.Failures != 0 || p.BackoffUntil != nil {
			return fmt.Errorf("the status of the pool is %+v", p)
		}
		return nil
	})
	g.pluginReady(metav1.ConditionTrue, "Allocatable")
}

// givesUp waits for the pool's node to be in trouble, and until its minute is over
// and it is replaced, or not, and that is told everywhere. The fault is that of the
// node that comes next.
func (g gpuSuite) givesUp(metrics, pool, reason string, next nodes.Fault, texts ...string) (claim karpv1.NodeClaim) {
	g.Helper()
	claim = g.waitForUnhealthyNode(pool, reason)
	series := []string{fmt.Sprintf("nodepool=%q", pool), fmt.Sprintf("reason=%q", reason)}
	before := g.metric(metrics, replacedMetric, series...)
	failing := time.Now()
	if reason == readiness.PluginFailing {
		g.awaitSeries(g.until, metrics, "PoolwrightGPUNodesUnhealthy")
	}
	g.until("NodeClaim "+claim.Name+" is given up", func() error {
		err := g.hand.Get(g.Context(), client.ObjectKeyFromObject(&claim), &claim)
		if err == nil && claim.DeletionTimestamp == nil {
			return fmt.Errorf("it is there: %+v", claim.Status.Conditions)
		}
		return client.IgnoreNotFound(err)
	})
	g.faults.Store(pool, next)
	g.Logf("it was given up %s after it had the trouble %s", since(failing), reason)
	g.expectEvent(claim.Name, reason, texts...)
	if reason == readiness.PluginFailing {
		g.awaitSeries(g.until, metrics, "poolwright_gpu_nodes_replaced_total")
	}
	if got := g.metric(metrics, replacedMetric, series...); got != before+1 {
		g.Errorf("%s went from %g to %g", replacedMetric, before, got)
	}
	g.until("the status of the pool has the reason", func() error {
		p, err := g.poolStatus(pool)
		if err == nil && !strings.HasPrefix(p.LastFailure, reason+": ") {
			err = fmt.Errorf("it is %+v", p)
		}
		return err
	})
	return claim
}

// terminated waits until the engine has ended the NodeClaim's instance.
func (g gpuSuite) terminated(claim karpv1.NodeClaim) {
	g.Helper()
	g.until("the instance is ended", func() error {
		_, id, _ := strings.Cut(strings.TrimPrefix(claim.Status.ProviderID, "aws:///"), "/")
		if len(g.terminations(id)) == 0 {
			return fmt.Errorf("%s lives", id)
		}
		return nil
	})
}

// waitForUnhealthyNode waits until the pool's only node is registered and its plugin has
// failed, or offers too little, as the reason says.
func (g gpuSuite) waitForUnhealthyNode(pool, reason string) (claim karpv1.NodeClaim) {
	g.Helper()
	g.until("a node of pool "+pool+" has the trouble "+reason, func() error {
		claims, err := g.claims(pool)
		if err != nil {
			return err
		}
		if len(claims) != 1 || claims[0].DeletionTimestamp != nil || !claims[0].StatusConditions().Get(karpv1.ConditionTypeRegistered).IsTrue() {
			return fmt.Errorf("there are %d NodeClaims", len(claims))
		}
		claim = claims[0]
		list, err := g.gpuNodes(pool)
		if err != nil {
			return err
		}
		for i := range list {
			if list[i].Name != claim.Status.NodeName {
				continue
			}
			plugin := g.pluginPods(pool)[list[i].Name]
			crashed := slices.ContainsFunc(plugin.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 })
			if crashed && reason == readiness.PluginFailing || allocatableGPUs(&list[i])[gpu.SharedResource] > 0 && reason == readiness.MissingGPUs {
				return nil
			}
			return fmt.Errorf("node %s advertises %s, its plugin is %+v", list[i].Name, allocatableGPUs(&list[i]), plugin.Status.ContainerStatuses)
		}
		return fmt.Errorf("there are %d nodes", len(list))
	})
	return claim
}

// recordsHold starts the next controller after the hold has ended, as its status
// says: it launches a node, and counts the failures of the last one's life.
func (g gpuSuite) recordsHold(pool string, args ...string) {
	g.Helper()
	if err := g.now.Stop(g.Context()); err != nil {
		g.Fatal(err)
	}
	plugin, err := g.devicePlugin()
	if err != nil {
		g.Fatal(err)
	}
	before := plugin.DeepCopy()
	for i, p := range plugin.Status.Pools {
		if p.Name == pool {
			if p.Failures != 2 || p.LastFailure == "" {
				g.Errorf("the status of the pool is %+v", p)
			}
			plugin.Status.Pools[i].BackoffUntil = &metav1.Time{Time: time.Now().Add(-time.Second).Truncate(time.Second)}
		}
	}
	if err := g.hand.Status().Patch(g.Context(), plugin, client.MergeFrom(before)); err != nil {
		g.Fatal(err)
	}
	g.runs(args...)
	g.engineRuns()
	g.until("a node comes and the failures are recorded", func() error {
		p, err := g.poolStatus(pool)
		if err != nil {
			return err
		}
		if p.Nodes != 1 || p.Failures != 2 || !strings.HasPrefix(p.LastFailure, readiness.MissingGPUs) {
			return fmt.Errorf("the status of the pool is %+v", p)
		}
		return nil
	})
}
