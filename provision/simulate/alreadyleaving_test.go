package simulate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
)

func TestPodsOfNodesThatGoAnywayMustFindOneOfThePoolsAsTheyBecome(t *testing.T) {
	const x = "taints: [{key: x, effect: NoSchedule}, "
	large := strings.Replace(class, "50Gi", "60Gi", 1)
	shut := strings.Replace(pool, "taints: [", x, 1)
	// drift makes the nodes of a class that an earlier change made another of.
	drift := func(f *provision.ClusterSnapshot) { *f = became(t, *f, pool, large) }
	tests := map[string]struct {
		make  func(*provision.ClusterSnapshot)
		after []string
		want  []string // pods that find none
		held  []string // nodes that stay for it
	}{
		"a taint that they do not tolerate": {drift, []string{shut, large}, []string{"pod-a", "pod-b", "pod-c"}, []string{"a", "b", "c"}},
		"but not those that tolerate it": {func(f *provision.ClusterSnapshot) {
			drift(f)
			f.Pods[0].Spec.Tolerations = append(f.Pods[0].Spec.Tolerations, corev1.Toleration{Key: "x", Operator: corev1.TolerationOpExists})
		}, []string{shut, large}, []string{"pod-b", "pod-c"}, []string{"b", "c"}},
		"a limit that leaves room for one":            {drift, []string{strings.Replace(pool, "gpu: 8", "gpu: 1", 1), large}, []string{"pod-b", "pod-c"}, []string{"b", "c"}},
		"nothing where the change leaves pools alone": {drift, []string{pool, large}, nil, nil},
		"nothing new where they found none before": {func(f *provision.ClusterSnapshot) {
			*f = became(t, *f, shut, class)
		}, []string{strings.Replace(shut, "1m", "2m", 1), class}, nil, []string{"a", "b", "c"}},
		"nothing where the change puts back what made them drift": {func(f *provision.ClusterSnapshot) {
			*f = became(t, *f, shut, class)
		}, []string{pool, class}, nil, nil},
		"nothing where the change puts back what made them drift and narrows its limit": {drift,
			[]string{strings.Replace(pool, "gpu: 8", "gpu: 0", 1), class}, nil, nil},
		"those that Karpenter found by requests to AWS": {func(f *provision.ClusterSnapshot) {
			f.NodeClaims[1].StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "AMIDrift", "AMIDrift")
		}, []string{strings.Replace(pool, "gpu: 8", "gpu: 0", 1), class}, []string{"pod-b"}, []string{"b"}},
		"those of a node on its way out": {func(f *provision.ClusterSnapshot) {
			f.NodeClaims[2].DeletionTimestamp = &metav1.Time{Time: noon}
		}, []string{strings.Replace(pool, "gpu: 8", "gpu: 0", 1), class}, []string{"pod-c"}, nil},
		"and those that the change replaces beside them, once": {func(f *provision.ClusterSnapshot) {
			f.NodeClaims[1].StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "AMIDrift", "AMIDrift")
		}, []string{shut, class}, []string{"pod-a", "pod-b", "pod-c"}, []string{"b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := three(t, pool, class)
			tt.make(&before)
			got := compare(t, before, read(t, tt.after...))
			if diff := cmp.Diff(tt.want, fits(got.PodScheduling)["unscheduled"]); diff != "" {
				t.Errorf("without a node (-want +got):\n%s", diff)
			}
			var held []string
			for _, n := range got.Drifted {
				for _, b := range n.Blockers {
					held = append(held, n.NodeClaim)
					if b.Kind != "unschedulable" {
						t.Errorf("held by %s", b.Kind)
					}
				}
			}
			if diff := cmp.Diff(tt.held, held); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
		})
	}
}

func TestManyPodsOfDriftedNodesAreTriedByShape(t *testing.T) {
	before := large(t)
	after := before
	for _, c := range before.NodeClaims {
		c.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "AMIDrift", "AMIDrift")
	}
	got := compare(t, before, after)
	if len(got.Drifted) != 500 || len(got.PodScheduling.NewlyUnschedulable) > 0 {
		t.Errorf("%d drifted, without a node: %v", len(got.Drifted), fits(got.PodScheduling))
	}
}
