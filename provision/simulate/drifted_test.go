package simulate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate"
)

// became is a live snapshot of which the declarations are now others.
func became(t testing.TB, was provision.ClusterSnapshot, documents ...string) provision.ClusterSnapshot {
	is := read(t, documents...)
	was.NodePools, was.NodeClasses = is.NodePools, is.NodeClasses
	return was
}

// discovers has images be those of the class, and the nodes a and b of the images ami-1 and ami-2; that of c is not known.
func discovers(f *provision.ClusterSnapshot, images ...string) {
	for _, id := range images {
		f.NodeClasses[0].Status.AMIs = append(f.NodeClasses[0].Status.AMIs, awsv1.AMI{ID: id})
	}
	f.NodeClasses[0].Status.Conditions = []status.Condition{{Type: status.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: f.NodeClasses[0].Generation}}
	for i, id := range []string{"ami-1", "ami-2", ""} {
		f.NodeClaims[i].Status.ImageID = id
	}
}

func TestDriftedNodesOfALiveCluster(t *testing.T) {
	gone := metav1.NewTime(noon)
	tests := map[string]struct {
		make        func(*testing.T, *provision.ClusterSnapshot)
		want        []string
		uncertainty string
	}{
		"none when nothing differs": {func(*testing.T, *provision.ClusterSnapshot) {}, []string{}, ""},
		"all when the pool differs": {func(t *testing.T, f *provision.ClusterSnapshot) {
			*f = became(t, *f, tainted, class)
		}, []string{"a NodePoolDrifted", "b NodePoolDrifted", "c NodePoolDrifted"}, ""},
		"all when the class differs": {func(t *testing.T, f *provision.ClusterSnapshot) {
			*f = became(t, *f, pool, strings.Replace(class, "50Gi", "60Gi", 1))
		}, []string{"a NodeClassDrift", "b NodeClassDrift", "c NodeClassDrift"}, ""},
		"first those that Karpenter marked first, and what blocks them": {func(t *testing.T, f *provision.ClusterSnapshot) {
			*f = became(t, *f, tainted, class)
			f.NodeClaims[1].StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "NodePoolDrifted", "NodePoolDrifted")
			budget(f, "pod-a", 0)
		}, []string{"b NodePoolDrifted", "a NodePoolDrifted pdb", "c NodePoolDrifted"}, ""},
		"one on its way out until it is gone": {func(t *testing.T, f *provision.ClusterSnapshot) {
			*f = became(t, *f, tainted, class)
			f.NodeClaims = f.NodeClaims[:1]
			f.NodeClaims[0].DeletionTimestamp = &gone
		}, []string{"a NodePoolDrifted"}, ""},
		"none that goes for a reason of its own": {func(_ *testing.T, f *provision.ClusterSnapshot) {
			f.NodeClaims[0].DeletionTimestamp = &gone
		}, []string{}, ""},
		"one that has yet to start": {func(t *testing.T, f *provision.ClusterSnapshot) {
			*f = became(t, *f, tainted, class)
			f.NodeClaims, f.Nodes, f.Pods = f.NodeClaims[:1], nil, nil
			f.NodeClaims[0].Status = karpv1.NodeClaimStatus{}
		}, []string{"a NodePoolDrifted starting"}, ""},
		"not one that is being launched, whose type is unknown yet": {func(t *testing.T, f *provision.ClusterSnapshot) {
			f.NodeClaims, f.Nodes, f.Pods = f.NodeClaims[:1], nil, nil
			f.NodeClaims[0].Status = karpv1.NodeClaimStatus{}
			f.NodeClaims[0].Labels = map[string]string{karpv1.NodePoolLabelKey: "gpu"}
		}, []string{}, ""},
		"all of a pool that is gone": {func(_ *testing.T, f *provision.ClusterSnapshot) {
			f.NodePools = nil
		}, []string{"a NodePoolRemoved", "b NodePoolRemoved", "c NodePoolRemoved"}, ""},
		"all of a pool that is going": {func(_ *testing.T, f *provision.ClusterSnapshot) {
			f.NodePools[0].DeletionTimestamp = &gone
		}, []string{"a NodePoolRemoved", "b NodePoolRemoved", "c NodePoolRemoved"}, ""},
		"what AWS alone resolves is as Karpenter reports": {func(_ *testing.T, f *provision.ClusterSnapshot) {
			f.NodeClaims[2].StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "AMIDrift", "AMIDrift")
		}, []string{"c AMIDrift"}, ""},
		"a class of a pool without nodes is not uncertain": {func(t *testing.T, f *provision.ClusterSnapshot) {
			idle := f.NodePools[0].DeepCopy()
			idle.Name = "idle"
			idle.Spec.Template.Spec.NodeClassRef.Name = "nowhere"
			f.NodePools = append(f.NodePools, idle)
		}, []string{}, ""},
		"a class that is not there is reported": {func(_ *testing.T, f *provision.ClusterSnapshot) {
			f.NodeClasses = nil
		}, []string{}, "NodePool gpu: there is no usable EC2NodeClass gpu"},
		"a class that Karpenter has not observed since it changed is reported": {func(_ *testing.T, f *provision.ClusterSnapshot) {
			hash := f.NodeClaims[0].Annotations[awsv1.AnnotationEC2NodeClassHash]
			f.Cluster.CABundle = ""
			f.NodeClasses[0].Annotations = map[string]string{awsv1.AnnotationEC2NodeClassHash: hash, awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion}
			f.NodeClasses[0].StatusConditions().SetTrue(status.ConditionReady)
			f.NodeClasses[0].Generation++
		}, []string{}, "EC2NodeClass gpu: Karpenter has not reconciled its newest generation yet"},
		"a class that is not Ready for what it is now is reported": {func(_ *testing.T, f *provision.ClusterSnapshot) {
			f.NodeClasses[0].Status.Conditions = []status.Condition{{Type: status.ConditionReady, Status: metav1.ConditionFalse, Reason: "AMINotFound", ObservedGeneration: f.NodeClasses[0].Generation}}
		}, []string{}, "EC2NodeClass gpu is not Ready (AMINotFound)"},
		"a class of which it is Unknown whether it is Ready is reported": {func(_ *testing.T, f *provision.ClusterSnapshot) {
			f.NodeClasses[0].Status.Conditions = []status.Condition{{Type: status.ConditionReady, Status: metav1.ConditionUnknown, Reason: "AwaitingReconciliation", ObservedGeneration: f.NodeClasses[0].Generation}}
		}, []string{}, "EC2NodeClass gpu is not Ready (AwaitingReconciliation)"},
		"an image that the class has no more, before Karpenter has marked its nodes": {func(_ *testing.T, f *provision.ClusterSnapshot) {
			discovers(f, "ami-2", "ami-3")
		}, []string{"a AMIDrift"}, ""},
		"none by the images of a class of before its change": {func(_ *testing.T, f *provision.ClusterSnapshot) {
			discovers(f, "ami-2")
			f.NodeClasses[0].Generation++
		}, []string{}, ""},
		"none by a class for which AWS has found no image": {func(_ *testing.T, f *provision.ClusterSnapshot) {
			discovers(f)
		}, []string{}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			live := three(t, pool, class)
			tt.make(t, &live)
			nodes, unknown, err := simulate.Drifted(t.Context(), live)
			if err != nil {
				t.Fatal(err)
			}
			is := []string{}
			for _, n := range nodes {
				text := n.NodeClaim + " " + n.Reason
				for _, b := range n.Blockers {
					text += " " + string(b.Kind)
				}
				is = append(is, text)
			}
			if diff := cmp.Diff(tt.want, is); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for name := range unknown {
				if name != "gpu" {
					t.Errorf("unknown of a pool that has no nodes: %s", name)
				}
			}
			if all := strings.Join(unknown["gpu"], "\n"); !strings.HasPrefix(all, tt.uncertainty) || tt.uncertainty == "" && all != "" {
				t.Errorf("unknown: %s", all)
			}
		})
	}
}

