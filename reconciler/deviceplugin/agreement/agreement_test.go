package agreement_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/gpu"
	ours "github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
)

// goldens are the declarations in testdata.
func goldens() []string {
	return []string{"whole", "timeslicing", "mps-renamed", "bottlerocket", "gpu-limit", "mig"}
}

// file declares the documents of a file in the package's testdata.
func file(t testing.TB, name string) state.Set {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var items []state.Item
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		gvk := u.GroupVersionKind()
		items = append(items, state.Item{
			Key:     state.Key{Target: "kubernetes", Group: gvk.Group, Kind: gvk.Kind, Name: u.GetName()},
			Version: gvk.Version, Object: u.Object, Origin: state.Origin{File: name, Line: 1},
		})
	}
	return state.NewSet(items...)
}

// expand is Expand where no problem is expected.
func expand(t testing.TB, declared state.Set) state.Set {
	t.Helper()
	out, problems := deviceplugin.Expand(declared)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return out
}

// overlays are the NodeOverlays of a Set, as Karpenter reads them.
func overlays(t testing.TB, set state.Set) []v1alpha1.NodeOverlay {
	t.Helper()
	var out []v1alpha1.NodeOverlay
	for _, item := range set.Items() {
		if item.Key.Kind != "NodeOverlay" {
			continue
		}
		var o v1alpha1.NodeOverlay
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(item.Object, &o, true); err != nil {
			t.Fatalf("%s: %v", item.Key, err)
		}
		out = append(out, o)
	}
	return out
}

// ownCRD is the DevicePlugin's definition.
func ownCRD(t testing.TB) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile("../../../config/crd/poolwright.dev_deviceplugins.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func TestKarpenterTakesTheOverlays(t *testing.T) {
	crds, err := engine.CRDs(engine.DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	crds = append(crds, ownCRD(t))
	for _, name := range goldens() {
		set := expand(t, file(t, name))
		for _, o := range overlays(t, set) {
			if err := o.RuntimeValidate(t.Context()); err != nil {
				t.Errorf("%s: %s: %v", name, o.Name, err)
			}
		}
		var checked []state.Item
		for _, item := range set.Items() {
			// The pools of these tests are not whole.
			if item.Key.Kind == "NodeOverlay" || item.Key.Kind == "DevicePlugin" {
				checked = append(checked, item)
			}
		}
		for key, refused := range lint.Refused(declared.Declared{Set: state.NewSet(checked...)}, crds) {
			t.Errorf("%s: %s: %v", name, key, refused)
		}
	}
}

func nvidia(kind catalog.InstanceType) bool { return kind.GPU.Manufacturer == "NVIDIA" }

func TestThereIsAnOverlayForEveryNumberOfGPUs(t *testing.T) {
	all, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	want, got := map[int]bool{}, map[int]bool{}
	for _, kind := range all.Types() {
		if nvidia(kind) && kind.GPU.Count > 0 {
			want[kind.GPU.Count] = true
		}
	}
	for _, o := range overlays(t, expand(t, file(t, "whole"))) {
		n, err := strconv.Atoi(o.Name[strings.LastIndex(o.Name, "-")+1:])
		if err != nil {
			t.Fatal(err)
		}
		got[n] = true
	}
	for n := range want {
		if !got[n] {
			t.Errorf("there are instance types with %d GPUs and no overlay for them", n)
		}
	}
}

// requirements are those of an instance type in a pool, as the AWS provider gives
// them.
func requirements(pool string, kind catalog.InstanceType) scheduling.Requirements {
	out := scheduling.NewRequirements(
		scheduling.NewRequirement(karpv1.NodePoolLabelKey, corev1.NodeSelectorOpIn, pool),
		scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, kind.Name),
	)
	if kind.GPU.Manufacturer == "" {
		out.Add(scheduling.NewRequirement(awsv1.LabelInstanceGPUManufacturer, corev1.NodeSelectorOpDoesNotExist),
			scheduling.NewRequirement(awsv1.LabelInstanceGPUCount, corev1.NodeSelectorOpDoesNotExist))
		return out
	}
	out.Add(scheduling.NewRequirement(awsv1.LabelInstanceGPUManufacturer, corev1.NodeSelectorOpIn, strings.ToLower(kind.GPU.Manufacturer)),
		scheduling.NewRequirement(awsv1.LabelInstanceGPUCount, corev1.NodeSelectorOpIn, strconv.Itoa(kind.GPU.Count)))
	return out
}

// matching are the overlays that Karpenter puts over a type in a pool.
func matching(all []v1alpha1.NodeOverlay, has scheduling.Requirements) []v1alpha1.NodeOverlay {
	return slices.DeleteFunc(slices.Clone(all), func(o v1alpha1.NodeOverlay) bool {
		var requested []corev1.NodeSelectorRequirement
		for _, r := range o.Spec.Requirements {
			requested = append(requested, r.AsNodeSelectorRequirement())
		}
		return !has.IsCompatible(scheduling.NewNodeSelectorRequirements(requested...))
	})
}

func TestEveryTypeInAPoolHasTheOneOverlayOfItsConfig(t *testing.T) {
	all, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range goldens() {
		set := file(t, name)
		sharing := sharingOf(t, set)
		made := overlays(t, expand(t, set))
		pools := []string{"some-other-pool"}
		for _, p := range sharing.Configs {
			pools = append(pools, p.Pools...)
		}
		for _, pool := range pools {
			pluginConfig, served := sharing.ConfigForPool(pool)
			var declared []catalog.Requirement
			if item, ok := set.Get(state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: pool}); ok {
				declared = catalog.Requirements(item.Object)
			}
			for _, kind := range all.Types() {
				if slices.ContainsFunc(declared, func(r catalog.Requirement) bool { return r.ByType() && !r.Met(kind.Labels()) }) {
					continue // No node of the pool is of it.
				}
				var want []string
				if served && nvidia(kind) && kind.GPU.Count > 0 {
					want = []string{pluginConfig.Allocatable(kind.GPU.Count).String()}
				}
				var got []string
				for _, o := range matching(made, requirements(pool, kind)) {
					counted := gpu.Resources{gpu.Resource: 0, gpu.SharedResource: 0}
					counted.Add(o.Spec.Capacity)
					got = append(got, counted.String())
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("%s: %s in pool %s: %s", name, kind.Name, pool, d)
				}
			}
		}
	}
}

// sharingOf reads the DevicePlugin of a Set.
func sharingOf(t testing.TB, set state.Set) gpu.Sharing {
	t.Helper()
	for _, item := range set.Items() {
		if item.Key.Kind == "DevicePlugin" {
			var plugin ours.DevicePlugin
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &plugin); err != nil {
				t.Fatal(err)
			}
			return deviceplugin.Sharing(&plugin)
		}
	}
	t.Fatal("no DevicePlugin")
	return gpu.Sharing{}
}
