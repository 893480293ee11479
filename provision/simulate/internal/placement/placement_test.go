package placement_test

import (
	stdcmp "cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/placement"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

const gpus = "nvidia.com/gpu"

// pool is one of a GPU each, or of what change makes of it.
func pool(name string, change ...func(*karpv1.NodePool)) *karpv1.NodePool {
	out := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	out.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
		NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "c"},
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"g4dn.xlarge"}},
			{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"}},
		},
	}
	for _, f := range change {
		f(out)
	}
	return out
}

// pod waits for a GPU.
func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	yes := true
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", Controller: &yes}}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{gpus: resource.MustParse("1")}}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, f := range change {
		f(out)
	}
	return out
}

func requests(name corev1.ResourceName, quantity string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(quantity) }
}

func selects(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

// node runs for a pool, with a GPU that is free.
func node(name, pool string) *corev1.Node {
	has := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("15Gi"), "pods": resource.MustParse("29"), gpus: resource.MustParse("1")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			karpv1.NodePoolLabelKey: pool, karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true", corev1.LabelHostname: name,
			corev1.LabelInstanceTypeStable: "g4dn.xlarge", karpv1.CapacityTypeLabelKey: "on-demand", corev1.LabelTopologyZone: "us-east-1a",
		}},
		Spec:   corev1.NodeSpec{ProviderID: "aws:///us-east-1a/" + name},
		Status: corev1.NodeStatus{Capacity: has, Allocatable: has, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// simulation resolves what the pools of a snapshot can buy, in two zones of us-east-1.
func simulation(t *testing.T, from provision.ClusterSnapshot) (context.Context, *placement.Simulation) {
	t.Helper()
	return simulationOf(t, from, "g4dn")
}

// simulationOf is that of these families.
func simulationOf(t *testing.T, from provision.ClusterSnapshot, families ...string) (context.Context, *placement.Simulation) {
	t.Helper()
	all, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	few, err := all.Subset(families...)
	if err != nil {
		t.Fatal(err)
	}
	family := awsv1.AMIFamilyAL2023
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	class.Spec.AMIFamily = &family
	class.Status.Subnets = []awsv1.Subnet{{ID: "a", Zone: "us-east-1a"}, {ID: "b", Zone: "us-east-1b"}}
	from.NodeClasses = append(from.NodeClasses, class)
	from.Now, from.Cluster.Region = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), "us-east-1"
	settings := engine.DefaultSettings()
	settings.Cluster, settings.Region, settings.Account = "c", "us-east-1", "111122223333"
	ctx := engine.Offline(t.Context(), settings)
	types, err := offerings.NewCatalog(ctx, provision.Cluster{Region: "us-east-1"}, few, snapshot.Unknowns{})
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := types.Resolve(ctx, snapshot.New(from, snapshot.Unknowns{}))
	if err != nil {
		t.Fatal(err)
	}
	return ctx, &placement.Simulation{Resolved: resolved, Explain: true}
}

