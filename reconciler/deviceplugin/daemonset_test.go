package deviceplugin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
)

// daemonSets are the DaemonSets of a Set, by name.
func daemonSets(t testing.TB, set state.Set) map[string]*appsv1.DaemonSet {
	t.Helper()
	out := map[string]*appsv1.DaemonSet{}
	for _, item := range set.Items() {
		if item.Key.Kind != "DaemonSet" {
			continue
		}
		d := &appsv1.DaemonSet{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(item.Object, d, true); err != nil {
			t.Fatalf("%s: %v", item.Key, err)
		}
		out[d.Name] = d
	}
	return out
}

func configMap(t testing.TB, set state.Set, name string) *corev1.ConfigMap {
	t.Helper()
	item, ok := set.Get(state.Key{Target: "kubernetes", Kind: "ConfigMap", Namespace: gpu.PluginNamespace, Name: name})
	if !ok {
		t.Fatalf("there is no ConfigMap %s", name)
	}
	out := &corev1.ConfigMap{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(item.Object, out, true); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAGPUNodeRunsThePluginOfItsPoolsConfig(t *testing.T) {
	node := func(pool, gpus string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}}}
		for label, value := range map[string]string{"karpenter.sh/nodepool": pool, "karpenter.k8s.aws/instance-gpu-manufacturer": gpus} {
			if value != "" {
				n.Labels[label] = value
			}
		}
		return n
	}
	for name, c := range map[string]struct {
		file, pool, gpus string
		want             []string
	}{
		"the configuration that names the pool":       {"timeslicing", "gpu-a", "nvidia", []string{"sliced"}},
		"the default for other pools":                 {"timeslicing", "more", "nvidia", []string{"whole"}},
		"no plugin without GPUs":                      {"timeslicing", "gpu-a", "", nil},
		"no plugin for other GPUs":                    {"timeslicing", "more", "amd", nil},
		"no plugin for nodes of nobody's":             {"timeslicing", "", "nvidia", nil},
		"the only configuration is everybody's":       {"whole", "any", "nvidia", []string{"whole"}},
		"not that of nodes of nobody's":               {"whole", "", "nvidia", nil},
		"no plugin where nothing is the default":      {"mps-renamed", "any", "nvidia", nil},
		"the MPS pool":                                {"mps-renamed", "inference", "nvidia", []string{"mps"}},
		"Bottlerocket has its own, by alias":          {"bottlerocket", "mixed-bottlerocket", "nvidia", nil},
		"Bottlerocket has its own, by family":         {"bottlerocket", "other-bottlerocket", "nvidia", nil},
		"Bottlerocket has its own, under the default": {"bottlerocket", "unnamed-bottlerocket", "nvidia", nil},
		"beside Bottlerocket, another pool":           {"bottlerocket", "mixed-al2023", "nvidia", []string{"sliced"}},
		"beside Bottlerocket, the default":            {"bottlerocket", "any", "nvidia", []string{"whole"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range daemonSets(t, expand(t, file(t, c.file))) {
				pod := &corev1.Pod{Spec: d.Spec.Template.Spec}
				if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node(c.pool, c.gpus)); err != nil {
					t.Fatal(err)
				} else if ok {
					got = append(got, d.Labels[gpu.ConfigLabel])
				}
			}
			slices.Sort(got)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAPluginFitsToItself(t *testing.T) {
	for _, name := range goldens() {
		set := expand(t, file(t, name))
		sharing := sharingOf(t, set)
		for _, d := range daemonSets(t, set) {
			pluginConfig, ofPlugin := sharing.Config(d.Labels[gpu.ConfigLabel])
			if !ofPlugin {
				continue // It is the DRA driver's.
			}
			selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
			if err != nil {
				t.Fatal(err)
			}
			template := d.Spec.Template
			revision := template.Annotations[gpu.PluginHashAnnotation]
			volumes := map[string]bool{}
			for _, v := range template.Spec.Volumes {
				volumes[v.Name] = true
				if v.ConfigMap != nil && configMap(t, set, v.ConfigMap.Name).Labels[gpu.ConfigLabel] != d.Labels[gpu.ConfigLabel] {
					t.Errorf("%s: %s mounts the configuration of another configuration", name, d.Name)
				}
			}
			for _, c := range append(slices.Clone(template.Spec.InitContainers), template.Spec.Containers...) {
				for _, m := range c.VolumeMounts {
					if !volumes[m.Name] {
						t.Errorf("%s: %s mounts %s, which is no volume", name, c.Name, m.Name)
					}
				}
				if c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
					t.Errorf("%s: %s has no termination message from its log", name, c.Name)
				}
			}
			startup := corev1.Taint{Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule}
			tolerated := slices.ContainsFunc(template.Spec.Tolerations, func(t corev1.Toleration) bool {
				return t.Key == startup.Key && t.Effect == startup.Effect && t.Operator == corev1.TolerationOpExists
			})
			switch {
			case !selector.Matches(labelsOf(template)):
				t.Errorf("%s: %s does not select its own pods", name, d.Name)
			case revision == "" || d.Annotations[gpu.PluginHashAnnotation] != "":
				t.Errorf("%s: %s has its revision elsewhere than in its template", name, d.Name)
			case d.Annotations[gpu.SharingAnnotation] != pluginConfig.EncodeSharing() || template.Annotations[gpu.SharingAnnotation] != "":
				t.Errorf("%s: %s does not say how GPUs are divided, or rolls its pods for it", name, d.Name)
			case d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType:
				t.Errorf("%s: %s replaces its pods by itself", name, d.Name)
			case !tolerated:
				t.Errorf("%s: %s waits for its own taint", name, d.Name)
			}
		}
	}
}

// sharingOf reads the DevicePlugin of a Set.
func sharingOf(t testing.TB, set state.Set) gpu.Sharing {
	t.Helper()
	for _, item := range set.Items() {
		if item.Key.Kind != "DevicePlugin" {
			continue
		}
		plugin := &v1alpha1.DevicePlugin{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, plugin); err != nil {
			t.Fatal(err)
		}
		return deviceplugin.Sharing(plugin)
	}
	t.Fatal("no DevicePlugin")
	return gpu.Sharing{}
}

type labelSet map[string]string

func (l labelSet) Has(key string) bool              { _, ok := l[key]; return ok }
func (l labelSet) Get(key string) string            { return l[key] }
func (l labelSet) Lookup(key string) (string, bool) { v, ok := l[key]; return v, ok }
func labelsOf(t corev1.PodTemplateSpec) labelSet    { return labelSet(t.Labels) }

func TestTheConfigurationHasWhatTheConfigAdvertises(t *testing.T) {
	for file_, want := range map[string]map[string]any{
		"whole": {"version": "v1", "flags": map[string]any{"migStrategy": "none", "failOnInitError": true}},
		"mps-renamed": {"version": "v1", "flags": map[string]any{"migStrategy": "none", "failOnInitError": true}, "sharing": map[string]any{"mps": map[string]any{
			"renameByDefault": true, "failRequestsGreaterThanOne": true, "resources": []any{map[string]any{"name": "nvidia.com/gpu", "replicas": 4.0}},
		}}},
		"timeslicing": {"version": "v1", "flags": map[string]any{"migStrategy": "none", "failOnInitError": true}, "sharing": map[string]any{"timeSlicing": map[string]any{
			"renameByDefault": false, "failRequestsGreaterThanOne": true, "resources": []any{map[string]any{"name": "nvidia.com/gpu", "replicas": 10.0}},
		}}},
	} {
		set := expand(t, file(t, file_))
		for _, item := range set.Items() {
			pluginConfig, _, _ := strings.Cut(file_, "-")
			if pluginConfig == "timeslicing" {
				pluginConfig = "sliced"
			}
			if item.Key.Kind != "ConfigMap" || !strings.Contains(item.Key.Name, "-"+pluginConfig+"-") {
				continue
			}
			raw, err := yaml.YAMLToJSON([]byte(configMap(t, set, item.Key.Name).Data["config.yaml"]))
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: %s", file_, d)
			}
			want = nil
		}
		if want != nil {
			t.Errorf("%s: no configuration was found", file_)
		}
	}
}

func TestPodsAreReplacedForWhatTheyRunAndNotForWhere(t *testing.T) {
	const base = `
apiVersion: poolwright.dev/v1alpha1
kind: DevicePlugin
metadata: {name: nvidia}
spec: {version: v0.19.0, defaultConfig: whole, configs: [{name: whole}, {name: sliced, nodePools: [gpu], timeSlicing: {replicas: 10}}]}`
	of := func(text string) string {
		return daemonSets(t, expand(t, read(t, text)))["nvidia-device-plugin-sliced"].Spec.Template.Annotations[gpu.PluginHashAnnotation]
	}
	for name, c := range map[string]struct {
		old, new string
		replaced bool
	}{
		"another version":               {"v0.19.0", "v0.19.1", true},
		"another number":                {"replicas: 10", "replicas: 11", true},
		"another name of shares":        {"replicas: 10", "replicas: 10, renameByDefault: true", true},
		"another strategy":              {"timeSlicing", "mps", true},
		"resources":                     {"spec: {", "spec: {resources: {requests: {cpu: 1m}}, ", true},
		"one pool more":                 {"[gpu]", "[gpu, more]", false},
		"a toleration more":             {"spec: {", "spec: {tolerations: [{key: x, operator: Exists}], ", false},
		"another configuration changed": {"{name: whole}", "{name: whole, mps: {replicas: 2}}", false},
	} {
		if changed := of(base) != of(strings.Replace(base, c.old, c.new, 1)); changed != c.replaced {
			t.Errorf("%s: pods are replaced: %t, want %t", name, changed, c.replaced)
		}
	}
}

// ownCRD is the DevicePlugin's definition.
func ownCRD(t testing.TB) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile("../../config/crd/poolwright.dev_deviceplugins.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func TestTheDefaultsAreThoseOfTheDefinition(t *testing.T) {
	spec := ownCRD(t).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	text := func(field string) string {
		var out string
		if err := json.Unmarshal(spec.Properties[field].Default.Raw, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	var tolerations []corev1.Toleration
	if err := json.Unmarshal(spec.Properties["tolerations"].Default.Raw, &tolerations); err != nil {
		t.Fatal(err)
	}
	pod := daemonSets(t, expand(t, file(t, "whole")))["nvidia-device-plugin-whole"].Spec.Template.Spec
	if got, want := pod.Containers[0].Image, text("image")+":"+text("version"); got != want {
		t.Errorf("the image is %s, want %s", got, want)
	}
	if d := cmp.Diff(tolerations, pod.Tolerations[1:]); d != "" {
		t.Error(d)
	}
	spec = spec.Properties["configs"].Items.Schema.Properties["draDriver"]
	driver := daemonSets(t, expand(t, file(t, "dra-driver")))["nvidia-dra-driver-gpu-claims"].Spec.Template.Spec
	if got, want := driver.Containers[0].Image, text("image")+":"+text("version"); got != want {
		t.Errorf("the DRA driver's image is %s, want %s", got, want)
	}
}

func TestTheMPSDaemonHasStartedBeforeThePlugin(t *testing.T) {
	pod := daemonSets(t, expand(t, file(t, "mps-renamed")))["nvidia-device-plugin-mps"].Spec.Template.Spec
	var order []string
	for _, c := range pod.InitContainers {
		goesOn := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		order = append(order, fmt.Sprintf("%s %t", strings.Join(c.Command[:min(2, len(c.Command))], " "), goesOn))
	}
	for _, c := range pod.Containers {
		order = append(order, c.Command[0])
	}
	want := []string{"mps-control-daemon mount-shm false", "mps-control-daemon --config-file=/etc/nvidia-device-plugin/config.yaml true", "nvidia-device-plugin"}
	if d := cmp.Diff(want, order); d != "" {
		t.Error(d)
	}
}
