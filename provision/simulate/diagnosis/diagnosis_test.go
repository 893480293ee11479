package diagnosis_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/simulate/diagnosis"
)

// nodePool may buy instance types on demand, in two zones.
func nodePool(name string, instanceTypes ...string) *karpv1.NodePool {
	out := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	out.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
		NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "nodes"},
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: instanceTypes},
			{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"}},
		},
	}
	return out
}

func pending(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}},
	}
}

func diagnose(t *testing.T, live provision.ClusterSnapshot, pod *corev1.Pod, volumes ...diagnosis.Volume) diagnosis.Result {
	t.Helper()
	all, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	types, err := all.Subset("m5", "c5")
	if err != nil {
		t.Fatal(err)
	}
	family := awsv1.AMIFamilyAL2023
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "nodes"}, Spec: awsv1.EC2NodeClassSpec{AMIFamily: &family}}
	// The provider groups subnets by the ids of their zones: without them they are of one zone.
	class.Status.Subnets = []awsv1.Subnet{{ID: "a", Zone: "us-east-1a", ZoneID: "use1-az1"}, {ID: "b", Zone: "us-east-1b", ZoneID: "use1-az2"}}
	live.NodeClasses, live.Now, live.Cluster.Region = []*awsv1.EC2NodeClass{class}, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), "us-east-1"
	live.Pods = append(live.Pods, pod)
	settings := engine.DefaultSettings()
	settings.Cluster, settings.Region, settings.Account = "c", "us-east-1", "111122223333"
	out, err := diagnosis.Pod(engine.Offline(t.Context(), settings), live, types, pod, volumes)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// lacks are the pools with the kinds of their reasons, as text.
func lacks(r diagnosis.Result) string {
	var out []string
	for _, p := range r.Pools {
		text := p.Name
		for _, o := range p.Reasons {
			text += " " + string(o.Kind)
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestWhatEachPoolLacks(t *testing.T) {
	zone := func(values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: values}}}
	}
	family := func(name string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "karpenter.k8s.aws/instance-family", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}
	}
	affinity := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	replicas := int64(1)
	for name, test := range map[string]struct {
		change  func(*provision.ClusterSnapshot, *corev1.Pod)
		volumes []diagnosis.Volume
		want    string
		placed  bool
	}{
		"nothing": {want: "a; b", placed: true},
		"the second of two alternatives fits": {change: func(_ *provision.ClusterSnapshot, p *corev1.Pod) {
			p.Spec.Affinity = affinity(family("p5"), family("c5"))
		}, want: "b; a Label", placed: true},
		"none of two alternatives fits": {change: func(_ *provision.ClusterSnapshot, p *corev1.Pod) {
			p.Spec.Affinity = affinity(family("p5"), family("p4d"))
		}, want: "a Label; b Label"},
		"a volume in one of two zones": {volumes: []diagnosis.Volume{{Claim: "data", Terms: []corev1.NodeSelectorTerm{zone("us-east-1f"), zone("us-east-1b")}}}, want: "a; b", placed: true},
		"two volumes in different zones": {volumes: []diagnosis.Volume{{Claim: "data", Terms: []corev1.NodeSelectorTerm{zone("us-east-1a")}}, {Claim: "more", Terms: []corev1.NodeSelectorTerm{zone("us-east-1b")}}},
			want: "a Combination; b Combination"},
		"a volume without a place": {volumes: []diagnosis.Volume{{Claim: "data"}}, want: "a; b", placed: true},
		"a pool that is not ready comes with why": {change: func(s *provision.ClusterSnapshot, _ *corev1.Pod) {
			s.NodePools = s.NodePools[:1]
			s.NodePools[0].Status.Conditions = []status.Condition{{Type: status.ConditionReady, Status: metav1.ConditionFalse, Reason: "NodeClassNotReady"}}
		}, want: "a NotReady"},
		"a static pool is last": {change: func(s *provision.ClusterSnapshot, _ *corev1.Pod) { s.NodePools[0].Spec.Replicas = &replicas }, want: "b; a Static", placed: true},
		"requirements that no type matches": {change: func(s *provision.ClusterSnapshot, _ *corev1.Pod) {
			s.NodePools = []*karpv1.NodePool{nodePool("a", "x9.large")}
		}, want: "a NoInstanceType"},
		"DaemonSets that leave too little": {change: func(s *provision.ClusterSnapshot, _ *corev1.Pod) {
			s.DaemonSets = []*appsv1.DaemonSet{daemonSet("1500m")}
		}, want: "a DaemonSets; b DaemonSets"},
		"claims of devices are not allocated": {change: func(_ *provision.ClusterSnapshot, p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
		}, want: "a ResourceClaims; b ResourceClaims"},
		"spreading over too few zones": {change: func(_ *provision.ClusterSnapshot, p *corev1.Pod) {
			domains := int32(9)
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, MinDomains: &domains, TopologyKey: "example.com/rack", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}
		}, want: "a Topology; b Topology"},
	} {
		t.Run(name, func(t *testing.T) {
			live := provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{nodePool("a", "m5.large"), nodePool("b", "c5.large")}}
			pod := pending("shop", "1")
			if test.change != nil {
				test.change(&live, pod)
			}
			got := diagnose(t, live, pod, test.volumes...)
			if diff := cmp.Diff(test.want, lacks(got)); diff != "" || got.Placed != test.placed {
				t.Errorf("placed %t (-want +got):\n%s\n%+v", got.Placed, diff, got)
			}
		})
	}
}

