package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
)

// owned by nobody.
func free(p *corev1.Pod) { p.OwnerReferences = nil }

// onePod declares the pod pod-a.
const onePod = "apiVersion: v1\nkind: Pod\nmetadata: {name: pod-a}\nspec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}"

func TestPodsThatNothingMakesAgain(t *testing.T) {
	type outlook struct {
		Alone       []string
		Unscheduled []string
		Blocked     int
		// After and Unblocked are in nodes of the type there is.
		After, Unblocked float64
	}
	bigger := strings.Replace(class, "50Gi", "60Gi", 1)
	tests := map[string]struct {
		after []string
		make  func(*provision.ClusterSnapshot)
		want  outlook
	}{
		"all pods have a controller": {[]string{pool, bigger}, func(*provision.ClusterSnapshot) {}, outlook{After: 3, Unblocked: 3}},
		"one has none, and nothing is left of its node": {[]string{pool, bigger}, func(f *provision.ClusterSnapshot) { free(f.Pods[0]) },
			outlook{Alone: []string{"pod-a"}, After: 2, Unblocked: 2}},
		"one has none, and an empty node is never taken away": {[]string{strings.Replace(pool, "consolidateAfter: 1m", "consolidateAfter: Never", 1), bigger},
			func(f *provision.ClusterSnapshot) { free(f.Pods[0]) }, outlook{Alone: []string{"pod-a"}, After: 3, Unblocked: 3}},
		"one has none and is declared": {[]string{pool, bigger, onePod}, func(f *provision.ClusterSnapshot) { free(f.Pods[0]) },
			outlook{After: 3, Unblocked: 3}},
		"one has none and no other node would take it": {[]string{tainted, class}, func(f *provision.ClusterSnapshot) {
			free(f.Pods[0])
			for _, p := range f.Pods[1:] {
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "x", Operator: corev1.TolerationOpExists})
			}
		}, outlook{Alone: []string{"pod-a"}, Blocked: 1, After: 3, Unblocked: 2}},
		"all have none, and the pool goes": {[]string{class}, func(f *provision.ClusterSnapshot) {
			for _, p := range f.Pods {
				free(p)
			}
		}, outlook{Alone: []string{"pod-a", "pod-b", "pod-c"}}},
		"a node without pods is not made again": {[]string{pool, bigger}, func(f *provision.ClusterSnapshot) { f.Pods = f.Pods[1:] }, outlook{After: 2, Unblocked: 2}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := three(t, pool, class)
			tt.make(&before)
			got := compare(t, before, read(t, tt.after...))
			nodes := got.Replaced
			for _, r := range got.Removed {
				nodes = append(nodes, r.Nodes...)
			}
			var is outlook
			for _, n := range nodes {
				for _, p := range n.Pods {
					if p.WithoutController {
						is.Alone = append(is.Alone, p.Name)
					}
				}
			}
			for _, p := range got.PodScheduling.NewlyUnschedulable {
				is.Unscheduled = append(is.Unscheduled, p.Name)
			}
			is.Blocked = got.Rollout.Blocked
			is.After, is.Unblocked = inNodes(got.Cost)
			if diff := cmp.Diff(tt.want, is); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// inNodes is what is paid after the change, in nodes of the type of all three.
func inNodes(c provision.Cost) (after, unblocked float64) {
	one := c.Now.Most() / 3
	after = c.After.Most() / one
	if unblocked = after; c.Unblocked != nil {
		unblocked = c.Unblocked.Most() / one
	}
	round := func(f float64) float64 { return float64(int(f*100+0.5)) / 100 }
	return round(after), round(unblocked)
}

func TestWhatIsPaidWhileNodesAreKept(t *testing.T) {
	// g5.xlarge is 1.006 and g4dn.xlarge 0.526 an hour.
	moreExpensive := strings.Replace(pool, "[g4dn.xlarge, g5.xlarge]", "[g5.xlarge]", 1)
	hour := &metav1.Duration{Duration: time.Hour}
	tests := map[string]struct {
		after string
		make  func(*provision.ClusterSnapshot)
		want  string
	}{
		"none is kept":         {moreExpensive, func(*provision.ClusterSnapshot) {}, "3.018"},
		"one is kept for good": {moreExpensive, func(f *provision.ClusterSnapshot) { budget(f, "pod-a", 0) }, "2.538, unblocked 3.018"},
		"one is kept for a time": {moreExpensive, func(f *provision.ClusterSnapshot) {
			budget(f, "pod-a", 0)
			f.NodeClaims[0].Spec.TerminationGracePeriod = hour
		}, "3.018"},
		"one has yet to start": {moreExpensive, func(f *provision.ClusterSnapshot) {
			delete(f.Nodes[0].Labels, karpv1.NodeInitializedLabelKey)
		}, "3.018"},
		"no budget ever lets one go": {strings.Replace(moreExpensive, "consolidateAfter: 1m", "consolidateAfter: 1m, budgets: [{nodes: '0'}]", 1),
			func(*provision.ClusterSnapshot) {}, "1.578, unblocked 3.018"},
		"the type that there was is no more, nor any other": {strings.Replace(pool, "[g4dn.xlarge, g5.xlarge]", "[t3.nano9]", 1),
			func(*provision.ClusterSnapshot) {}, "1.578, unblocked 0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := three(t, pool, class)
			tt.make(&before)
			got := compare(t, before, read(t, tt.after, class)).Cost
			text := fmt.Sprint(got.After.Most())
			if got.Unblocked != nil {
				text += fmt.Sprint(", unblocked ", got.Unblocked.Most())
			}
			if text != tt.want {
				t.Errorf("after the change $%s/h, want $%s/h", text, tt.want)
			}
		})
	}
}