// TestDriftedAgreesWithCompare looks at a cluster after a change as Compare did
// before it.
func TestDriftedAgreesWithCompare(t *testing.T) {
	before, after := three(t, pool, class), read(t, tainted, strings.Replace(class, "50Gi", "60Gi", 1))
	foretold := compare(t, before, after)
	now, _, err := simulate.Drifted(t.Context(), became(t, before, tainted, strings.Replace(class, "50Gi", "60Gi", 1)))
	if err != nil {
		t.Fatal(err)
	}
	names := func(nodes []provision.Node) (out []string) {
		for _, n := range nodes {
			out = append(out, fmt.Sprint(n.NodeClaim, n.Reason, n.Pods))
		}
		return out
	}
	if diff := cmp.Diff(names(foretold.Replaced), names(now)); diff != "" {
		t.Error(diff)
	}
}

func TestDriftedEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := simulate.Drifted(ctx, three(t, pool, class)); err == nil {
		t.Error("there is no error")
	}
	if _, _, err := simulate.Drifted(t.Context(), provision.ClusterSnapshot{}); err == nil {
		t.Error("there is no error without a time")
	}
}

// BenchmarkDrifted looks at 500 nodes, all of which are to go.
func BenchmarkDrifted(b *testing.B) {
	live := large(b)
	for _, c := range live.NodeClasses {
		c.Spec.Tags = map[string]string{"cost": "1"}
	}
	for b.Loop() {
		start := time.Now()
		nodes, _, err := simulate.Drifted(b.Context(), live)
		if err != nil || len(nodes) != 500 {
			b.Fatal(len(nodes), err)
		}
		if took := time.Since(start); took > time.Second {
			b.Errorf("took %s, more than 1s", took)
		}
	}
}
