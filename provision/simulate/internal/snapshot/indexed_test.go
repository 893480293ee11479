package snapshot_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func class(name string, aliases ...string) *awsv1.EC2NodeClass {
	out := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, alias := range aliases {
		out.Spec.AMISelectorTerms = append(out.Spec.AMISelectorTerms, awsv1.AMISelectorTerm{Alias: alias})
	}
	return out
}

func pool(name, class string) *karpv1.NodePool {
	out := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if class != "" {
		out.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: class}
	}
	return out
}

func overlay(name, price, adjustment string) *karpv1alpha1.NodeOverlay {
	out := &karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if price != "" {
		out.Spec.Price = &price
	}
	if adjustment != "" {
		out.Spec.PriceAdjustment = &adjustment
	}
	return out
}

func daemonSet(namespace, name string, cpu string) *appsv1.DaemonSet {
	out := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	out.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}
	return out
}

// pod is one of the namespace ml; on no node it waits.
func pod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	for _, f := range change {
		f(out)
	}
	return out
}

func podNames(pods []*corev1.Pod) []string {
	out := []string{}
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func TestWhatKarpenterCannotUseIsLeftOutAndNamed(t *testing.T) {
	deleted := pool("deleted", "c")
	deleted.DeletionTimestamp = &metav1.Time{Time: noon}
	tests := map[string]struct {
		from provision.ClusterSnapshot
		// keeps are names that stay, of whatever kind there is.
		keeps []string
		left  int
	}{
		"an alias with a family and a version stays": {provision.ClusterSnapshot{NodeClasses: []*awsv1.EC2NodeClass{
			class("a", "al2023@latest"), class("b", "bottlerocket@v1.2.3"), class("c", "windows2022@latest"), class("d"), class("e", "")}}, []string{"a", "b", "c", "d", "e"}, 0},
		"an alias on which the provider ends the process goes": {provision.ClusterSnapshot{NodeClasses: []*awsv1.EC2NodeClass{
			class("a", "al2023"), class("b", "al2023@v1@v2"), class("c", "ubuntu@latest"), class("d", "AL2023@latest"), class("e", "al2023@latest", "@"), class("f", "custom@x")}}, nil, 6},
		"a price that is a number stays": {provision.ClusterSnapshot{Overlays: []*karpv1alpha1.NodeOverlay{
			overlay("a", "1.5", ""), overlay("b", "", "+10%"), overlay("c", "", "-0.5"), overlay("d", "", ""), overlay("e", "1000000000", "")}}, []string{"a", "b", "c", "d", "e"}, 0},
		"a price that is none, or without a bound, goes": {provision.ClusterSnapshot{Overlays: []*karpv1alpha1.NodeOverlay{
			overlay("a", "x", ""), overlay("b", "", "+x%"), overlay("c", "1e400", ""), overlay("d", "1000000001", ""), overlay("e", "", "+1000000000000%")}}, nil, 5},
		"a pool with a class stays, whether that is there or not": {provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool("a", "c")}}, []string{"a"}, 0},
		"a pool that goes, or has no class, goes":                 {provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{deleted, pool("x", "")}}, nil, 0},
		"a DaemonSet whose pods the API server refuses goes":      {provision.ClusterSnapshot{DaemonSets: []*appsv1.DaemonSet{daemonSet("ml", "a", "1"), daemonSet("ml", "b", "-1")}}, []string{"a"}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			unknown := snapshot.Unknowns{}
			f := snapshot.New(tt.from, unknown)
			got := slices.Concat(slices.Sorted(maps.Keys(f.Classes)), slices.Sorted(maps.Keys(f.Pools)))
			for _, o := range f.Overlays {
				got = append(got, o.Name)
			}
			for _, d := range f.DaemonSets {
				got = append(got, d.Name)
			}
			if diff := cmp.Diff(tt.keeps, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(unknown) != tt.left {
				t.Errorf("%d sentences, not %d: %v", len(unknown), tt.left, unknown.Sorted())
			}
		})
	}
}