func TestPodsFindANodeOfTheRightPool(t *testing.T) {
	weight := func(w int32) func(*karpv1.NodePool) { return func(p *karpv1.NodePool) { p.Spec.Weight = &w } }
	limit := func(n string) func(*karpv1.NodePool) {
		return func(p *karpv1.NodePool) { p.Spec.Limits = karpv1.Limits{gpus: resource.MustParse(n)} }
	}
	static := func(p *karpv1.NodePool) { n := int64(1); p.Spec.Replicas = &n }
	taint := func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "team", Value: "ml", Effect: corev1.TaintEffectNoSchedule}}
	}
	label := func(p *karpv1.NodePool) { p.Spec.Template.Labels = map[string]string{"team": "ml"} }
	bound := func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodRunning }
	tests := map[string]struct {
		from provision.ClusterSnapshot
		pods []*corev1.Pod
		gone map[string]bool
		// want are the pools of the pods, sorted; "none" for a pod that gets no node.
		want []string
	}{
		"no pod":                           {provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool("gpu")}}, nil, nil, []string{}},
		"the heavier pool comes first":     {provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool("a"), pool("b", weight(5))}}, []*corev1.Pod{pod("x")}, nil, []string{"b"}},
		"a static pool takes none":         {provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool("a", static)}}, []*corev1.Pod{pod("x")}, nil, []string{"none"}},
		"a limit is for both together":     {provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool("a", limit("1"))}}, []*corev1.Pod{pod("x"), pod("y")}, nil, []string{"a", "none"}},
		"a limit turns to the other pool":  {provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool("a", limit("1"), weight(5)), pool("b")}}, []*corev1.Pod{pod("x"), pod("y")}, nil, []string{"a", "b"}},
		"a taint keeps it away":            {provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool("a", taint)}}, []*corev1.Pod{pod("x")}, nil, []string{"none"}},
		"a label is required":              {provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool("a"), pool("b", label)}}, []*corev1.Pod{pod("x", selects("team", "ml"))}, nil, []string{"b"}},
		"too many GPUs for any type":       {provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool("a")}}, []*corev1.Pod{pod("x", requests(gpus, "2"))}, nil, []string{"none"}},
		"a zone without a subnet":          {provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool("a")}}, []*corev1.Pod{pod("x", selects(corev1.LabelTopologyZone, "us-east-1f"))}, nil, []string{"none"}},
		"a node that is free before a new": {provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool("a", limit("1"))}, Nodes: []*corev1.Node{node("n1", "a")}}, []*corev1.Pod{pod("x")}, nil, []string{"a"}},
		"a node that is full":              {provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool("a", limit("1"))}, Nodes: []*corev1.Node{node("n1", "a")}, Pods: []*corev1.Pod{pod("r", bound)}}, []*corev1.Pod{pod("x")}, nil, []string{"none"}},
		"a node that is gone":              {provision.ClusterSnapshot{Nodes: []*corev1.Node{node("n1", "old")}}, []*corev1.Pod{pod("x")}, map[string]bool{"n1": true}, []string{"none"}},
		"a node of no pool that is there":  {provision.ClusterSnapshot{Nodes: []*corev1.Node{node("n1", "old")}}, []*corev1.Pod{pod("x")}, nil, []string{"old"}},
		"nodes of which two are gone": {provision.ClusterSnapshot{Nodes: []*corev1.Node{node("n1", "old"), node("n2", "old"), node("n3", "kept")}}, []*corev1.Pod{pod("x"), pod("y")},
			map[string]bool{"n1": true, "n2": true}, []string{"kept", "none"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, s := simulation(t, tt.from)
			// The second time from the views that the first has made.
			for range 2 {
				got := []string{}
				out, err := s.Place(ctx, tt.pods, tt.gone)
				if err != nil {
					t.Fatal(err)
				}
				for id, outcome := range out {
					got = append(got, stdcmp.Or(outcome.Pool, "none"))
					if (outcome.Reason == "") != (outcome.Pool != "") {
						t.Errorf("%s gets a node of %q, because %q", id, outcome.Pool, outcome.Reason)
					}
				}
				slices.Sort(got)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// One snapshot serves many simulations, with other nodes gone in each.
func TestNodesThatAreGoneComeBack(t *testing.T) {
	ctx, s := simulation(t, provision.ClusterSnapshot{Nodes: []*corev1.Node{node("n1", "one"), node("n2", "two"), node("n3", "three")}})
	for _, tt := range []struct{ gone, want string }{
		{"n1 n2", "three"}, {"n1 n3", "two"}, {"n2 n3", "one"}, {"n1 n2 n3", ""}, {"n1 n2", "three"}, {"", "any"}, {"n1", "any"},
	} {
		gone := map[string]bool{}
		for name := range strings.FieldsSeq(tt.gone) {
			gone[name] = true
		}
		out, err := s.Place(ctx, []*corev1.Pod{pod("x")}, gone)
		if err != nil {
			t.Fatal(err)
		}
		if got := out["x"].Pool; got != tt.want && (tt.want != "any" || got == "") {
			t.Errorf("without %q the pod is on a node of %q, not %q", tt.gone, got, tt.want)
		}
	}
}

// The reason names the pools that come closest, and no others.
func TestPlacingLeavesNothingOnTheNodes(t *testing.T) {
	port := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: corev1.ProtocolTCP}}
	}
	bound := pod("bound", port, func(p *corev1.Pod) {
		p.Spec.NodeName, p.Spec.Containers[0].Resources.Requests = "n", corev1.ResourceList{"cpu": resource.MustParse("1")}
	})
	other := pod("other", port, func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].HostPort = 90 })
	tests := map[string]struct {
		running []*corev1.Pod
		first   *corev1.Pod
		then    *corev1.Pod
		placed  bool
	}{
		"a port that a pod would have is free for the next":            {nil, pod("a", port), pod("b", port), true},
		"a port that a pod has is taken, whatever was placed before":   {[]*corev1.Pod{bound}, other, pod("b", port), false},
		"also where the pod that was placed has the name of one there": {[]*corev1.Pod{bound}, pod("bound", func(p *corev1.Pod) { p.Spec.Containers[0].Ports = other.Spec.Containers[0].Ports }), pod("b", port), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, s := simulation(t, provision.ClusterSnapshot{Nodes: []*corev1.Node{node("n", "")}, Pods: tt.running})
			for _, step := range []struct {
				pod    *corev1.Pod
				placed bool
			}{{tt.first, true}, {tt.then, tt.placed}} {
				out, err := s.Place(ctx, []*corev1.Pod{step.pod}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if placed := out[step.pod.UID].Reason == ""; placed != step.placed {
					t.Errorf("pod %s was placed: %t; %s", step.pod.Name, placed, out[step.pod.UID].Reason)
				}
			}
		})
	}
}