func TestWhatHoldsTheNodesOfAPoolThatGoes(t *testing.T) {
	other := strings.Replace(pool, "metadata: {name: gpu}", "metadata: {name: other}", 1)
	hour := &metav1.Duration{Duration: time.Hour}
	type removal struct {
		Held             []string
		Moving, Homeless int
		After            float64
		Notes            int
	}
	tests := map[string]struct {
		after []string
		make  func(*provision.ClusterSnapshot)
		want  removal
	}{
		"nothing, and their pods go elsewhere": {[]string{class, other}, func(*provision.ClusterSnapshot) {}, removal{Moving: 3, Notes: 1}},
		"nothing, and their pods go nowhere":   {[]string{class}, func(*provision.ClusterSnapshot) {}, removal{Homeless: 3, Notes: 1}},
		"a budget for good": {[]string{class, other}, func(f *provision.ClusterSnapshot) { budget(f, "pod-b", 0) },
			removal{Held: []string{"b pdb"}, Moving: 2, After: 1, Notes: 1}},
		"a budget until the grace period is over": {[]string{class, other}, func(f *provision.ClusterSnapshot) {
			budget(f, "pod-b", 0)
			f.NodeClaims[1].Spec.TerminationGracePeriod = hour
		}, removal{Held: []string{"b pdb 3600s"}, Moving: 3, Notes: 1}},
		"a pod that must not be disrupted": {[]string{class, other}, func(f *provision.ClusterSnapshot) {
			f.Pods[2].Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
		}, removal{Held: []string{"c do-not-disrupt"}, Moving: 2, After: 1, Notes: 1}},
		"not that the node itself must not be disrupted, nor that it is starting": {[]string{class, other}, func(f *provision.ClusterSnapshot) {
			f.Nodes[0].Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
			delete(f.Nodes[1].Labels, karpv1.NodeInitializedLabelKey)
		}, removal{Moving: 3, Notes: 1}},
		"not a pod that is not drained": {[]string{class, other}, func(f *provision.ClusterSnapshot) {
			f.Pods[0].Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
			f.Pods[0].Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, removal{Moving: 3, Notes: 1}},
		"not a pod whose workload goes with it": {[]string{class}, func(f *provision.ClusterSnapshot) {
			*f = withServe(t, *f)
			budget(f, "serve-1f-a", 0)
		}, removal{Homeless: 3, Notes: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := three(t, pool, class)
			tt.make(&before)
			got := compare(t, before, read(t, tt.after...))
			is := removal{Moving: got.Removed[0].Rescheduled, Homeless: got.Removed[0].Unschedulable, Notes: len(got.Cost.Notes)}
			for _, n := range got.Removed[0].Nodes {
				for _, b := range n.Blockers {
					text := n.NodeClaim + " " + string(b.Kind)
					if b.ForcedAfterSeconds > 0 {
						text += fmt.Sprint(" ", b.ForcedAfterSeconds, "s")
					}
					is.Held = append(is.Held, text)
				}
			}
			is.After, _ = inNodes(got.Cost)
			if diff := cmp.Diff(tt.want, is); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// withServe is the snapshot with a declared workload, of which a pod runs on node a.
func withServe(t testing.TB, f provision.ClusterSnapshot) provision.ClusterSnapshot {
	f.Workloads = read(t, serve).Workloads
	pod(&f, "serve-1f-a", "node-a", of("ReplicaSet", "serve-1f"))
	return f
}

func TestLimitsBelowWhatIsUsed(t *testing.T) {
	tests := map[string]struct {
		before, after string
		want          []provision.ExceededLimit
	}{
		"a limit lowered below":           {"nvidia.com/gpu: 8", "nvidia.com/gpu: 2", []provision.ExceededLimit{{Resource: "nvidia.com/gpu", Used: "3", Limit: "2"}}},
		"a limit lowered to what is used": {"nvidia.com/gpu: 8", "nvidia.com/gpu: 3", nil},
		"two limits, one of them new":     {"nvidia.com/gpu: 8", "nvidia.com/gpu: 1, nodes: 2", []provision.ExceededLimit{{Resource: "nodes", Used: "3", Limit: "2"}, {Resource: "nvidia.com/gpu", Used: "3", Limit: "1"}}},
		"a limit that was too low before": {"nvidia.com/gpu: 2", "nvidia.com/gpu: 2", nil},
		"a limit that goes":               {"nvidia.com/gpu: 2", "cpu: 100", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			limits := func(text string) string { return strings.Replace(pool, "nvidia.com/gpu: 8", text, 1) }
			got := compare(t, three(t, limits(tt.before), class), read(t, limits(tt.after), class))
			if diff := cmp.Diff(tt.want, got.Pools[0].OverLimit); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatDriftsWhereNoNodeIsKnown(t *testing.T) {
	tests := map[string]struct{ old, new, want string }{
		"nothing":                          {"{team: ml}", "{team: ml}", ""},
		"a taint":                          {"taints: [", "taints: [{key: x, effect: NoSchedule}, ", "every"},
		"a volume of the class":            {"50Gi", "60Gi", "every"},
		"a lower limit":                    {"nvidia.com/gpu: 8", "nvidia.com/gpu: 1", ""},
		"a budget":                         {"consolidateAfter: 1m", "consolidateAfter: 5m", ""},
		"another image of the same family": {"al2023@v20261001", "al2023@v20261101", "some"},
		"another group by id":              {"{id: sg-1}", "{id: sg-2}", "every"},
		"the same group written twice":     {"[{id: sg-1}]", "[{id: sg-1}, {id: sg-1}]", ""},
		"subnets by id":                    {"[{tags: {cluster: c}}]", "[{id: subnet-a}]", "some"},
		"types more":                       {"[g4dn.xlarge, g5.xlarge]", "[g4dn.xlarge, g5.xlarge, g6.xlarge]", ""},
		"types less":                       {"[g4dn.xlarge, g5.xlarge]", "[g5.xlarge]", "some"},
		"types others":                     {"[g4dn.xlarge, g5.xlarge]", "[g6.xlarge]", "every"},
		"a requirement that all nodes met": {"      - {key: kubernetes.io/os,", "      - {key: kubernetes.io/arch, operator: In, values: [amd64]}\n      - {key: kubernetes.io/os,", ""},
		"a label that no node has":         {"      - {key: kubernetes.io/os,", "      - {key: rack, operator: In, values: [r1]}\n      - {key: kubernetes.io/os,", "every"},
		"spot instead of on demand":        {"[on-demand]", "[spot]", "every"},
		"spot beside on demand":            {"[on-demand]", "[spot, on-demand]", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			after := read(t, strings.Replace(pool, tt.old, tt.new, 1), strings.Replace(class, tt.old, tt.new, 1))
			for _, before := range []provision.ClusterSnapshot{read(t, pool, class), three(t, pool, class)} {
				got := compare(t, before, after).Pools[0]
				is := map[[2]bool]string{{true, false}: "every", {false, true}: "some"}[[2]bool{got.ReplacesAll, got.ReplacesSome}]
				if is != tt.want {
					t.Errorf("%d nodes known: %q drift, want %q", got.Nodes, is, tt.want)
				}
				if why := len(reasons(got)) > 0; got.Nodes == 0 && why != (tt.want != "") {
					t.Errorf("the reasons are %q, and %q drift", reasons(got), tt.want)
				}
			}
		})
	}
}

func reasons(p provision.Pool) (out []string) {
	for _, ch := range p.Changes {
		if ch.Reason != "" {
			out = append(out, ch.Reason)
		}
	}
	return out
}

func TestZonesAreUncertainOnlyWhereSomethingRequiresThem(t *testing.T) {
	spec := func(text string) string {
		return strings.Replace(serve, "    spec:\n", "    spec:\n      "+text+"\n", 1)
	}
	zoned := func(zone string) string {
		return strings.Replace(pool, "      - {key: kubernetes.io/os,", "      - {key: topology.kubernetes.io/zone, operator: In, values: ["+zone+"]}\n      - {key: kubernetes.io/os,", 1)
	}
	tests := map[string]struct {
		after     []string
		uncertain bool
	}{
		"nothing requests":              {[]string{tainted, class, serve}, false},
		"a pod requests one":            {[]string{pool, class, spec("nodeSelector: {topology.kubernetes.io/zone: us-east-1b}")}, true},
		"a pod spreads over what is":    {[]string{pool, class, spec("topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]")}, false},
		"a pod spreads over so many":    {[]string{pool, class, spec("topologySpreadConstraints: [{maxSkew: 1, minDomains: 3, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]")}, true},
		"a pool requires one of them":   {[]string{zoned("us-east-1b"), class}, false},
		"a pool requires one of others": {[]string{zoned("us-west-2-lax-1a"), class}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before, after := read(t, pool, class), read(t, tt.after...)
			for _, c := range []*awsv1.EC2NodeClass{before.NodeClasses[0], after.NodeClasses[0]} {
				c.Status = awsv1.EC2NodeClassStatus{}
			}
			got := strings.Join(texts(compare(t, before, after).Unknown), "\n")
			if strings.Contains(got, "which zones its subnets are in") != tt.uncertain {
				t.Errorf("unknown: %q", got)
			}
		})
	}
}