func TestOfTwoDaemonSetsOfOneNameTheLastCounts(t *testing.T) {
	from := provision.ClusterSnapshot{DaemonSets: []*appsv1.DaemonSet{
		daemonSet("default", "a", "1"), daemonSet("ml", "a", "2"), daemonSet("", "a", "3"), daemonSet("ml", "b", "4"),
	}}
	f := snapshot.New(from, snapshot.Unknowns{})
	var got []string
	for _, d := range f.DaemonSets {
		got = append(got, d.Namespace+"/"+d.Name+" "+d.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String())
	}
	if diff := cmp.Diff([]string{"ml/a 2", "/a 3", "ml/b 4"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(from.DaemonSets) != 4 || from.DaemonSets[0].Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String() != "1" {
		t.Error("the snapshot's own list is changed")
	}
}

func TestNodeClaimsAreOldestFirstAndFindTheirNode(t *testing.T) {
	claim := func(name, of, id string, age time.Duration) *karpv1.NodeClaim {
		return &karpv1.NodeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: of}, CreationTimestamp: metav1.NewTime(noon.Add(-age))},
			Status:     karpv1.NodeClaimStatus{ProviderID: id},
		}
	}
	node := func(name, id string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}}
	}
	f := snapshot.New(provision.ClusterSnapshot{
		Now:        noon,
		NodeClaims: []*karpv1.NodeClaim{claim("b", "gpu", "2", time.Hour), claim("a", "gpu", "", time.Hour), claim("c", "gpu", "3", 2*time.Hour), claim("d", "cpu", "4", 0)},
		Nodes:      []*corev1.Node{node("n2", "2"), node("n4", "4"), node("without id", "")},
		Pods:       []*corev1.Pod{pod("x", "n2"), pod("y", "n2"), pod("z", "")},
	}, snapshot.Unknowns{})
	nodes := map[string][]string{}
	for of, claims := range f.Claims {
		for _, c := range claims {
			at := ""
			if n := f.Node(c); n != nil {
				at = n.Name
			}
			nodes[of] = append(nodes[of], c.Name+" "+at)
		}
	}
	if diff := cmp.Diff(map[string][]string{"gpu": {"c ", "a ", "b n2"}, "cpu": {"d n4"}}, nodes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"x", "y"}, podNames(f.Bound["n2"])); diff != "" || len(f.Bound) != 1 {
		t.Errorf("pods on nodes (-want +got):\n%s", diff)
	}
	if f.Clock.Now() != noon || f.Clock.Since(noon.Add(-time.Minute)) != time.Minute {
		t.Error("the clock is not the snapshot's")
	}
}

// Until a Node is initialized, Karpenter counts what the NodeClaim is to hold.
func TestCapacityIsTheNodesOnceItIsInitialized(t *testing.T) {
	list := func(gpus string) corev1.ResourceList {
		return corev1.ResourceList{gpu.Resource: resource.MustParse(gpus)}
	}
	tests := map[string]struct {
		node *corev1.Node
		want string
	}{
		"the NodeClaim's without a Node":                 {nil, "1"},
		"the NodeClaim's before the Node is initialized": {&corev1.Node{Status: corev1.NodeStatus{Capacity: list("2")}}, "1"},
		"the Node's once it is":                          {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{karpv1.NodeInitializedLabelKey: "true"}}, Status: corev1.NodeStatus{Capacity: list("2")}}, "2"},
		"what the annotation records while the plugin restarts": {&corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{karpv1.NodeInitializedLabelKey: "true"}, Annotations: map[string]string{gpu.AllocatableAnnotation: "nvidia.com/gpu=4"}},
			Status: corev1.NodeStatus{Capacity: list("0"), Allocatable: list("0")}}, "4"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: karpv1.NodeClaimStatus{ProviderID: "1", Capacity: list("1")}}
			from := provision.ClusterSnapshot{NodeClaims: []*karpv1.NodeClaim{claim}}
			if tt.node != nil {
				tt.node.Spec.ProviderID = "1"
				from.Nodes = []*corev1.Node{tt.node}
			}
			f := snapshot.New(from, snapshot.Unknowns{})
			for range 2 { // The second time from the cache.
				if got := f.Capacity(claim)[gpu.Resource]; got.String() != tt.want {
					t.Errorf("%s GPUs, not %s", got.String(), tt.want)
				}
			}
		})
	}
}

