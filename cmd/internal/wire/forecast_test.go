package wire

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// fleetObjects are a cluster with one GPU node of the pool "gpu".
func fleetObjects(t *testing.T) []client.Object {
	t.Helper()
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
	class.Spec.Role = "node"
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	pool.Spec.Disruption = karpv1.Disruption{ConsolidateAfter: karpv1.MustParseNillableDuration("1m"), Budgets: []karpv1.Budget{{Nodes: "1"}}}
	pool.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
		NodeClassRef: &karpv1.NodeClassReference{Group: awsapis.Group, Kind: "EC2NodeClass", Name: "gpu"},
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"g4dn.xlarge"}}},
	}
	labels := map[string]string{
		karpv1.NodePoolLabelKey: "gpu", corev1.LabelInstanceTypeStable: "g4dn.xlarge", karpv1.CapacityTypeLabelKey: "on-demand",
		corev1.LabelTopologyZone: "eu-west-1a", corev1.LabelArchStable: "amd64", karpv1.NodeInitializedLabelKey: "true", karpv1.NodeRegisteredLabelKey: "true",
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1", Labels: labels, CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}}
	// As Karpenter stamps them.
	class.Annotations = map[string]string{awsv1.AnnotationEC2NodeClassHash: "1", awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion}
	pool.Annotations = map[string]string{karpv1.NodePoolHashAnnotationKey: pool.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion}
	claim.Annotations = maps.Clone(class.Annotations)
	maps.Copy(claim.Annotations, pool.Annotations)
	claim.Spec.NodeClassRef = pool.Spec.Template.Spec.NodeClassRef
	claim.Status.ProviderID, claim.Status.NodeName = "aws:///eu-west-1a/i-1", "node-1"
	for _, condition := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(condition)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: labels}, Spec: corev1.NodeSpec{ProviderID: claim.Status.ProviderID}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), "nvidia.com/gpu": resource.MustParse("1")}
	return []client.Object{eks(nil), class, pool, claim, n}
}

func content(t *testing.T, o runtime.Object) map[string]any {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	out["apiVersion"], out["kind"] = kinds[0].GroupVersion().String(), kinds[0].Kind
	delete(out, "status")
	return out
}

func foretold(t *testing.T, objects []client.Object, changes ...plan.Change) *provision.Forecast {
	t.Helper()
	if _, err := DirectClient(&rest.Config{Host: "http://127.0.0.1:1"}); err != nil { // registers the kinds
		t.Fatal(err)
	}
	f, err := foresee(t.Context(), &stock{reader: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()}, inProcess, change{changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAPlanForetellsWhatBecomesOfNodes(t *testing.T) {
	objects := fleetObjects(t)
	key := func(group, kind string) state.Key {
		return state.Key{Target: "cluster", Group: group, Kind: kind, Name: "gpu"}
	}
	class, _ := objects[1].DeepCopyObject().(*awsv1.EC2NodeClass)
	class.Spec.UserData = new("echo changed")
	changedClass := plan.Change{Key: key(awsapis.Group, "EC2NodeClass"), Action: plan.Update, Before: &state.Item{}, After: &state.Item{Object: content(t, class)}}
	gone := plan.Change{Key: key("karpenter.sh", "NodePool"), Action: plan.Delete, Before: &state.Item{}}
	weighed, _ := objects[2].DeepCopyObject().(*karpv1.NodePool)
	weighed.Spec.Weight = new(int32(7))
	heavier := plan.Change{Key: key("karpenter.sh", "NodePool"), Action: plan.Update, Before: &state.Item{}, After: &state.Item{Object: content(t, weighed)}}

	replaced := func(f *provision.Forecast) (out []string) {
		for _, n := range f.Replaced {
			out = append(out, n.NodeClaim+" "+n.Reason)
		}
		return out
	}
	if diff := cmp.Diff([]string{"gpu-1 NodeClassDrift"}, replaced(foretold(t, objects, changedClass))); diff != "" {
		t.Errorf("a changed class: %s", diff)
	}
	if f := foretold(t, objects, heavier); len(f.Replaced)+len(f.Removed) > 0 || len(f.Pools) != 1 {
		t.Errorf("another weight: %+v", f)
	}
	if f := foretold(t, objects, gone); len(f.Removed) != 1 || f.Removed[0].Pool != "gpu" || len(f.Removed[0].Nodes) != 1 {
		t.Errorf("a pool that goes: %+v", f.Removed)
	}
	broken := plan.Change{Key: state.Key{Target: "cluster", Group: "karpenter.sh", Kind: "NodePool", Name: "other"}, Action: plan.Create,
		After: &state.Item{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": "other"}, "spec": "none"}}}
	if f := foretold(t, objects, broken, changedClass); len(f.Replaced) != 1 || !slices.ContainsFunc(f.Unknown, func(s string) bool { return strings.Contains(s, "NodePool.karpenter.sh/other") }) {
		t.Errorf("one pool that cannot be read takes away what is told of the other: %+v", f)
	}
	if f := foretold(t, objects[1:], changedClass); f != nil {
		t.Errorf("without a Cluster nobody knows the region, and yet: %+v", f)
	}
}

// inProcess compares without a child, which a test's binary cannot be.
func inProcess(ctx context.Context, settings engine.Settings, before, after provision.Fleet) (provision.Forecast, error) {
	types, err := catalog.Load()
	if err != nil {
		return provision.Forecast{}, err
	}
	return simulate.Compare(engine.Offline(ctx, settings), before, after, types)
}

func TestAPlanWithoutPoolsForetellsNothing(t *testing.T) {
	unreachable, err := DirectClient(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	told := forecasting(&stock{reader: unreachable}, inProcess)
	other := change{changes: []plan.Change{{Key: state.Key{Target: "cluster", Kind: "ConfigMap", Name: "c"}, Action: plan.Create, After: &state.Item{}}}}
	if f, err := told(t.Context(), other); f != nil || err != nil {
		t.Errorf("%+v", f)
	}
	pool := change{changes: []plan.Change{{Key: state.Key{Target: "cluster", Group: "karpenter.sh", Kind: "NodePool", Name: "p"}, Action: plan.Create, After: &state.Item{}}}}
	if f := saying(told(t.Context(), pool)); f == nil || len(f.Unknown) != 1 {
		t.Errorf("a cluster that cannot be read is no reason to show no plan, but is told: %+v", f)
	}
}
