package snapshot_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// TestANodeHasAsMuchAvailableAsWhereKarpenterReadsItsPods reads nodes into Karpenter's own state with all of their pods, and
// as they are counted.
func TestANodeHasAsMuchAvailableAsWhereKarpenterReadsItsPods(t *testing.T) {
	requests := func(cpu string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")}}}}
		}
	}
	owned := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: new(true)}}
	}
	apart := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}}}}
	}
	port := func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }
	over := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	starting := func(n *corev1.Node) { delete(n.Labels, karpv1.NodeInitializedLabelKey) }
	tests := map[string]struct {
		node []func(*corev1.Node)
		pods []*corev1.Pod
	}{
		"pods that only request":                      {nil, []*corev1.Pod{pod("a", "n", requests("1")), pod("b", "n", requests("500m"))}},
		"more than there is":                          {nil, []*corev1.Pod{pod("a", "n", requests("3")), pod("b", "n", requests("3"))}},
		"one that is over":                            {nil, []*corev1.Pod{pod("a", "n", requests("1"), over), pod("b", "n", requests("1"))}},
		"a DaemonSet's":                               {nil, []*corev1.Pod{pod("a", "n", requests("1"), owned), pod("b", "n", requests("1"))}},
		"one that keeps others away":                  {nil, []*corev1.Pod{pod("a", "n", requests("1"), apart), pod("b", "n", requests("1"))}},
		"one with a port of the host":                 {nil, []*corev1.Pod{pod("a", "n", requests("1"), port), pod("b", "n", requests("1"))}},
		"all of a node that is not initialized":       {[]func(*corev1.Node){starting}, []*corev1.Pod{pod("a", "n", requests("4"))}},
		"none":                                        {nil, nil},
		"one that is taken in with its like, by name": {nil, []*corev1.Pod{pod("a", "n", requests("1")), pod("a", "n", requests("1"), func(p *corev1.Pod) { p.Namespace = "other" })}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			has := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("15Gi"), "pods": resource.MustParse("29")}
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{karpv1.NodePoolLabelKey: "p", karpv1.NodeInitializedLabelKey: "true", corev1.LabelInstanceTypeStable: "m5.xlarge", corev1.LabelHostname: "n"}},
				Spec:       corev1.NodeSpec{ProviderID: "n"}, Status: corev1.NodeStatus{Capacity: has, Allocatable: has},
			}
			for _, change := range tt.node {
				change(node)
			}
			claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{karpv1.NodePoolLabelKey: "p"}}}
			claim.Status.ProviderID, claim.Status.Capacity, claim.Status.Allocatable = "n", has, has
			f := snapshot.New(provision.ClusterSnapshot{Nodes: []*corev1.Node{node}, NodeClaims: []*karpv1.NodeClaim{claim}, Pods: tt.pods}, snapshot.Unknowns{})
			read := func(aggregated bool, as func(*corev1.Node) *corev1.Node) *state.StateNode {
				cluster := state.NewCluster(f.Clock, &snapshot.Client{Snapshot: f, PodsAggregated: aggregated}, offerings.CloudProvider{})
				cluster.UpdateNodeClaim(claim.DeepCopy())
				if err := cluster.UpdateNode(engine.Offline(t.Context(), engine.DefaultSettings()), as(node)); err != nil {
					t.Fatal(err)
				}
				return slices.Collect(cluster.Nodes())[0]
			}
			all, counted := read(false, snapshot.AsEngineReads), read(true, f.AsCounted)
			if diff := cmp.Diff(all.Available(), counted.Available()); diff != "" {
				t.Errorf("(-all +counted):\n%s", diff)
			}
			if diff := cmp.Diff(all.DaemonSetRequests(), counted.DaemonSetRequests()); diff != "" {
				t.Errorf("of DaemonSets (-all +counted):\n%s", diff)
			}
			if diff := cmp.Diff(all.Capacity(), counted.Capacity()); diff != "" {
				t.Errorf("capacity (-all +counted):\n%s", diff)
			}
			other := pod("other", "", requests("1"), port)
			if a, b := all.HostPortUsage().Conflicts(other, scheduling.GetHostPorts(other)), counted.HostPortUsage().Conflicts(other, scheduling.GetHostPorts(other)); (a == nil) != (b == nil) {
				t.Errorf("the port of the host: %v, and as counted %v", a, b)
			}
			if node.Status.Allocatable.Cpu().String() != "4" {
				t.Error("the Node was changed")
			}
		})
	}
}
