package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
)

const generalPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, c6i]}
      - {key: karpenter.k8s.aws/instance-size, operator: In, values: [xlarge, 2xlarge, 4xlarge]}
  disruption: {consolidateAfter: Never}
`

const cheaper = `
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: %[1]s}
spec:
  requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [%[1]s]}]
  priceAdjustment: "-50%%"
`

// generalNode adds a node of the pool with so many pods of so many CPUs.
func generalNode(snapshot *provision.ClusterSnapshot, name, instanceType, cpus string, pods int, each string) {
	claim, node := run(snapshot, "general", name, time.Hour)
	for key, value := range map[string]string{corev1.LabelInstanceTypeStable: instanceType, "karpenter.k8s.aws/instance-family": instanceType[:strings.Index(instanceType, ".")], "karpenter.k8s.aws/instance-size": instanceType[strings.Index(instanceType, ".")+1:]} {
		claim.Labels[key], node.Labels[key] = value, value
	}
	has := corev1.ResourceList{"cpu": resource.MustParse(cpus), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("58")}
	claim.Status.Capacity, claim.Status.Allocatable, node.Status.Capacity, node.Status.Allocatable = has, has, has, has
	for i := range pods {
		pod(snapshot, fmt.Sprint(name, "-", i), node.Name, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(each)}}
		})
	}
}

// comingTypes are the types of what comes in the place of the nodes, sorted, and what they cost.
func comingTypes(t *testing.T, before, after provision.ClusterSnapshot) (types []string, usd float64, f provision.Forecast) {
	t.Helper()
	f, replacements, err := simulate.CompareWithReplacements(engine.Offline(t.Context(), settings()), before, after, prices(t, "m5", "c6i"))
	if err != nil {
		t.Fatal(err)
	}
	types = []string{}
	for _, all := range replacements {
		for _, s := range all {
			types = append(types, s.InstanceType)
		}
	}
	slices.Sort(types)
	return types, f.Cost.After.OnDemand, f
}

func TestWhatIsForecastInThePlaceOfANodeIsWhatItsPodsNeed(t *testing.T) {
	type node struct {
		instanceType, cpus string
		pods               int
		each               string
	}
	tests := map[string]struct {
		nodes    []node
		overlays []string
		sizes    string
		want     []string
		usd      float64
	}{
		"the cheapest of the types that hold the pods":       {[]node{{"m5.xlarge", "4", 1, "3"}}, nil, "", []string{"c6i.xlarge"}, 0.17},
		"the one that an overlay makes the cheapest":         {[]node{{"c6i.xlarge", "4", 1, "3"}}, []string{"m5"}, "", []string{"m5.xlarge"}, 0.192},
		"a smaller one where the pods have become smaller":   {[]node{{"c6i.4xlarge", "16", 1, "1"}}, nil, "", []string{"c6i.xlarge"}, 0.17},
		"several where none of the sizes holds all the pods": {[]node{{"c6i.4xlarge", "16", 3, "3"}}, nil, "[xlarge]", []string{"c6i.xlarge", "c6i.xlarge", "c6i.xlarge"}, 0.51},
		"one for two nodes whose pods fit on one": {
			[]node{{"c6i.xlarge", "4", 1, "1"}, {"c6i.xlarge", "4", 1, "1"}}, nil, "", []string{"c6i.xlarge"}, 0.17},
		"none where the pods fit on what came before": {
			[]node{{"c6i.4xlarge", "16", 4, "3"}, {"c6i.xlarge", "4", 1, "1"}}, nil, "[4xlarge]", []string{"c6i.4xlarge"}, 0.68},
		"the same where nothing else is cheaper": {[]node{{"c6i.xlarge", "4", 1, "3"}}, nil, "", []string{"c6i.xlarge"}, 0.17},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var overlays []string
			for _, family := range tt.overlays {
				overlays = append(overlays, fmt.Sprintf(cheaper, family))
			}
			before := read(t, append(overlays, generalPool, class)...)
			for i, n := range tt.nodes {
				generalNode(&before, fmt.Sprint("n", i), n.instanceType, n.cpus, n.pods, n.each)
			}
			changed := strings.Replace(generalPool, "    spec:\n", "    metadata: {labels: {a: b}}\n    spec:\n", 1)
			if tt.sizes != "" {
				changed = strings.Replace(changed, "[xlarge, 2xlarge, 4xlarge]", tt.sizes, 1)
			}
			types, usd, f := comingTypes(t, before, read(t, append(overlays, changed, class)...))
			if diff := cmp.Diff(tt.want, types); diff != "" || len(f.Replaced) != len(tt.nodes) {
				t.Errorf("%d nodes are replaced, and what comes is (-want +got):\n%s", len(f.Replaced), diff)
			}
			if usd != tt.usd {
				t.Errorf("that costs $%g an hour, want $%g", usd, tt.usd)
			}
		})
	}
}

func TestOfManyReplacedNodesEachIsReplacedAlone(t *testing.T) {
	tests := map[string]struct {
		nodes, cpus int
		many        bool
		sizes       string
		assumptions int
		want        map[string]int
	}{
		"one after the other where they are few":                        {20, 3, false, "", 0, map[string]int{"c6i.4xlarge": 4}},
		"the cheapest that holds the pods of each":                      {31, 3, true, "", 1, map[string]int{"c6i.xlarge": 31}},
		"a larger one for more":                                         {31, 5, true, "", 1, map[string]int{"c6i.2xlarge": 31}},
		"the same where no type holds all pods, which is an assumption": {31, 9, true, "[xlarge, 2xlarge]", 2, map[string]int{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.many {
				defer simulate.SetMostWork(1)()
			}
			before := read(t, generalPool, class)
			for i := range tt.nodes {
				generalNode(&before, fmt.Sprintf("n%02d", i), "m5.4xlarge", "16", 1, fmt.Sprint(tt.cpus))
			}
			changed := strings.Replace(generalPool, "    spec:\n", "    metadata: {labels: {a: b}}\n    spec:\n", 1)
			if tt.sizes != "" {
				changed = strings.Replace(changed, "[xlarge, 2xlarge, 4xlarge]", tt.sizes, 1)
			}
			types, _, f := comingTypes(t, before, read(t, changed, class))
			got := map[string]int{}
			for _, one := range types {
				got[one]++
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("what comes is (-want +got):\n%s", diff)
			}
			if n := len(f.Rollout.Assumptions) - 5; n != tt.assumptions {
				t.Errorf("%d assumptions are reported of what comes, want %d: %q", n, tt.assumptions, f.Rollout.Assumptions)
			}
		})
	}
}

func TestPodsOfAReplacedNodeDoNotMoveToANodeThatComesForPodsThatWait(t *testing.T) {
	before := read(t, generalPool, class)
	generalNode(&before, "n", "c6i.xlarge", "2", 1, "1")
	pod(&before, "waits", "", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}}
	})
	after := read(t, strings.Replace(generalPool, "    spec:\n", "    metadata: {labels: {a: b}}\n    spec:\n", 1), class)
	types, usd, f := comingTypes(t, before, after)
	if diff := cmp.Diff([]string{"c6i.xlarge"}, types); diff != "" || usd != f.Cost.Now.OnDemand || usd == 0 {
		t.Errorf("$%g an hour become $%g, and what comes is (-want +got):\n%s", f.Cost.Now.OnDemand, usd, diff)
	}
}

func TestWhatIsTakenForGrantedOfReplacedNodesIsListed(t *testing.T) {
	label := func(pool string) string {
		return strings.Replace(pool, "    metadata: {labels: {team: ml}}\n", "    metadata: {labels: {team: other}}\n", 1)
	}
	const another, reserved, incomplete = "another NodePool", "capacity reservations", "no allowed instance type"
	tests := map[string]struct {
		before, after func() provision.ClusterSnapshot
		work          int
		want          []string
	}{
		"a node of another pool comes": {
			before: func() provision.ClusterSnapshot {
				out := read(t, generalPool, class)
				generalNode(&out, "n", "c6i.xlarge", "4", 1, "3")
				return out
			},
			after: func() provision.ClusterSnapshot {
				heavier := strings.NewReplacer("name: general", "name: heavier", "  disruption:", "  weight: 10\n  disruption:").Replace(generalPool)
				return read(t, strings.Replace(generalPool, "    spec:\n", "    metadata: {labels: {a: b}}\n    spec:\n", 1), heavier, class)
			},
			work: 40_000, want: []string{another},
		},
		"one in a capacity reservation is not simulated beside many": {
			before: func() provision.ClusterSnapshot {
				out := read(t, reservedClass, reservedPool("reserved"))
				reserve(&out, reservation(awsv1.CapacityReservationTypeDefault, 2, time.Time{}))
				runReserved(&out, "a")
				pod(&out, "on-a", "node-a")
				return out
			},
			after: func() provision.ClusterSnapshot {
				out := read(t, reservedClass, label(reservedPool("reserved")))
				reserve(&out, reservation(awsv1.CapacityReservationTypeDefault, 2, time.Time{}))
				return out
			},
			work: 1, want: []string{reserved},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			defer simulate.SetMostWork(tt.work)()
			got, err := simulate.Compare(engine.Offline(t.Context(), settings()), tt.before(), tt.after(), prices(t, "m5", "c6i", "g4dn", "g5"))
			if err != nil {
				t.Fatal(err)
			}
			var listed []string
			for _, assumption := range got.Rollout.Assumptions {
				for _, one := range []string{another, reserved, incomplete} {
					if strings.Contains(assumption, one) {
						listed = append(listed, one)
					}
				}
			}
			if diff := cmp.Diff(tt.want, listed); diff != "" || len(got.Replaced) != 1 {
				t.Errorf("%d nodes are replaced, and listed is (-want +got):\n%s", len(got.Replaced), diff)
			}
		})
	}
}

// What is launched for the pods of one node is what Karpenter's scheduler launches.
func TestTheNodeForPodsTogetherIsTheSchedulers(t *testing.T) {
	daemons := `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: c, resources: {requests: {cpu: 1200m}}}]