func daemonSet(cpu string) *appsv1.DaemonSet {
	out := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent"}}
	out.Spec.Template.Spec = pending("agent", cpu).Spec
	out.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return out
}

func TestTheSmallestTypeIsNamedWhereALimitLeavesNoneAndAllHaveAsMuchOfIt(t *testing.T) {
	pool := nodePool("a", "m5.2xlarge", "m5.4xlarge", "m5.xlarge")
	pool.Spec.Limits = karpv1.Limits{"nodes": resource.MustParse("0")}
	got := diagnose(t, provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool}}, pending("p", "1"))
	if len(got.Pools) != 1 || len(got.Pools[0].Reasons) != 1 || got.Pools[0].Reasons[0].InstanceType != "m5.xlarge" {
		t.Errorf("got %+v", got.Pools)
	}
}

func TestOtherPendingPodsCompeteForWhatALimitLeaves(t *testing.T) {
	for name, test := range map[string]struct {
		change func(limits karpv1.Limits, other *corev1.Pod)
		want   int
	}{
		"another pod takes the node that the limit leaves": {change: func(karpv1.Limits, *corev1.Pod) {}, want: 1},
		"one for which Karpenter seeks no node takes none": {change: func(_ karpv1.Limits, other *corev1.Pod) { other.Status.Conditions = nil }},
		"one that holds back behind a gate takes none": {change: func(_ karpv1.Limits, other *corev1.Pod) {
			other.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}}
		}},
		// Karpenter's scheduler takes from a limit of nodes only those that there are, and none that it launches in
		// the same run: both pods get one.
		"a limit of nodes leaves both one": {change: func(limits karpv1.Limits, _ *corev1.Pod) {
			delete(limits, "cpu")
			limits["nodes"] = resource.MustParse("1")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pool, other := nodePool("a", "m5.large"), pending("batch", "1500m")
			pool.Spec.Limits = karpv1.Limits{"cpu": resource.MustParse("2")}
			test.change(pool.Spec.Limits, other)
			got := diagnose(t, provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool}, Pods: []*corev1.Pod{other}}, pending("shop", "1"))
			if !got.Placed || got.CompetingPods != test.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestOfferedAreTheValuesThatAreSold(t *testing.T) {
	zone := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"us-east-1f"}}}}}
	for name, test := range map[string]struct {
		listed *pricelist.List
		change func(*karpv1.NodePool)
		want   []string
	}{
		"both zones of the subnets": {want: []string{"us-east-1a", "us-east-1b"}},
		"the zone that the pool requires": {change: func(p *karpv1.NodePool) {
			p.Spec.Template.Labels = map[string]string{corev1.LabelTopologyZone: "us-east-1b"}
		}, want: []string{"us-east-1b"}},
		"the zone in which EC2 has the type": {listed: &pricelist.List{Region: "us-east-1", Zones: map[string][]string{"m5.large": {"us-east-1a"}}, ZonesAt: time.Unix(0, 0)}, want: []string{"us-east-1a"}},
	} {
		t.Run(name, func(t *testing.T) {
			pool := nodePool("a", "m5.large")
			if test.change != nil {
				test.change(pool)
			}
			live := provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{pool}, Cluster: provision.Cluster{Offerings: test.listed}}
			got := diagnose(t, live, pending("shop", "1"), diagnosis.Volume{Claim: "data", Terms: zone})
			if diff := cmp.Diff(test.want, got.Pools[0].Reasons[0].AvailableValues); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAlternativesThatAreNotTriedAreNamed(t *testing.T) {
	zones, others := make([]corev1.NodeSelectorTerm, 9), make([]corev1.NodeSelectorTerm, 9)
	for i := range zones {
		zones[i].MatchExpressions = []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprintf("us-east-1%c", 'i'-i)}}}
		others[i].MatchExpressions = []corev1.NodeSelectorRequirement{{Key: "karpenter.k8s.aws/instance-cpu", Operator: corev1.NodeSelectorOpNotIn, Values: []string{strconv.Itoa(900 + i)}}}
	}
	for name, test := range map[string]struct {
		affinity []corev1.NodeSelectorTerm
		volumes  []diagnosis.Volume
		unknown  int
		placed   bool
	}{
		"all are tried": {affinity: others[:7], volumes: []diagnosis.Volume{{Claim: "data", Terms: zones}}, placed: true},
		"some are not":  {affinity: others, volumes: []diagnosis.Volume{{Claim: "data", Terms: zones}}, unknown: 1, placed: true},
		// Of 729 those nine are tried in which the volumes are in one zone.
		"those that contradict themselves do not count": {volumes: []diagnosis.Volume{{Claim: "a", Terms: zones}, {Claim: "b", Terms: zones}, {Claim: "c", Terms: zones}}, placed: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := pending("shop", "1")
			if test.affinity != nil {
				pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: test.affinity}}}
			}
			got := diagnose(t, provision.ClusterSnapshot{NodePools: []*karpv1.NodePool{nodePool("a", "m5.large")}}, pod, test.volumes...)
			if got.Placed != test.placed || len(got.Unknown) != test.unknown {
				t.Errorf("placed %t, unknown %q", got.Placed, got.Unknown)
			}
		})
	}
}

func TestADiagnosisNeedsARegionAndATime(t *testing.T) {
	if _, err := diagnosis.Pod(t.Context(), provision.ClusterSnapshot{}, nil, pending("shop", "1"), nil); err == nil {
		t.Error("no error")
	}
}
