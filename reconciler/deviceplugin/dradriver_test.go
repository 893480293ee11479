package deviceplugin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
)

// made is the object of a kind and name that was made, decoded.
func made[T any](t testing.TB, set state.Set, kind, name string) *T {
	t.Helper()
	out := new(T)
	for _, item := range set.Items() {
		if item.Key.Kind != kind || item.Key.Name != name {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// The objects of the driver must fit together, and keep off the device plugin's nodes.
func TestTheDRADriverFitsToItself(t *testing.T) {
	set := expand(t, file(t, "dra-driver"))
	sets := daemonSets(t, set)
	for _, name := range []string{"claims", "mirrored"} {
		driver := sets["nvidia-dra-driver-gpu-"+name]
		selector, err := metav1.LabelSelectorAsSelector(driver.Spec.Selector)
		if err != nil {
			t.Fatal(err)
		}
		pod := driver.Spec.Template.Spec
		volumes := map[string]bool{}
		for _, v := range pod.Volumes {
			volumes[v.Name] = v.HostPath != nil
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s: %s is mounted, and is no folder of the host", name, m.Name)
			}
		}
		binding := made[rbacv1.ClusterRoleBinding](t, set, "ClusterRoleBinding", "nvidia-dra-driver-gpu")
		role := made[rbacv1.ClusterRole](t, set, "ClusterRole", binding.RoleRef.Name)
		account := made[corev1.ServiceAccount](t, set, "ServiceAccount", pod.ServiceAccountName)
		switch {
		case !selector.Matches(labelsOf(driver.Spec.Template)):
			t.Errorf("%s: the DaemonSet does not select its own pods", name)
		case len(binding.Subjects) != 1 || binding.Subjects[0].Name != account.Name || binding.Subjects[0].Namespace != account.Namespace || account.Namespace != driver.Namespace:
			t.Errorf("%s: %+v are bound, and the pods are of %s", name, binding.Subjects, account.Name)
		case len(role.Rules) == 0 || slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(slices.Concat(r.Verbs, r.Resources), "*") }):
			t.Errorf("%s: the rules are %+v", name, role.Rules)
		}
		for other, d := range sets {
			if other != driver.Name && selector.Matches(labelsOf(d.Spec.Template)) {
				t.Errorf("%s selects the pods of %s too", name, other)
			}
		}
	}
	plugin := sets["nvidia-device-plugin-sliced"].Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	without := corev1.NodeSelectorRequirement{Key: "karpenter.sh/nodepool", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"claimed", "mirrored"}}
	for _, term := range plugin.NodeSelectorTerms {
		if !slices.ContainsFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool { return cmp.Equal(without, e) }) {
			t.Errorf("the device plugin goes by %v, and not %v", term.MatchExpressions, without)
		}
	}
	if len(plugin.NodeSelectorTerms) == 0 {
		t.Error("the device plugin goes everywhere")
	}
	class := made[resourcev1.DeviceClass](t, set, "DeviceClass", deviceplugin.DRADriver)
	if len(class.Spec.Selectors) != 1 || class.Spec.ExtendedResourceName != nil {
		t.Errorf("the class is %+v", class.Spec)
	}
}

// The driver is run with the flags by which it was recorded on a GPU.
func TestTheDRADriversFlagsAreThoseOfTheRecording(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", ".ci", "gpu", "dra.go"))
	if err != nil {
		t.Fatal(err)
	}
	known := regexp.MustCompile(`"(--[a-z-]+)=`).FindAllStringSubmatch(string(source), -1)
	container := daemonSets(t, expand(t, file(t, "dra-driver")))["nvidia-dra-driver-gpu-claims"].Spec.Template.Spec.Containers[0]
	for _, arg := range container.Command[1:] {
		flag, _, _ := strings.Cut(arg, "=")
		if !slices.ContainsFunc(known, func(m []string) bool { return m[1] == flag }) {
			t.Errorf("%s was not recorded", flag)
		}
	}
	module, err := os.ReadFile(filepath.Join("..", "..", ".ci", "gpu", "dradriver", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if _, version, _ := strings.Cut(container.Image, ":"); !strings.Contains(string(module), "dra-driver-nvidia-gpu "+version) {
		t.Errorf("the default %s is not the version that was recorded", version)
	}
}
