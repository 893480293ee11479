package e2e

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/sandbox/nodes"
)

// podsCannotBeFirst: the plugin is late, and meanwhile the node advertises four whole
// GPUs, as if it had been configured for that. Pods wait, one without a GPU too,
// until the node advertises what the configuration says. Later the plugin fails for a while:
// pods are not kept away then, and nothing is bought.
func (l *gpuSteps) podsCannotBeFirst(g gpuSuite) {
	const pool = racePool
	config := *l.config(pool)
	nodeFilm := g.record(&corev1.NodeList{})
	podFilm := g.record(&corev1.PodList{}, client.InNamespace("default"), client.MatchingLabels{"for": pool})
	g.faults.Store(pool, nodes.Fault{NoPlugin: true})
	g.gpuPods("race-gpu", pool, gpu.Resource, 1, 3)
	g.gpuPods("race-plain", pool, gpu.Resource, 0, 1)
	if n := g.provisioned(pool, gpu.Resource, int64(gpusPerMachine*config.Replicas)); n != 1 {
		g.Errorf("%d nodes were launched", n)
	}
	before := g.hashes(pool)
	node := g.waitsTainted(pool)
	g.claimsWhole(node)
	g.until("the status counts the node", func() error {
		p, err := g.poolStatus(pool)
		if err == nil && p.Nodes != 1 {
			err = fmt.Errorf("it is %+v", p)
		}
		if p.UpdatedNodes != 0 {
			g.Errorf("the status of the pool is %+v", p)
		}
		return err
	})
	if c, err := g.podCensus(pool); err != nil || c.all != 4 || c.bound > 0 {
		g.Errorf("before the numbers agree, the pods are %+v, %v", c, err)
	}
	g.faults.Delete(pool)
	g.allRun(pool)
	g.agrees(pool, pool, config, 1)
	g.wasHeldUntil(nodeFilm, podFilm, node, config.Allocatable(gpusPerMachine))

	g.pluginFails(node, config)
	g.wasHeldUntil(nodeFilm, podFilm, node, config.Allocatable(gpusPerMachine))
	if n := g.refused("race-"); n > 0 {
		g.Errorf("%d pods were refused by the kubelet", n)
	}
	if diff := cmp.Diff(before, g.hashes(pool)); diff != "" {
		g.Errorf("the hashes changed:\n%s", diff)
	}
	g.isNotDrifted(pool)
}

// waitsTainted waits until the pool's only node is registered and the scheduler
// has said that its taint keeps a pod away. What Karpenter compares is without
// the taint.
func (g gpuSuite) waitsTainted(pool string) string {
	g.Helper()
	var node *corev1.Node
	g.until("the scheduler has observed the taint", func() error {
		list, err := g.gpuNodes(pool)
		if err != nil {
			return err
		}
		if len(list) != 1 || !held(&list[0]) {
			return fmt.Errorf("%d nodes", len(list))
		}
		node = &list[0]
		pods, err := g.labelled("for", pool)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "untolerated taint") {
					return nil
				}
			}
		}
		return fmt.Errorf("no pod says so")
	})
	var of karpv1.NodePool
	if err := g.hand.Get(g.Context(), client.ObjectKey{Name: pool}, &of); err != nil {
		g.Fatal(err)
	}
	claims, err := g.claims(pool)
	if err != nil || len(claims) != 1 {
		g.Fatalf("%d NodeClaims, %v", len(claims), err)
	}
	if taints := append(of.Spec.Template.Spec.StartupTaints, claims[0].Spec.StartupTaints...); len(taints) > 0 {
		g.Errorf("the pool or its NodeClaim have the startup taints %v", taints)
	}
	return node.Name
}

// claimsWhole makes a node offer whole GPUs, as a plugin with another
// configuration would.
func (g gpuSuite) claimsWhole(node string) {
	g.Helper()
	patch := fmt.Sprintf(`{"status":{"capacity":{%[1]q:"%[2]d"},"allocatable":{%[1]q:"%[2]d"}}}`, gpu.Resource, gpusPerMachine)
	of := &corev1.Node{}
	of.Name = node
	if err := g.hand.Status().Patch(g.Context(), of, client.RawPatch(types.StrategicMergePatchType, []byte(patch))); err != nil {
		g.Fatal(err)
	}
}

// wasHeldUntil reads all that the API server ever showed: the node came with
// the taint, lost it once, when it offered all, and never got it again; no pod was
// bound before.
func (g gpuSuite) wasHeldUntil(nodeFilm, podFilm *recording, node string, offer gpu.Resources) {
	g.Helper()
	var released uint64
	observed := false
	for _, one := range nodeFilm.all(g) {
		if one.object.GetName() != node || one.gone {
			continue
		}
		switch now := held(one.object); {
		case !observed && !now:
			g.Fatalf("node %s came without the taint", node)
		case now && released > 0:
			g.Fatalf("node %s got the taint again at revision %d", node, one.revision)
		case !now && released == 0:
			released = one.revision
			if differs := offer.Differs(one.object.(*corev1.Node).Status.Allocatable); differs != "" {
				g.Errorf("node %s lost the taint when it offered %s", node, differs)
			}
		}
		observed = true
	}
	if released == 0 {
		g.Fatalf("node %s never lost the taint", node)
	}
	at, bound := podFilm.first(g, 0, func(o client.Object) bool { return o.(*corev1.Pod).Spec.NodeName != "" })
	if !bound || at < released {
		g.Errorf("a pod was bound at revision %d, and the taint went at %d", at, released)
	}
}

// pluginFails: the plugin's pod is replaced and the new one does not come up for a
// while, so that the node has no GPU to offer. Karpenter counts on the node for
// the pods that come.
func (g gpuSuite) pluginFails(node string, config gpu.PluginConfig) {
	g.Helper()
	pool := config.Pools[0]
	bought := g.launches()
	g.faults.Store(pool, nodes.Fault{NoPlugin: true})
	plugin := g.pluginPods(config.Name)[node]
	if err := g.hand.Delete(g.Context(), &plugin); err != nil {
		g.Fatal(err)
	}
	g.until("the node advertises nothing", func() error {
		list, err := g.gpuNodes(pool)
		if err != nil {
			return err
		}
		if len(list) != 1 || allocatableGPUs(&list[0])[gpu.Resource] != 0 {
			return fmt.Errorf("%d nodes, of which the first advertises %s", len(list), allocatableGPUs(&list[0]))
		}
		return nil
	})
	g.gpuPods("race-late", pool, gpu.Resource, 1, 2)
	g.expectEvent("race-late-0", "Nominated", node)
	g.faults.Delete(pool)
	g.allRun(pool)
	g.agrees(pool, config.Name, config, 1)
	if n := g.launches(); n != bought {
		g.Errorf("while the plugin was gone, %d launches were made", n-bought)
	}
}

// isNotDrifted fails if Karpenter finds a NodeClaim of the pool to differ from it.
func (g gpuSuite) isNotDrifted(pool string) {
	g.Helper()
	claims, err := g.claims(pool)
	if err != nil {
		g.Fatal(err)
	}
	for _, claim := range claims {
		if claim.StatusConditions().Get(karpv1.ConditionTypeDrifted).IsTrue() {
			g.Errorf("NodeClaim %s is drifted: %+v", claim.Name, claim.Status.Conditions)
		}
	}
}
