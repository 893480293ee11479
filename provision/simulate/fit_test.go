package simulate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/gpu"
)

// slices8 makes eight shares of each GPU of types with one.
const slices8 = `
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: shared}
spec:
  requirements:
  - {key: karpenter.k8s.aws/instance-gpu-count, operator: In, values: ["1"]}
  - {key: karpenter.sh/nodepool, operator: In, values: [gpu]}
  capacity: {nvidia.com/gpu: "8"}
`

// fits is the fit as short text.
func fits(f provision.PodScheduling) map[string][]string {
	out := map[string][]string{}
	for name, list := range map[string][]provision.Placement{"scheduled": f.NewlySchedulable, "unscheduled": f.NewlyUnschedulable, "waiting": f.Unschedulable} {
		for _, p := range list {
			text := strings.TrimSpace(p.Name + " " + p.Pool)
			if p.Similar > 0 {
				text += fmt.Sprint(" and ", p.Similar, " more")
			}
			out[name] = append(out[name], text)
		}
	}
	return out
}

func Requested(n string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		list := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(n)}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	}
}

func TestWhichPodsFindANode(t *testing.T) {
	tests := map[string]struct {
		before, after []string
		pods          func(*provision.ClusterSnapshot)
		want          map[string][]string
	}{
		"a pod that waits and will be served anyway is not reported": {
			[]string{pool, class}, []string{pool, class},
			func(f *provision.ClusterSnapshot) { pod(f, "one", "") }, map[string][]string{}},
		"a pod too large for any node waits either way": {
			[]string{pool, class}, []string{pool, class},
			func(f *provision.ClusterSnapshot) { pod(f, "four", "", Requested("4")) }, map[string][]string{"waiting": {"four"}}},
		"a larger type lets it in": {
			[]string{pool, class}, []string{strings.Replace(pool, "[g4dn.xlarge,", "[g5.12xlarge,", 1), class},
			func(f *provision.ClusterSnapshot) { pod(f, "four", "", Requested("4")) }, map[string][]string{"scheduled": {"four gpu"}}},
		"shares of GPUs let it in": {
			[]string{pool, class}, []string{pool, class, slices8},
			func(f *provision.ClusterSnapshot) { pod(f, "four", "", Requested("4")) }, map[string][]string{"scheduled": {"four gpu"}}},
		"shares that go shut it out": {
			[]string{pool, class, slices8}, []string{pool, class},
			func(f *provision.ClusterSnapshot) { pod(f, "four", "", Requested("4")) }, map[string][]string{"unscheduled": {"four"}}},
		"a limit lowered to nothing shuts it out": {
			[]string{pool, class}, []string{strings.Replace(pool, "nvidia.com/gpu: 8", "nvidia.com/gpu: 0", 1), class},
			func(f *provision.ClusterSnapshot) { pod(f, "one", "") }, map[string][]string{"unscheduled": {"one"}}},
		"a taint that a running pod does not tolerate drives it out": {
			[]string{pool, class}, []string{strings.Replace(pool, "taints: [", "taints: [{key: x, effect: NoSchedule}, ", 1), class},
			func(f *provision.ClusterSnapshot) {
				_, node := run(f, "gpu", "a", time.Hour)
				pod(f, "runs", node.Name)
			}, map[string][]string{"unscheduled": {"runs"}}},
		"a pod that runs on a node that stays is not reported": {
			[]string{pool, class}, []string{strings.Replace(pool, "nvidia.com/gpu: 8", "nvidia.com/gpu: 1", 1), class},
			func(f *provision.ClusterSnapshot) {
				_, node := run(f, "gpu", "a", time.Hour)
				pod(f, "runs", node.Name)
			}, map[string][]string{}},
		"pods of a pool that goes find another": {
			[]string{pool, class, strings.Replace(pool, "metadata: {name: gpu}", "metadata: {name: other}", 1)},
			[]string{class, strings.Replace(pool, "metadata: {name: gpu}", "metadata: {name: other}", 1)},
			func(f *provision.ClusterSnapshot) {
				_, node := run(f, "gpu", "a", time.Hour)
				pod(f, "runs", node.Name)
			}, map[string][]string{}},
		"shares of a node that are recorded are there while its plugin restarts": {
			[]string{strings.Replace(pool, "nvidia.com/gpu: 8", "nvidia.com/gpu: 0", 1), class}, []string{pool, class, slices8},
			func(f *provision.ClusterSnapshot) {
				_, node := run(f, "gpu", "a", time.Hour)
				node.Annotations[gpu.AllocatableAnnotation] = "nvidia.com/gpu=8"
				node.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("0")
				pod(f, "four", "", Requested("4"))
			}, map[string][]string{}},
		"two that must not share a host need two": {
			[]string{pool, class}, []string{strings.Replace(pool, "nvidia.com/gpu: 8", "nvidia.com/gpu: 1", 1), class},
			func(f *provision.ClusterSnapshot) {
				for _, name := range []string{"x", "y"} {
					pod(f, name, "", func(p *corev1.Pod) {
						p.Labels = map[string]string{"app": "z"}
						p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
							RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
								TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}},
						}}
					})
				}
			}, map[string][]string{"unscheduled": {"y"}}},
		"of many alike one is tried": {
			[]string{pool, class}, []string{pool, class},
			func(f *provision.ClusterSnapshot) {
				for i := range 250 {
					pod(f, fmt.Sprintf("four-%03d", i), "", Requested("4"))
				}
			}, map[string][]string{"waiting": {"four-000 and 249 more"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := read(t, tt.before...)
			tt.pods(&before)
			got := compare(t, before, read(t, tt.after...))
			if diff := cmp.Diff(tt.want, fits(got.PodScheduling)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, p := range append(got.PodScheduling.Unschedulable, got.PodScheduling.NewlyUnschedulable...) {
				if p.Reason == "" {
					t.Errorf("no reason is given for %s", p.Name)
				}
			}
		})
	}
}

