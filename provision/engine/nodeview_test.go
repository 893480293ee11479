package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	nodehydration "sigs.k8s.io/karpenter/pkg/controllers/node/hydration"
	"sigs.k8s.io/karpenter/pkg/controllers/node/termination/terminator"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/controllers/state/informer"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/poolwright/poolwright/provision/engine/enginetest"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/startuptaint"
)

// nodeTransform is what the options for the engine's manager do to Nodes.
func nodeTransform(t *testing.T, eng *Engine, own manager.Options) toolscache.TransformFunc {
	t.Helper()
	for object, by := range eng.ManagerOptions(own).Cache.ByObject {
		if _, ok := object.(*corev1.Node); ok {
			return by.Transform
		}
	}
	return nil
}

func newEngine(t *testing.T, transform func(*corev1.Node)) *Engine {
	t.Helper()
	eng, err := New(Config{Settings: valid(), REST: &rest.Config{Host: "https://127.0.0.1:1"}, TransformNode: transform})
	if err != nil {
		t.Fatal(err)
	}
	return eng
}

func TestNodesEnterTheCacheAsTheyAreShown(t *testing.T) {
	if nodeTransform(t, newEngine(t, nil), manager.Options{}) != nil {
		t.Error("Nodes are changed though nobody asked for it")
	}
	eng := newEngine(t, func(n *corev1.Node) { n.Labels = map[string]string{"seen": n.Annotations["first"]} })
	broken := errors.New("broken")
	transform := nodeTransform(t, eng, manager.Options{Cache: cache.Options{DefaultTransform: func(object any) (any, error) {
		node, ok := object.(*corev1.Node)
		if ok && node.Name == "broken" {
			return nil, broken
		}
		if ok {
			node.Annotations = map[string]string{"first": "yes"}
		}
		return object, nil
	}}})
	got, err := transform(&corev1.Node{})
	if err != nil || got.(*corev1.Node).Labels["seen"] != "yes" {
		t.Errorf("became %+v, %v: the cache's own transform comes first", got, err)
	}
	if _, err := transform(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "broken"}}); !errors.Is(err, broken) {
		t.Error("the cache's own transform was skipped")
	}
	if pod, err := transform(&corev1.Pod{}); err != nil || pod == nil {
		t.Error("another kind did not pass")
	}
}

// gpuCloud has one instance type, with ten shares of a GPU.
type gpuCloud struct{ cloudprovider.CloudProvider }

func (gpuCloud) Name() string { return "test" }

func (gpuCloud) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&awsv1.EC2NodeClass{}}
}

func (gpuCloud) GetInstanceTypes(context.Context, *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	in := func(key, value string) *scheduling.Requirement {
		return scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, value)
	}
	at := []*scheduling.Requirement{in(corev1.LabelTopologyZone, "a"), in(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand)}
	return []*cloudprovider.InstanceType{{
		Name:         "g4dn.xlarge",
		Requirements: scheduling.NewRequirements(append(at, in(corev1.LabelInstanceTypeStable, "g4dn.xlarge"), in(corev1.LabelArchStable, "amd64"), in(corev1.LabelOSStable, "linux"))...),
		Offerings:    cloudprovider.Offerings{{Available: true, Price: 1, Requirements: scheduling.NewRequirements(at...)}},
		Capacity:     gpuNodeHas("10"), Overhead: &cloudprovider.InstanceTypeOverhead{},
	}}, nil
}

func gpuNodeHas(shares string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse("20"), gpu.Resource: resource.MustParse(shares),
	}
}

// restarting is an initialized node whose device plugin is just not there.
func restarting(offer string) (*karpv1.NodePool, *karpv1.NodeClaim, *corev1.Node) {
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "pool"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "gpu"}
	pool.StatusConditions().SetTrue(karpv1.ConditionTypeNodeClassReady)
	pool.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
	labels := map[string]string{
		karpv1.NodePoolLabelKey: "gpu", karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true",
		corev1.LabelInstanceTypeStable: "g4dn.xlarge", karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand, corev1.LabelTopologyZone: "a",
		corev1.LabelHostname: "node", corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", UID: "claim", Labels: labels}}
	claim.Spec.NodeClassRef = pool.Spec.Template.Spec.NodeClassRef
	claim.Status = karpv1.NodeClaimStatus{ProviderID: "aws:///a/i-1", NodeName: "node", Capacity: gpuNodeHas("10"), Allocatable: gpuNodeHas("10")}
	for _, condition := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(condition)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: labels, Annotations: map[string]string{gpu.AllocatableAnnotation: offer}}}
	node.Spec.ProviderID = claim.Status.ProviderID
	node.Status = corev1.NodeStatus{Capacity: gpuNodeHas("0"), Allocatable: gpuNodeHas("0"), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	return pool, claim, node
}

