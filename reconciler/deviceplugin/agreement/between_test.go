package agreement_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	kstate "sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/state"
)

// fourGPUs is a cloud with one type of machine.
type fourGPUs struct{ cloudprovider.CloudProvider }

func (fourGPUs) GetInstanceTypes(context.Context, *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return []*cloudprovider.InstanceType{{
		Name: "g4dn.12xlarge", Overhead: &cloudprovider.InstanceTypeOverhead{},
		Requirements: scheduling.NewRequirements(
			scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, "g4dn.12xlarge"),
			scheduling.NewRequirement(awsv1.LabelInstanceGPUManufacturer, corev1.NodeSelectorOpIn, "nvidia"),
			scheduling.NewRequirement(awsv1.LabelInstanceGPUCount, corev1.NodeSelectorOpIn, "4"),
		),
		Capacity: corev1.ResourceList{gpu.Resource: resource.MustParse("4"), corev1.ResourceCPU: resource.MustParse("48")},
		Offerings: cloudprovider.Offerings{{Available: true, Price: 3.9, Requirements: scheduling.NewLabelRequirements(
			map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand, corev1.LabelTopologyZone: "z"})}},
	}}, nil
}

// sharedBy are the overlays on machines with four GPUs that a DevicePlugin with these
// fields makes.
func sharedBy(t testing.TB, spec string) map[string]v1alpha1.NodeOverlay {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte("spec: {"+spec+"}"), &object); err != nil {
		t.Fatal(err)
	}
	out := map[string]v1alpha1.NodeOverlay{}
	for _, o := range overlays(t, expand(t, state.NewSet(state.Item{
		Key:     state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "DevicePlugin", Name: "nvidia"},
		Version: "v1alpha1", Object: object, Origin: state.Origin{File: "gpu.yaml", Line: 1},
	}))) {
		if o.Name == "poolwright-gpu-4" || strings.HasPrefix(o.Name, "poolwright-gpu-4-") {
			out[o.Name] = o
		}
	}
	return out
}

func pools() []string { return []string{"a", "b", "c", "d"} }

// counted is what Karpenter's own controller counts on a machine of each pool.
func counted(t testing.TB, live map[string]v1alpha1.NodeOverlay) map[string]string {
	t.Helper()
	var objects []client.Object
	for _, pool := range pools() {
		objects = append(objects, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: pool}})
	}
	for _, o := range live {
		objects = append(objects, o.DeepCopy())
	}
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.NodeOverlay{}).Build()
	store, clk := nodeoverlay.NewInstanceTypeStore(), clocktesting.NewFakeClock(time.Now())
	controller := nodeoverlay.NewController(clk, c, fourGPUs{}, store, kstate.NewCluster(clk, c, fourGPUs{}))
	if _, err := controller.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, pool := range pools() {
		types, _ := fourGPUs{}.GetInstanceTypes(t.Context(), nil)
		types, err := store.ApplyAll(pool, types)
		if err != nil {
			t.Fatal(err)
		}
		whole, shared := types[0].Capacity[gpu.Resource], types[0].Capacity[gpu.SharedResource]
		out[pool] = whole.String() + "+" + shared.String()
	}
	var checked v1alpha1.NodeOverlayList
	if err := c.List(t.Context(), &checked); err != nil {
		t.Fatal(err)
	}
	for _, o := range checked.Items {
		if condition := o.StatusConditions().Get(v1alpha1.ConditionTypeValidationSucceeded); !condition.IsTrue() {
			t.Errorf("%s: %s %s", o.Name, condition.Reason, condition.Message)
		}
	}
	return out
}

// between calls for every state between two: each of the changes is made or not, in
// whatever order a plan would have them, and whichever of them fails or is held.
func between(was, is map[string]v1alpha1.NodeOverlay, visit func(live map[string]v1alpha1.NodeOverlay)) {
	all := maps.Clone(was)
	maps.Copy(all, is)
	changed := slices.DeleteFunc(slices.SortedFunc(maps.Keys(all), cmp.Compare), func(name string) bool {
		before, had := was[name]
		after, has := is[name]
		return had && has && equality.Semantic.DeepEqual(before, after)
	})
	for made := range 1 << len(changed) {
		live := maps.Clone(was)
		for i, name := range changed {
			if made>>i&1 == 0 {
				continue
			}
			delete(live, name)
			if o, has := is[name]; has {
				live[name] = o
			}
		}
		visit(live)
	}
}