// Karpenter's scheduler without devices places a pod that claims some as if it claimed none: on any node, or on none.
func TestPodsThatClaimDevicesAreLeftOut(t *testing.T) {
	claims := func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	}
	for name, c := range map[string]struct {
		after []string
		pods  func(before, after *provision.ClusterSnapshot)
		want  map[string][]string
	}{
		"one that waits":                   {[]string{pool, class}, func(f, _ *provision.ClusterSnapshot) { pod(f, "one", "", claims) }, map[string][]string{}},
		"one that is only declared":        {[]string{pool, class}, func(_, f *provision.ClusterSnapshot) { pod(f, "new", "", claims) }, map[string][]string{}},
		"one beside one that does not fit": {[]string{pool, class}, func(f, _ *provision.ClusterSnapshot) { pod(f, "one", "", claims); pod(f, "four", "", Requested("4")) }, map[string][]string{"waiting": {"four"}}},
		"one whose node goes with its pool": {[]string{class}, func(f, _ *provision.ClusterSnapshot) {
			_, node := run(f, "gpu", "a", time.Hour)
			pod(f, "runs", node.Name, claims)
		}, map[string][]string{}},
		"one whose node is replaced": {[]string{strings.Replace(pool, "taints: [", "taints: [{key: x, effect: NoSchedule}, ", 1), class}, func(f, _ *provision.ClusterSnapshot) {
			_, node := run(f, "gpu", "a", time.Hour)
			pod(f, "runs", node.Name, claims)
		}, map[string][]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := read(t, pool, class), read(t, c.after...)
			c.pods(&before, &after)
			got := compare(t, before, after)
			if diff := cmp.Diff(c.want, fits(got.PodScheduling)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !slices.ContainsFunc(got.Unknown, func(u provision.Unknown) bool { return u.Code == "ResourceClaimsNotPlaced" }) {
				t.Errorf("nothing is reported as left out: %q", texts(got.Unknown))
			}
		})
	}
	before := read(t, pool, class)
	pod(&before, "four", "", Requested("4"))
	for _, u := range compare(t, before, read(t, pool, class)).Unknown {
		if u.Code == "ResourceClaimsNotPlaced" {
			t.Errorf("without a claim: %s", u.Text)
		}
	}
}

func TestPodsThatOnlyTheNewRevisionDeclares(t *testing.T) {
	after := read(t, pool, class)
	pod(&after, "new", "")
	pod(&after, "huge", "", Requested("64"))
	want := map[string][]string{"scheduled": {"new gpu"}, "waiting": {"huge"}}
	if diff := cmp.Diff(want, fits(compare(t, read(t, pool, class), after).PodScheduling)); diff != "" {
		t.Error(diff)
	}
}