func TestAReasonNamesThePoolsThatComeClosest(t *testing.T) {
	cpu := func(p *karpv1.NodePool) {
		p.Spec.Template.Labels = map[string]string{"kind": "cpu"}
	}
	taint := func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}
	}
	none := func(p *karpv1.NodePool) { p.Spec.Template.Spec.Requirements[0].Values = []string{"m5.large"} }
	tests := map[string]struct {
		pools []*karpv1.NodePool
		pod   *corev1.Pod
		names []string
	}{
		"the one whose label fits":        {[]*karpv1.NodePool{pool("a"), pool("b", cpu)}, pod("x", selects("kind", "cpu"), requests(gpus, "9")), []string{"b"}},
		"both that come as close":         {[]*karpv1.NodePool{pool("a"), pool("b")}, pod("x", requests(gpus, "9")), []string{"a", "b"}},
		"two of many":                     {[]*karpv1.NodePool{pool("c"), pool("a"), pool("b"), pool("d")}, pod("x", requests(gpus, "9")), []string{"a", "b"}},
		"first the one that is tolerated": {[]*karpv1.NodePool{pool("a", taint), pool("b"), pool("c")}, pod("x", requests(gpus, "9")), []string{"b", "c"}},
		"not the one without any GPU":     {[]*karpv1.NodePool{pool("a", none), pool("b")}, pod("x", requests(gpus, "9")), []string{"b"}},
		"none where there is none":        {nil, pod("x"), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, s := simulation(t, provision.ClusterSnapshot{NodePools: tt.pools})
			out, err := s.Place(ctx, []*corev1.Pod{tt.pod}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range []string{"a", "b", "c", "d"} {
				if strings.Contains(out["x"].Reason, "NodePool "+p+" ") {
					names = append(names, p)
				}
			}
			if diff := cmp.Diff(tt.names, names); diff != "" || out["x"].Reason == "" {
				t.Errorf("%q (-want +got):\n%s", out["x"].Reason, diff)
			}
		})
	}
}

func TestAReasonIsNeverLong(t *testing.T) {
	long := strings.Repeat("ü", 31)
	ctx, s := simulation(t, provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool("a")}})
	for n := range 6 {
		keys := map[string]string{}
		for i := range n * 4 {
			keys[fmt.Sprintf("example.com/key-%d", i)] = long
		}
		for _, explain := range []bool{true, false} {
			s.Explain = explain
			out, err := s.Place(ctx, []*corev1.Pod{pod("x", requests(gpus, "9"), func(p *corev1.Pod) { p.Spec.NodeSelector = keys })}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if why := out["x"].Reason; len(why) > 410 || !strings.HasPrefix(strings.ToValidUTF8(why, "!"), why) || strings.Contains(why, "\n") {
				t.Errorf("with %d labels: %d bytes: %q", n*4, len(why), why)
			}
		}
	}
}

// Pods that the scheduler treats alike have one shape; what it reads makes another.
func TestShapeIsWhatTheSchedulerReads(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	alike := map[string]func(*corev1.Pod){
		"a name and an id":     func(p *corev1.Pod) { p.Name, p.UID = "y", "2" },
		"an annotation":        func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} },
		"an image":             func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" },
		"a container's name":   func(p *corev1.Pod) { p.Spec.Containers[0].Name = "d" },
		"an environment":       func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}} },
		"a status":             func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning },
		"a grace period":       func(p *corev1.Pod) { n := int64(3); p.Spec.TerminationGracePeriodSeconds = &n },
		"a quantity rewritten": requests(gpus, "1000m"),
	}
	others := map[string]func(*corev1.Pod){
		"a namespace":     func(p *corev1.Pod) { p.Namespace = "other" },
		"a request":       requests("cpu", "1"),
		"another number":  requests(gpus, "2"),
		"a node selector": selects("a", "b"),
		"an affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}}}
		},
		"a toleration": func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} },
		"a spread": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1}}
		},
		"an overhead": func(p *corev1.Pod) { p.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("1")} },
		"a limit of the pod": func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}
		},
		"a resource claim":       func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} },
		"a port of the host":     func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} },
		"a second container":     func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0]) },
		"an init container":      func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "i"}} },
		"a sidecar":              func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "i", RestartPolicy: &always}} },
		"one moved to the front": func(p *corev1.Pod) { p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil },
	}
	shapes := map[string]string{placement.Shape(pod("x")): "the pod itself"}
	for name, change := range alike {
		if shape := placement.Shape(pod("x", change)); shapes[shape] == "" {
			t.Errorf("%s makes another shape: %s", name, shape)
		}
	}
	for name, change := range others {
		shape := placement.Shape(pod("x", change))
		if other := shapes[shape]; other != "" {
			t.Errorf("%s has the shape of %s: %s", name, other, shape)
		}
		shapes[shape] = name
	}
}