func TestWhilePoolsMoveBetweenConfigsNobodyElseIsCountedOtherwise(t *testing.T) {
	const apart = "configs: [{name: ten, nodePools: [a], timeSlicing: {replicas: 10}}, {name: zz, nodePools: [b, c], timeSlicing: {replicas: 2}}]"
	const rest = "defaultConfig: whole, configs: [{name: whole}, {name: ten, nodePools: [a], timeSlicing: {replicas: 10}}, {name: zz, nodePools: [b, c], timeSlicing: {replicas: 2}}]"
	for name, c := range map[string]struct {
		was, is string
		// moved are the pools whose numbers change; those whose overlays come or go
		// as a whole may count what the machine has for a moment.
		moved, bare string
	}{
		"configurations merge":   {apart, "configs: [{name: ten, nodePools: [a, b, c], timeSlicing: {replicas: 10}}]", "bc", ""},
		"a configuration splits": {apart, strings.Replace(apart, "[b, c], timeSlicing: {replicas: 2}", "[b], timeSlicing: {replicas: 2}}, {name: aa, nodePools: [c], timeSlicing: {replicas: 3}", 1), "c", ""},
		"a configuration's name": {apart, strings.Replace(apart, "name: zz", "name: aa", 1), "", ""},
		"pools change places":    {apart, strings.NewReplacer("[a]", "[b]", "[b, c]", "[a, c]").Replace(apart), "ab", ""},
		"a pool joins":           {apart, strings.Replace(apart, "[a]", "[a, d]", 1), "d", "d"},
		"a pool leaves":          {apart, strings.Replace(apart, "[b, c]", "[b]", 1), "c", "c"},
		"shares are renamed":     {apart, strings.Replace(apart, "replicas: 10", "replicas: 10, renameByDefault: true", 1), "a", ""},
		"from the default":       {rest, strings.Replace(rest, "[a]", "[a, d]", 1), "d", "d"},
		"to the default":         {rest, strings.Replace(rest, "[b, c]", "[b]", 1), "c", "c"},
		"to the default, which names it": {
			rest, strings.NewReplacer("{name: whole}", "{name: whole, nodePools: [c]}", "[b, c]", "[b]").Replace(rest), "c", ""},
		"a default comes":       {strings.Replace(rest, "defaultConfig: whole, configs: [{name: whole}, ", "configs: [", 1), rest, "", "d"},
		"another is default":    {rest, strings.NewReplacer("defaultConfig: whole", "defaultConfig: zz", "{name: whole}, ", "").Replace(rest), "d", ""},
		"the default's numbers": {rest, strings.Replace(rest, "{name: whole}", "{name: whole, mps: {replicas: 6}}", 1), "d", ""},
	} {
		t.Run(name, func(t *testing.T) {
			was, is := sharedBy(t, c.was), sharedBy(t, c.is)
			before, after := counted(t, was), counted(t, is)
			states := 0
			between(was, is, func(live map[string]v1alpha1.NodeOverlay) {
				states++
				for pool, got := range counted(t, live) {
					steady := before[pool] == after[pool] && !strings.Contains(c.bare, pool)
					switch {
					case steady == strings.Contains(c.moved+c.bare, pool):
						t.Fatalf("pool %s counts %s before and %s after", pool, before[pool], after[pool])
					case got == before[pool], got == after[pool], got == "4+0" && strings.Contains(c.bare, pool):
					default:
						t.Errorf("pool %s, which counted %s and will count %s, counts %s with %v",
							pool, before[pool], after[pool], got, slices.Sorted(maps.Keys(live)))
					}
				}
			})
			if states < 2 {
				t.Errorf("there is nothing between %v and %v", was, is)
			}
		})
	}
}