func TestTheEnginesOptionsCount(t *testing.T) {
	text := strings.Replace(pool, "values: [g4dn.xlarge, g5.xlarge]", "values: [g4dn.xlarge, g5.xlarge], minValues: 3", 1)
	for policy, relaxed := range map[string]bool{"": false, "Strict": false, "BestEffort": true} {
		before := read(t, text, class)
		before.Cluster.MinValuesPolicy = policy
		pod(&before, "one", "")
		if got := compare(t, before, read(t, text, class)); len(got.PodScheduling.Unschedulable) == 0 != relaxed {
			t.Errorf("the policy is %q, and waiting %v", policy, got.PodScheduling.Unschedulable)
		}
	}
}

func TestAnOverlayReplacesNothing(t *testing.T) {
	got := compare(t, three(t, pool, class), read(t, pool, class, slices8))
	if len(got.Replaced) != 0 {
		t.Errorf("replaced: %v", replacedText(got.Replaced))
	}
	if diff := cmp.Diff([]provision.Change{{Object: "NodeOverlay/shared"}}, got.Pools[0].Changes); diff != "" {
		t.Error(diff)
	}
}

func TestAnOverlayThatContradictsAnotherIsReported(t *testing.T) {
	other := strings.NewReplacer("name: shared", "name: again", `"8"`, `"4"`).Replace(slices8)
	got := compare(t, three(t, pool, class), read(t, pool, class, slices8, other))
	if len(got.Unknown) != 1 || !strings.Contains(got.Unknown[0].Text, "is refused by Karpenter") {
		t.Errorf("unknown: %q", texts(got.Unknown))
	}
}

func TestAnOverlayWhosePriceIsNoNumberIsLeftOut(t *testing.T) {
	for name, field := range map[string]string{
		"a price that is no number":           `price: "d-1'"`,
		"a price of more digits than a float": "price: '" + strings.Repeat("9", 400) + "'",
		"a price that no sum can hold":        "price: '" + strings.Repeat("9", 308) + "'",
		"not a number":                        "price: NaN",
		"an infinite adjustment":              "priceAdjustment: +Inf",
		"a percentage of letters":             "priceAdjustment: +x%",
		"a percentage with two signs":         "priceAdjustment: '-5%%'",
		"a percentage without a sign":         "price: 5%",
	} {
		t.Run(name, func(t *testing.T) {
			overlay := strings.Replace(slices8, "capacity:", field+"\n  capacity:", 1)
			got := compare(t, three(t, pool, class), read(t, pool, class, overlay))
			if len(got.Unknown) != 1 || !strings.Contains(got.Unknown[0].Text, "NodeOverlay shared: its price") {
				t.Errorf("unknown: %q", texts(got.Unknown))
			}
			if _, err := json.Marshal(got); err != nil {
				t.Error(err)
			}
		})
	}
	for name, field := range map[string]string{"a price": "price: '1.5'", "less": "priceAdjustment: '-0.5'", "a percentage": "priceAdjustment: +10%"} {
		t.Run(name, func(t *testing.T) {
			overlay := strings.Replace(slices8, "capacity:", field+"\n  capacity:", 1)
			if got := compare(t, three(t, pool, class), read(t, pool, class, overlay)); len(got.Unknown) != 0 {
				t.Errorf("unknown: %q", texts(got.Unknown))
			}
		})
	}
}

func TestAnOverlayOfAnotherPoolIsNoChangeOfThisOne(t *testing.T) {
	got := compare(t, three(t, pool, class), read(t, pool, class, strings.Replace(slices8, "[gpu]", "[other]", 1)))
	if len(got.Pools[0].Changes) != 0 {
		t.Errorf("changes: %+v", got.Pools[0].Changes)
	}
}

func TestAPoolWithoutItsClassIsReported(t *testing.T) {
	got := compare(t, three(t, pool, class), read(t, pool))
	if len(got.Unknown) != 1 || !strings.HasPrefix(got.Unknown[0].Text, "NodePool gpu: there is no usable EC2NodeClass gpu") {
		t.Errorf("unknown: %q", texts(got.Unknown))
	}
}