// cached is a client whose reads of Nodes come through the engine's cache
// transform. It also returns the API server, and what patches of Nodes said.
func cached(t *testing.T, objects ...client.Object) (through, api client.WithWatch, patches *[]string) {
	t.Helper()
	eng := newEngine(t, startuptaint.WithRecordedCapacity(logr.Discard()))
	transform := nodeTransform(t, eng, manager.Options{})
	api = enginetest.NewClientBuilder().WithObjects(objects...).Build()
	patches = &[]string{}
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := c.Get(ctx, key, object, options...); err != nil {
				return err
			}
			_, err := transform(object)
			return err
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := c.List(ctx, list, options...); err != nil {
				return err
			}
			if nodes, ok := list.(*corev1.NodeList); ok {
				for i := range nodes.Items {
					if _, err := transform(&nodes.Items[i]); err != nil {
						return err
					}
				}
			}
			return nil
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, ok := object.(*corev1.Node); ok {
				data, err := patch.Data(object)
				if err != nil {
					return err
				}
				*patches = append(*patches, string(data))
			}
			return c.Patch(ctx, object, patch, options...)
		},
		Update: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.UpdateOption) error {
			t.Errorf("%T is updated as a whole", object)
			return errors.New("not in this test")
		},
		SubResourceUpdate: func(_ context.Context, _ client.Client, _ string, object client.Object, _ ...client.SubResourceUpdateOption) error {
			t.Errorf("the status of %T is updated as a whole", object)
			return errors.New("not in this test")
		},
	}), api, patches
}

func TestAPluginThatRestartsMakesKarpenterBuyNothing(t *testing.T) {
	for name, c := range map[string]struct {
		offer  string
		claims int
	}{
		"what is recorded is counted":    {"nvidia.com/gpu=10", 0},
		"but not more than that":         {"nvidia.com/gpu=4", 1},
		"and nothing without our record": {"", 1},
	} {
		t.Run(name, func(t *testing.T) {
			pool, claim, node := restarting(c.offer)
			if c.offer == "" {
				node.Annotations = nil
			}
			through, _, _ := cached(t, pool, claim, node)
			ctx := newOptions(valid()).into(t.Context(), logr.Discard())
			cluster := state.NewCluster(clock.RealClock{}, through, gpuCloud{})
			cluster.UpdateNodeClaim(claim)
			if _, err := informer.NewNodeController(through, cluster).Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(node)}); err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "pod"}}
			five := corev1.ResourceList{gpu.Resource: resource.MustParse("5")}
			pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: five, Limits: five}}}
			provisioner := provisioning.NewProvisioner(through, events.NewRecorder(&record.FakeRecorder{}), gpuCloud{}, cluster, clock.RealClock{}, deviceallocation.NewController(through), nil)
			solver, err := provisioner.NewScheduler(ctx, []*corev1.Pod{pod}, cluster.DeepCopyNodes().Active(), nil)
			if err != nil {
				t.Fatal(err)
			}
			results, err := solver.Solve(ctx, []*corev1.Pod{pod})
			if err != nil || len(results.PodErrors) > 0 {
				t.Fatal(results.PodErrors, err)
			}
			if len(results.NewNodeClaims) != c.claims {
				t.Errorf("%d nodes are bought, want %d", len(results.NewNodeClaims), c.claims)
			}
		})
	}
}

// TestNothingThatKarpenterWritesHasTheRecordedCapacity runs Karpenter's writers of
// initialized Nodes.
func TestNothingThatKarpenterWritesHasTheRecordedCapacity(t *testing.T) {
	pool, claim, node := restarting("nvidia.com/gpu=10")
	through, api, patches := cached(t, pool, claim, node)
	ctx := newOptions(valid()).into(t.Context(), logr.Discard())
	got := func() *corev1.Node {
		t.Helper()
		n := &corev1.Node{}
		if err := through.Get(ctx, client.ObjectKeyFromObject(node), n); err != nil {
			t.Fatal(err)
		}
		if q := n.Status.Allocatable[gpu.Resource]; q.Value() != 10 {
			t.Fatalf("shown with %s", q.String())
		}
		return n
	}
	if _, err := nodehydration.NewController(through, gpuCloud{}).Reconcile(ctx, got()); err != nil {
		t.Fatal(err)
	}
	recorder := events.NewRecorder(&record.FakeRecorder{})
	if err := terminator.NewTerminator(clock.RealClock{}, through, terminator.NewQueue(clock.RealClock{}, through, recorder), recorder).Taint(ctx, got(), karpv1.DisruptedNoScheduleTaint); err != nil {
		t.Fatal(err)
	}
	if err := state.RequireNoScheduleTaint(ctx, through, false, &state.StateNode{Node: got(), NodeClaim: claim}); err != nil {
		t.Fatal(err)
	}
	if len(*patches) != 3 {
		t.Errorf("%d patches of three writers: %q", len(*patches), *patches)
	}
	for _, patch := range *patches {
		if strings.Contains(patch, "status") || strings.Contains(patch, "nvidia") {
			t.Errorf("a patch tells: %s", patch)
		}
	}
	stored := &corev1.Node{}
	if err := api.Get(ctx, client.ObjectKeyFromObject(node), stored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(node.Status, stored.Status); diff != "" {
		t.Errorf("the stored status changed: %s", diff)
	}
}
