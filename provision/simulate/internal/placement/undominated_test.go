package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
)

// randomFamilies differ in architecture, in what they have of each resource, and in the zones in which they are sold.
var randomFamilies = []string{"c6i", "m6g", "r5", "g4dn", "t3", "m5"}

// TestPodsFindTheSameNodesWithoutDominatedInstanceTypes places random pods in random pools by Karpenter's scheduler, once with
// all instance types and once without those that another one dominates.
func TestPodsFindTheSameNodesWithoutDominatedInstanceTypes(t *testing.T) {
	placed, refused, left, all := 0, 0, 0, 0
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 15))
		from := provision.ClusterSnapshot{DaemonSets: randomDaemons(r), Nodes: []*corev1.Node{node("n1", "p0")}}
		for i := range 1 + r.IntN(3) {
			from.NodePools = append(from.NodePools, randomPool(r, fmt.Sprint("p", i)))
		}
		var pods []*corev1.Pod
		for i := range 2 + r.IntN(12) {
			pods = append(pods, randomPod(r, fmt.Sprint("x", i)))
		}
		ctx, s := simulationOf(t, from, randomFamilies...)
		want, err := s.PlaceAmongAll(ctx, pods, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range s.Undominated(pods) {
			all, left = all+n[0], left+n[1]
		}
		got, err := s.Place(ctx, pods, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: other outcomes (-all +undominated):\n%s", seed, diff)
		}
		for _, one := range want {
			if one.Reason == "" {
				placed++
			} else {
				refused++
			}
		}
	}
	t.Logf("%d pods found a node, %d none; %d of %d instance types were tried", placed, refused, left, all)
	if placed < 40 || refused < 40 || left*4 > all*3 {
		t.Error("the pods are all alike, or nothing was left out")
	}
}

// Karpenter renames the labels of before that Kubernetes has since replaced.
func TestPodsThatSelectByADeprecatedLabelFindTheInstanceTypeThatAnotherOneDominates(t *testing.T) {
	inAffinity := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}},
			}}}}
		}
	}
	of := pool("general", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Requirements[0] = karpv1.NodeSelectorRequirementWithMinValues{Key: "karpenter.k8s.aws/instance-family", Operator: corev1.NodeSelectorOpIn, Values: []string{"c6i", "m6g", "r5", "m5"}}
	})
	small := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	}
	for name, change := range map[string]func(*corev1.Pod){
		"an instance type":                    selects(corev1.LabelInstanceType, "c6i.large"),
		"an instance type by affinity":        inAffinity(corev1.LabelInstanceType, "c6i.large"),
		"an architecture":                     selects("beta.kubernetes.io/arch", "arm64"),
		"an operating system":                 selects("beta.kubernetes.io/os", "linux"),
		"a zone":                              selects(corev1.LabelFailureDomainBetaZone, "us-east-1a"),
		"an instance type by today's label":   selects(corev1.LabelInstanceTypeStable, "c6i.large"),
		"a zone by the label of a CSI driver": selects("topology.ebs.csi.aws.com/zone", "us-east-1a"),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, s := simulationOf(t, provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{of}}, randomFamilies...)
			got, err := s.Place(ctx, []*corev1.Pod{pod("x", small, change)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got["x"].Reason != "" {
				t.Errorf("it finds no node: %s", got["x"].Reason)
			}
		})
	}
}

func oneOf[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func randomPool(r *rand.Rand, name string) *karpv1.NodePool {
	require := func(key string, operator corev1.NodeSelectorOperator, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: operator, Values: values}
	}
	return pool(name, func(p *karpv1.NodePool) {
		of := []karpv1.NodeSelectorRequirementWithMinValues{require(karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, oneOf(r, []string{"spot"}, []string{"on-demand"}, []string{"spot", "on-demand"})...)}
		switch r.IntN(4) {
		case 0:
			of = append(of, require("karpenter.k8s.aws/instance-family", corev1.NodeSelectorOpIn, oneOf(r, randomFamilies...), oneOf(r, randomFamilies...)))
		case 1:
			of = append(of, require("karpenter.k8s.aws/instance-cpu", corev1.NodeSelectorOpLt, oneOf(r, "9", "33")))
		case 2:
			of = append(of, require(corev1.LabelArchStable, corev1.NodeSelectorOpIn, oneOf(r, "amd64", "arm64")))
		}
		p.Spec.Template.Spec.Requirements = of
		switch r.IntN(4) {
		case 0:
			p.Spec.Limits = karpv1.Limits{"cpu": resource.MustParse(oneOf(r, "2", "10", "40", "1000"))}
		case 1:
			p.Spec.Limits = karpv1.Limits{"memory": resource.MustParse(oneOf(r, "8Gi", "100Gi")), "nodes": resource.MustParse("2")}
		}
		if r.IntN(4) == 0 {
			p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "team", Value: "ml", Effect: corev1.TaintEffectNoSchedule}}
		}
		weight := int32(r.IntN(3))
		p.Spec.Weight = &weight
	})
}

func randomPod(r *rand.Rand, name string) *corev1.Pod {
	return pod(name, func(p *corev1.Pod) {
		requests := corev1.ResourceList{"cpu": resource.MustParse(oneOf(r, "100m", "1", "3", "15", "60")), "memory": resource.MustParse(oneOf(r, "100Mi", "3Gi", "60Gi", "200Gi"))}
		if r.IntN(4) == 0 {
			requests[gpus] = resource.MustParse(oneOf(r, "1", "4"))
		}
		p.Spec.Containers[0].Resources.Requests = requests
		if r.IntN(2) == 0 {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
		}
		switch r.IntN(10) {
		case 0:
			p.Spec.NodeSelector = map[string]string{oneOf(r, corev1.LabelArchStable, "beta.kubernetes.io/arch"): oneOf(r, "amd64", "arm64")}
		case 1:
			if r.IntN(4) == 0 {
				p.Spec.NodeSelector = map[string]string{oneOf(r, corev1.LabelInstanceTypeStable, corev1.LabelInstanceType): oneOf(r, "c6i.large", "m6g.4xlarge", "g4dn.12xlarge")}
			}
		case 2:
			p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "us-east-1b", karpv1.CapacityTypeLabelKey: oneOf(r, "spot", "on-demand")}
		case 3:
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: randomAffinity(r)}
		case 4:
			p.Labels = map[string]string{"app": "spread"}
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: oneOf(r, corev1.LabelHostname, "karpenter.k8s.aws/instance-family"), LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}},
			}}}
		case 5:
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
		}
	})
}

func randomAffinity(r *rand.Rand) *corev1.NodeAffinity {
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{oneOf(r,
		corev1.NodeSelectorRequirement{Key: "karpenter.k8s.aws/instance-cpu", Operator: corev1.NodeSelectorOpLt, Values: []string{"9"}},
		corev1.NodeSelectorRequirement{Key: "karpenter.k8s.aws/instance-category", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"m", "r"}},
		corev1.NodeSelectorRequirement{Key: "karpenter.k8s.aws/instance-local-nvme", Operator: corev1.NodeSelectorOpExists},
	)}}
	if r.IntN(2) == 0 {
		return &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: term}}}
	}
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}
}

func randomDaemons(r *rand.Rand) []*appsv1.DaemonSet {
	if r.IntN(2) == 0 {
		return nil
	}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "d", UID: types.UID("d")}}
	of := randomPod(r, "d")
	of.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")}
	of.Spec.Affinity, of.Spec.Tolerations = nil, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	set.Spec.Template.Spec = of.Spec
	return []*appsv1.DaemonSet{set}
}
