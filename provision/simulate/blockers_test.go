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

// relabelled is the pool with another label, which replaces its nodes.
func relabelled(t testing.TB) provision.ClusterSnapshot {
	return read(t, strings.Replace(pool, "{team: ml}", "{team: vision}", 1), class)
}

func TestWhatStandsInTheWay(t *testing.T) {
	type way struct {
		Blockers []string
		Blocked  int
		Never    bool
	}
	tests := map[string]struct {
		make func(*provision.ClusterSnapshot, *karpv1.NodeClaim, *corev1.Node)
		want way
	}{
		"nothing": {func(*provision.ClusterSnapshot, *karpv1.NodeClaim, *corev1.Node) {}, way{}},
		"a budget of its pods that allows no eviction": {
			func(f *provision.ClusterSnapshot, _ *karpv1.NodeClaim, _ *corev1.Node) { budget(f, "pod", 0) },
			way{[]string{"pdb default/pod [default/pod]"}, 1, true}},
		"a budget that allows one": {
			func(f *provision.ClusterSnapshot, _ *karpv1.NodeClaim, _ *corev1.Node) { budget(f, "pod", 1) }, way{}},
		"a budget under a termination grace period delays": {
			func(f *provision.ClusterSnapshot, c *karpv1.NodeClaim, _ *corev1.Node) {
				budget(f, "pod", 0)
				c.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
			}, way{[]string{"pdb default/pod [default/pod] 3600s"}, 0, false}},
		"a pod that must not be disrupted": {
			func(f *provision.ClusterSnapshot, _ *karpv1.NodeClaim, _ *corev1.Node) {
				f.Pods[0].Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
			}, way{[]string{"do-not-disrupt default/pod []"}, 1, true}},
		"a pod that must not be disrupted in its first hour, which is over": {
			func(f *provision.ClusterSnapshot, _ *karpv1.NodeClaim, _ *corev1.Node) {
				f.Pods[0].Annotations[karpv1.DoNotDisruptAnnotationKey] = "1h"
				f.Pods[0].Status.StartTime = &metav1.Time{Time: noon.Add(-2 * time.Hour)}
			}, way{}},
		"a node that must not be disrupted": {
			func(_ *provision.ClusterSnapshot, c *karpv1.NodeClaim, n *corev1.Node) {
				n.Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
				c.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
			}, way{[]string{"node / []"}, 1, true}},
		"a node that is not initialized": {
			func(_ *provision.ClusterSnapshot, _ *karpv1.NodeClaim, n *corev1.Node) {
				delete(n.Labels, karpv1.NodeInitializedLabelKey)
			},
			way{[]string{"starting / []"}, 1, true}},
		"a DaemonSet's pod with a budget moves nowhere and still blocks": {
			func(f *provision.ClusterSnapshot, _ *karpv1.NodeClaim, _ *corev1.Node) {
				f.Pods[0].OwnerReferences[0].Kind = "DaemonSet"
				f.Pods[0].Annotations[karpv1.DoNotDisruptAnnotationKey] = "true"
			}, way{[]string{"do-not-disrupt default/pod []"}, 1, true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := read(t, pool, class)
			claim, node := run(&before, "gpu", "a", time.Hour)
			pod(&before, "pod", "node-a")
			tt.make(&before, claim, node)
			got := compare(t, before, relabelled(t))
			if len(got.Replaced) != 1 {
				t.Fatalf("replaced: %v", replacedText(got.Replaced))
			}
			var is way
			is.Blocked, is.Never = got.Rollout.Blocked, got.Rollout.Incomplete
			for _, b := range got.Replaced[0].Blockers {
				text := fmt.Sprint(b.Kind, " ", b.Pod.Namespace, "/", b.Pod.Name, " ", b.PodDisruptionBudgets)
				if b.ForcedAfterSeconds > 0 {
					text += fmt.Sprint(" ", b.ForcedAfterSeconds, "s")
				}
				is.Blockers = append(is.Blockers, text)
			}
			if diff := cmp.Diff(tt.want, is); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPoolThatGoesTakesItsNodesWithIt(t *testing.T) {
	got := compare(t, three(t, pool, class), read(t, class))
	if len(got.Removed) != 1 || got.Removed[0].Pool != "gpu" || got.Removed[0].Pods != 3 || len(got.Removed[0].Nodes) != 3 {
		t.Errorf("removed: %+v", got.Removed)
	}
	if len(got.Replaced) != 0 || got.Rollout.Nodes != 0 {
		t.Errorf("nodes of a pool that goes are told as replaced: %v", replacedText(got.Replaced))
	}
	if total := got.Cost.After.Most(); total != 0 {
		t.Errorf("nothing is left, and it costs $%v/h", total)
	}
	if len(got.PodScheduling.NewlyUnschedulable) != 3 {
		t.Errorf("three pods lose their nodes, told: %+v", got.PodScheduling.NewlyUnschedulable)
	}
}

func TestNodesMadeByAnotherKarpenterAreUnknown(t *testing.T) {
	tests := map[string]struct {
		change func(*karpv1.NodeClaim)
		after  func(testing.TB) provision.ClusterSnapshot
		want   string
	}{
		"a pool's hash of another version": {
			func(c *karpv1.NodeClaim) { c.Annotations[karpv1.NodePoolHashVersionAnnotationKey] = "v2" }, relabelled,
			"NodePool gpu: nodes with a hash of version v2"},
		"no hash of the pool": {
			func(c *karpv1.NodeClaim) { delete(c.Annotations, karpv1.NodePoolHashVersionAnnotationKey) }, relabelled,
			"NodePool gpu: nodes without the annotation"},
		"a class's hash of another version": {
			func(c *karpv1.NodeClaim) { c.Annotations[awsv1.AnnotationEC2NodeClassHashVersion] = "v4" },
			func(t testing.TB) provision.ClusterSnapshot {
				return read(t, pool, strings.Replace(class, "50Gi", "60Gi", 1))
			},
			"EC2NodeClass gpu: nodes with a hash of version v4"},
		"no hash of the class": {
			func(c *karpv1.NodeClaim) { delete(c.Annotations, awsv1.AnnotationEC2NodeClassHashVersion) },
			func(t testing.TB) provision.ClusterSnapshot {
				return read(t, pool, strings.Replace(class, "50Gi", "60Gi", 1))
			},
			"EC2NodeClass gpu: nodes without the annotation"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := read(t, pool, class)
			claim, _ := run(&before, "gpu", "a", time.Hour)
			tt.change(claim)
			got := compare(t, before, tt.after(t))
			if len(got.Replaced) != 0 {
				t.Errorf("replaced: %v", replacedText(got.Replaced))
			}
			// maxNodesReplaced holds the change for Drift, not for the text.
			if len(got.Unknown) != 1 || !strings.HasPrefix(got.Unknown[0].Text, tt.want) || !got.Unknown[0].MoreReplaced {
				t.Errorf("unknown: %+v", got.Unknown)
			}
			if got = compare(t, before, before); len(got.Unknown) != 0 {
				t.Errorf("where nothing changes, unknown: %q", texts(got.Unknown))
			}
		})
	}
}

// What only AWS can find for a selector may replace more nodes: maxNodesReplaced holds the change.
func TestASelectorThatOnlyAWSResolvesMayReplaceMoreNodes(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"images by another alias":            {"al2023@v20261001", "al2023@v20261101", "EC2NodeClass gpu: spec.amiSelectorTerms changes"},
		"security groups by a tag":           {"{id: sg-1}", "{tags: {cluster: c}}", "EC2NodeClass gpu: spec.securityGroupSelectorTerms changes"},
		"subnets by another tag":             {"{tags: {cluster: c}}", "{tags: {cluster: d}}", "EC2NodeClass gpu: spec.subnetSelectorTerms changes"},
		"none, where the same ones are kept": {"{tags: {cluster: c}}", "{id: subnet-a}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := compare(t, three(t, pool, class), read(t, pool, strings.Replace(class, c.old, c.new, 1)))
			var drift []string
			for _, u := range got.Unknown {
				if u.MoreReplaced {
					drift = append(drift, u.Text)
				}
			}
			if c.want == "" && len(drift) > 0 || c.want != "" && (len(drift) != 1 || !strings.HasPrefix(drift[0], c.want)) {
				t.Errorf("more nodes may be replaced: %q, want %q", drift, c.want)
			}
		})
	}
}

func TestWithoutTheAuthorityAClassIsComparedByItsOwnHash(t *testing.T) {
	before := read(t, pool, class)
	claim, _ := run(&before, "gpu", "a", time.Hour)
	stale, _ := run(&before, "gpu", "b", 2*time.Hour)
	stale.Annotations[awsv1.AnnotationEC2NodeClassHash] = "1"
	before.Cluster.CABundle = ""
	before.NodeClasses[0].Annotations = map[string]string{
		awsv1.AnnotationEC2NodeClassHash: claim.Annotations[awsv1.AnnotationEC2NodeClassHash], awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion,
	}
	got := compare(t, before, read(t, pool, strings.Replace(class, "50Gi", "60Gi", 1)))
	if diff := cmp.Diff([]string{"a NodeClassDrift [EC2NodeClass/gpu spec.blockDeviceMappings]"}, replacedText(got.Replaced)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b NodeClassDrift []"}, replacedText(got.Drifted)); diff != "" {
		t.Error(diff)
	}
}

func TestAnAliasThatWouldEndTheProcessIsUnknown(t *testing.T) {
	after := read(t, pool, strings.Replace(class, "al2023@v20261001", "al2023", 1))
	got := compare(t, three(t, pool, class), after)
	if len(got.Unknown) == 0 || !strings.Contains(strings.Join(texts(got.Unknown), " "), `the AMI alias "al2023"`) {
		t.Errorf("unknown: %q", texts(got.Unknown))
	}
}

func TestNodesWithoutPodsGoFirstThenTheLongestMarked(t *testing.T) {
	before := three(t, pool, class)
	run(&before, "gpu", "empty", time.Minute)
	marked := before.NodeClaims[2]
	marked.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "NodePoolDrifted", "stale")
	var order []string
	for _, n := range compare(t, before, relabelled(t)).Replaced {
		order = append(order, n.NodeClaim)
	}
	if diff := cmp.Diff([]string{"empty", "c", "a", "b"}, order); diff != "" {
		t.Error(diff)
	}
}

func TestANodeStaysWhileItsPodsHaveNowhereToGo(t *testing.T) {
	before := three(t, pool, class)
	before.Pods[0].Spec.Tolerations = append(before.Pods[0].Spec.Tolerations, corev1.Toleration{Key: "x", Operator: corev1.TolerationOpExists})
	got := compare(t, before, read(t, strings.Replace(pool, "taints: [", "taints: [{key: x, effect: NoSchedule}, ", 1), class))
	var stay []string
	for _, n := range got.Replaced {
		for _, b := range n.Blockers {
			stay = append(stay, n.NodeClaim+" "+string(b.Kind)+" "+b.Pod.Name)
		}
	}
	if diff := cmp.Diff([]string{"b unschedulable pod-b", "c unschedulable pod-c"}, stay); diff != "" {
		t.Error(diff)
	}
	if got.Rollout.Blocked != 2 || !got.Rollout.Incomplete {
		t.Errorf("%d blocked, never %t", got.Rollout.Blocked, got.Rollout.Incomplete)
	}
}

// texts are the sentences about what a forecast leaves open.
func texts(unknown []provision.Unknown) []string {
	out := make([]string, 0, len(unknown))
	for _, u := range unknown {
		out = append(out, u.Text)
	}
	return out
}