func TestObserveTakesWhatIsThereAndKeepsWhatIsDeclared(t *testing.T) {
	live, declared, other := class("c"), class("c"), class("other")
	live.Status.Subnets = []awsv1.Subnet{{ID: "live"}}
	own := class("own")
	own.Status.AMIs = []awsv1.AMI{{ID: "own"}}
	liveOwn := class("own")
	liveOwn.Status.AMIs = []awsv1.AMI{{ID: "live"}}
	was := snapshot.New(provision.ClusterSnapshot{
		NodeClasses: []*awsv1.EC2NodeClass{live, liveOwn}, Pods: []*corev1.Pod{pod("runs", "n"), pod("waited", "")},
		PodDisruptionBudgets: []*policyv1.PodDisruptionBudget{{}}, DaemonSets: []*appsv1.DaemonSet{daemonSet("ml", "was", "1")}, RuntimeClasses: []*nodev1.RuntimeClass{{ObjectMeta: metav1.ObjectMeta{Name: "was"}}},
		Nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: "1"}}},
	}, snapshot.Unknowns{})
	t.Run("where nothing is declared of them, pods and DaemonSets are those of before", func(t *testing.T) {
		is := snapshot.New(provision.ClusterSnapshot{NodeClasses: []*awsv1.EC2NodeClass{declared, other, own}}, snapshot.Unknowns{})
		is.Observe(was)
		if diff := cmp.Diff([]string{"runs", "waited"}, podNames(is.Pods)); diff != "" {
			t.Errorf("pods (-want +got):\n%s", diff)
		}
		if len(is.Bound["n"]) != 1 || len(is.PodDisruptionBudgets) != 1 || len(is.DaemonSets) != 1 || len(is.RuntimeClasses) != 1 || len(is.Nodes) != 1 {
			t.Errorf("something of before is not there: %+v", is.ClusterSnapshot)
		}
		if got := is.Classes["c"].Status.Subnets; len(got) != 1 || got[0].ID != "live" {
			t.Errorf("the class has no status of before: %v", got)
		}
		if got := is.Classes["own"].Status.AMIs; len(got) != 1 || got[0].ID != "own" {
			t.Errorf("a status of its own is overwritten: %v", got)
		}
		if len(declared.Status.Subnets) > 0 || len(other.Status.Subnets) > 0 {
			t.Error("the declared class itself is changed")
		}
	})
	t.Run("pods that wait afterwards stand in the place of those that waited before", func(t *testing.T) {
		is := snapshot.New(provision.ClusterSnapshot{Pods: []*corev1.Pod{pod("waits", ""), pod("of another moment", "n")}, DaemonSets: []*appsv1.DaemonSet{}, RuntimeClasses: []*nodev1.RuntimeClass{}}, snapshot.Unknowns{})
		is.Observe(was)
		if diff := cmp.Diff([]string{"runs", "waits"}, podNames(is.Pods)); diff != "" {
			t.Errorf("pods (-want +got):\n%s", diff)
		}
		if len(is.DaemonSets)+len(is.RuntimeClasses) > 0 {
			t.Error("an empty list of the declaration counts as none")
		}
	})
}

