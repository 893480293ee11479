package simulate_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/provision/simulate/reduce"
	"github.com/poolwright/poolwright/provision/simulate/reduce/reducetest"
)

// reduced is the snapshot with what package reduce keeps.
func reduced(tb testing.TB, from provision.ClusterSnapshot) provision.ClusterSnapshot {
	tb.Helper()
	var pods reduce.Pods
	return replaced(from, func(p *corev1.Pod) *corev1.Pod {
		out, err := pods.Pod(p)
		if err != nil {
			tb.Fatal(err)
		}
		return out
	}, reduce.Node)
}

// withUnread is the snapshot with what package reduce drops filled in.
func withUnread(tb testing.TB, from provision.ClusterSnapshot) provision.ClusterSnapshot {
	tb.Helper()
	return replaced(from, func(p *corev1.Pod) *corev1.Pod {
		p = p.DeepCopy()
		reducetest.AddUnread(tb, p)
		return p
	}, func(n *corev1.Node) *corev1.Node {
		n = n.DeepCopy()
		reducetest.AddUnreadToNode(tb, n)
		return n
	})
}

// replaced is the snapshot with other pods and nodes; lists that are nil stay nil.
func replaced(from provision.ClusterSnapshot, pod func(*corev1.Pod) *corev1.Pod, node func(*corev1.Node) *corev1.Node) provision.ClusterSnapshot {
	pods, nodes := from.Pods, from.Nodes
	from.Pods, from.Nodes = from.Pods[:0:0], from.Nodes[:0:0]
	for _, p := range pods {
		from.Pods = append(from.Pods, pod(p))
	}
	for _, n := range nodes {
		from.Nodes = append(from.Nodes, node(n))
	}
	return from
}

func written(tb testing.TB, f provision.Forecast) string {
	tb.Helper()
	out, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		tb.Fatal(err)
	}
	return string(out)
}

func TestWhatIsDroppedOfPodsAndNodesMakesNoDifference(t *testing.T) {
	types, ctx := prices(t, "g4dn", "g5"), engine.Offline(t.Context(), settings())
	forecast := func(before, after provision.ClusterSnapshot) string {
		out, err := simulate.Compare(ctx, before, after, types)
		if err != nil {
			t.Fatal(err)
		}
		return written(t, out)
	}
	steps := map[string]func() provision.ClusterSnapshot{
		"a taint": func() provision.ClusterSnapshot { return read(t, tainted, class, serve) },
		"another disk": func() provision.ClusterSnapshot {
			return read(t, pool, strings.Replace(class, "50Gi", "60Gi", 1), serve)
		},
		"no pool": func() provision.ClusterSnapshot { return read(t, class) },
		"other classes": func() provision.ClusterSnapshot {
			return read(t, strings.Replace(pool, "[g4dn.xlarge, g5.xlarge]", "[g5.xlarge]", 1), class, slices8)
		},
	}
	for name, after := range steps {
		for range 3 {
			seed := rand.Uint64()
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
				before := randomised(t, seed)
				want := forecast(withUnread(t, before), after())
				if diff := cmp.Diff(want, forecast(reduced(t, before), after())); diff != "" {
					t.Errorf("of reduced objects the forecast is another (-full +reduced):\n%s", diff)
				}
			})
		}
	}
}

// randomised is a cluster of 12 nodes with pods that have something of all that counts.
func randomised(t *testing.T, seed uint64) provision.ClusterSnapshot {
	r := rand.New(rand.NewPCG(seed, 0))
	snapshot := read(t, pool, class, serve, sleeps)
	names := []string{""}
	for i := range 12 {
		claim, node := run(&snapshot, "gpu", fmt.Sprint("n", i), time.Duration(r.IntN(200))*time.Hour)
		for _, list := range []corev1.ResourceList{claim.Status.Capacity, node.Status.Allocatable} {
			list["cpu"], list["nvidia.com/gpu"] = resource.MustParse("16"), resource.MustParse("8")
		}
		names = append(names, node.Name)
	}
	for i := range 5 {
		budget(&snapshot, fmt.Sprint("app-", i), int32(r.IntN(2)))
	}
	for i := range 60 {
		pod(&snapshot, fmt.Sprint("pod-", i), names[r.IntN(len(names))], func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": fmt.Sprint("app-", r.IntN(6))}
			for _, change := range changes {
				if r.IntN(5) == 0 {
					change(r, p)
				}
			}
		})
	}
	return snapshot
}

// changes each change something of a pod that counts.
var changes = []func(*rand.Rand, *corev1.Pod){
	func(r *rand.Rand, p *corev1.Pod) {
		p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: []string{"true", "5m", "9999h"}[r.IntN(3)], corev1.PodDeletionCost: "7"}
	},
	func(r *rand.Rand, p *corev1.Pod) {
		started := metav1.NewTime(noon.Add(-time.Duration(r.IntN(100)) * time.Minute))
		p.Status.StartTime, p.CreationTimestamp = &started, started
	},
	func(_ *rand.Rand, p *corev1.Pod) {
		gone := metav1.NewTime(noon)
		p.DeletionTimestamp = &gone
	},
	func(r *rand.Rand, p *corev1.Pod) {
		p.Status.Phase = []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending}[r.IntN(3)]
	},
	func(r *rand.Rand, p *corev1.Pod) {
		p.OwnerReferences[0].Kind = []string{"DaemonSet", "StatefulSet", "Job"}[r.IntN(3)]
	},
	func(_ *rand.Rand, p *corev1.Pod) { p.OwnerReferences = nil },
	func(_ *rand.Rand, p *corev1.Pod) { p.Spec.Tolerations = nil },
	func(_ *rand.Rand, p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"team": "ml"} },
	func(r *rand.Rand, p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: int32(8000 + r.IntN(3)), ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
	},
	func(r *rand.Rand, p *corev1.Pod) {
		p.Spec.Priority = new(int32(r.IntN(1000)))
		p.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("250m")}
	},
	func(r *rand.Rand, p *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []corev1.Container{{Name: "sidecar", RestartPolicy: &always, Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprint(1 + r.IntN(9)))},
		}}}
	},
	func(r *rand.Rand, p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprint(1 + r.IntN(9)))}}}
	},
	func(_ *rand.Rand, p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
	},
	func(_ *rand.Rand, p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}}}
	},
	func(_ *rand.Rand, p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "NotYet"})
	},
	func(_ *rand.Rand, p *corev1.Pod) { p.Status.NominatedNodeName = "node-n1" },
	func(_ *rand.Rand, p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
	},
	func(_ *rand.Rand, p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} },
}