`
	tests := map[string]struct {
		more     []string
		overlays []string
		pods     int
		cpus     string
		pod      func(*corev1.Pod)
	}{
		"one pod":                         {pods: 1, cpus: "3"},
		"many pods":                       {pods: 12, cpus: "500m"},
		"a DaemonSet beside them":         {more: []string{daemons}, pods: 1, cpus: "3"},
		"a price that an overlay changes": {overlays: []string{"m5"}, pods: 1, cpus: "3"},
		"memory decides":                  {pods: 1, cpus: "1", pod: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("13Gi") }},
		"pods that select a family": {pods: 1, cpus: "3", pod: func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"karpenter.k8s.aws/instance-family": "m5"}
		}},
		"pods that select a size and a zone": {pods: 1, cpus: "1", pod: func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"karpenter.k8s.aws/instance-size": "2xlarge", corev1.LabelTopologyZone: "us-east-1a"}
		}},
		"pods that need all of the largest":   {pods: 1, cpus: "15"},
		"pods that only fit the general type": {pods: 2, cpus: "2", pod: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("20Gi") }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var documents []string
			for _, family := range tt.overlays {
				documents = append(documents, fmt.Sprintf(cheaper, family))
			}
			documents = append(append(documents, tt.more...), class)
			before := read(t, append(slices.Clone(documents), generalPool)...)
			generalNode(&before, "n", "m5.4xlarge", "16", tt.pods, tt.cpus)
			for _, p := range before.Pods {
				if tt.pod != nil {
					tt.pod(p)
				}
			}
			changed := strings.Replace(generalPool, "    spec:\n", "    metadata: {labels: {a: b}}\n    spec:\n", 1)
			after := read(t, append(slices.Clone(documents), changed)...)
			want, _, _ := comingTypes(t, before, after)
			defer simulate.SetMostWork(1)()
			got, _, _ := comingTypes(t, before, after)
			if diff := cmp.Diff(want, got); diff != "" || len(want) != 1 {
				t.Errorf("(-scheduler +together):\n%s", diff)
			}
		})
	}
}