func TestPendingPodsAreThoseThatKarpenterProvisionsFor(t *testing.T) {
	waits := func(change func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			if change != nil {
				change(p)
			}
		}
	}
	yes := true
	f := snapshot.New(provision.ClusterSnapshot{Pods: []*corev1.Pod{
		pod("b", "", waits(nil)), pod("a", "", waits(nil)),
		pod("bound", "n"),
		pod("nominated", "", waits(func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" })),
		pod("gated", "", waits(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })),
		pod("failed", "", waits(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })),
		pod("ends", "", waits(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} })),
		pod("a DaemonSet's", "", waits(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: &yes}}
		})),
	}}, snapshot.Unknowns{})
	got := f.PendingPods()
	if diff := cmp.Diff([]string{"a", "b"}, podNames(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, p := range got {
		if p.UID != snapshot.PodID(p) {
			t.Errorf("%s has the id %q", p.Name, p.UID)
		}
	}
}

func TestUnboundIsAPodThatWaitsAndLeavesTheOriginal(t *testing.T) {
	original := pod("a", "n", func(p *corev1.Pod) {
		p.UID, p.Status.Phase, p.Spec.Volumes = "1", corev1.PodRunning, []corev1.Volume{{Name: "v"}}
	})
	was := original.DeepCopy()
	got := snapshot.Unbound(original)
	if got.Spec.NodeName != "" || got.Status.Phase != corev1.PodPending || len(got.Spec.Volumes) > 0 || got.UID != "ml/a" {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(was, original); diff != "" {
		t.Errorf("the original is changed (-was +is):\n%s", diff)
	}
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"of a pod on a node the id is its name":    {was, "ml/a"},
		"of one that waits the id stays":           {pod("a", "", func(p *corev1.Pod) { p.UID = "2" }), "2"},
		"of one that has none, the id is its name": {pod("a", ""), "ml/a"},
	} {
		if got := snapshot.WithoutVolumes(tt.pod); string(got.UID) != tt.want || len(got.Spec.Volumes) > 0 {
			t.Errorf("%s: %q %v", name, got.UID, got.Spec.Volumes)
		}
	}
}

func TestRemovePodsTakesThemFromTheirNodesToo(t *testing.T) {
	from := provision.ClusterSnapshot{Pods: []*corev1.Pod{pod("a", "n"), pod("b", "n"), pod("c", "")}}
	f := snapshot.New(from, snapshot.Unknowns{})
	f.RemovePods(nil)
	if len(f.Pods) != 3 || len(f.Bound["n"]) != 2 {
		t.Errorf("nothing ends, and there are %v", podNames(f.Pods))
	}
	f.RemovePods(map[provision.Pod]bool{{Namespace: "ml", Name: "a"}: true, {Namespace: "ml", Name: "c"}: true, {Namespace: "other", Name: "b"}: true})
	if diff := cmp.Diff([]string{"b"}, podNames(f.Pods)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b"}, podNames(f.Bound["n"])); diff != "" {
		t.Errorf("on the node (-want +got):\n%s", diff)
	}
	if len(from.Pods) != 3 || from.Pods[0].Name != "a" || from.Pods[2].Name != "c" {
		t.Error("the snapshot's own list is changed")
	}
}

func TestPodsOfWorkloadsGetTheirRuntimeClassAndAreValidated(t *testing.T) {
	of := func(name, runtime string, cpu string) provision.Workload {
		w := provision.Workload{Kind: "Deployment", Pod: pod(name, "", func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}
		})}
		if runtime != "" {
			w.Pod.Spec.RuntimeClassName = &runtime
		}
		return w
	}
	kata := func(cpu string) *nodev1.RuntimeClass {
		return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "kata"}, Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}
	}
	f := snapshot.New(provision.ClusterSnapshot{
		Workloads:      []provision.Workload{of("plain", "", "1"), of("kata", "kata", "1"), of("unknown", "gvisor", "1"), of("refused", "", "-1")},
		RuntimeClasses: []*nodev1.RuntimeClass{kata("1"), kata("2")},
	}, snapshot.Unknowns{})
	unknown := snapshot.Unknowns{}
	got := map[string]string{}
	for ref, c := range f.PodsByWorkload(nil, unknown) {
		text := c.Pod.Spec.Overhead.Cpu().String()
		if c.Invalid {
			text += " invalid"
		}
		got[ref.Name] = text
	}
	// Of two RuntimeClasses of one name the last counts.
	if diff := cmp.Diff(map[string]string{"plain": "0", "kata": "2", "unknown": "0", "refused": "0 invalid"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(unknown) != 2 {
		t.Errorf("%d sentences, not one of each unknown and refused: %v", len(unknown), unknown.Sorted())
	}
	if f.Workloads[1].Pod.Spec.Overhead != nil {
		t.Error("the declared pod itself is changed")
	}
}
