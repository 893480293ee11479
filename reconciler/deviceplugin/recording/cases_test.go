package recording_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/deviceplugin/recording"
	"github.com/poolwright/poolwright/reconciler/state"
)

// others are configurations that no config makes, for what the sandbox emulates of those that others write.
func others() []recording.Case {
	plain := []string{"nvidia-device-plugin", "--config-file=/config.yaml"}
	withRoot := append(slices.Clone(plain), "--mps-root=/run/nvidia/mps")
	other := func(name, daemon string, command []string, lines ...string) recording.Case {
		return recording.Case{Name: "other/" + name, Command: command, ConfigPath: "/config.yaml", Config: strings.Join(lines, "\n") + "\n", Daemon: daemon}
	}
	gpus := "resources: [{name: nvidia.com/gpu, replicas: 4}]"
	return []recording.Case{
		other("empty", "", plain),
		other("mig-single", "", plain, "version: v1", "flags: {migStrategy: single}"),
		other("mig-mixed", "", plain, "version: v1", "flags: {migStrategy: mixed}"),
		other("mig-unknown", "", plain, "version: v1", "flags: {migStrategy: double}"),
		other("version-unknown", "", plain, "version: v2"),
		other("fields-unknown", "", plain, "version: v1", "shares: 4"),
		other("no-resources", "", plain, "version: v1", "sharing:", "  timeSlicing: {}"),
		other("no-replicas", "", plain, "version: v1", "sharing:", "  timeSlicing: {resources: [{name: nvidia.com/gpu}]}"),
		other("one-replica", "", plain, "version: v1", "sharing:", "  timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}"),
		other("short-name", "", plain, "version: v1", "sharing:", "  timeSlicing: {resources: [{name: gpu, replicas: 4}]}"),
		other("other-resource", "", plain, "version: v1", "sharing:", "  timeSlicing: {resources: [{name: nvidia.com/mig-1g.10gb, replicas: 4}]}"),
		other("other-resource-renamed", "", plain, "version: v1", "sharing:", "  timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/mig-1g.10gb, replicas: 4}]}"),
		other("rename", "", plain, "version: v1", "sharing:", "  timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4, rename: nvidia.com/slice}]}"),
		other("devices", "", plain, "version: v1", "sharing:", "  timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4, devices: 1}]}"),
		other("twice", "", plain, "version: v1", "sharing:", "  timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}, {name: nvidia.com/gpu, replicas: 2}]}"),
		other("patterns", "", plain, "version: v1", "resources: {gpus: [{pattern: \"*\", name: big}]}"),
		other("both", "stand-in", withRoot, "version: v1", "sharing:", "  timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 3}]}", "  mps: {"+gpus+"}"),
		other("mps-without-root", "stand-in", plain, "version: v1", "sharing:", "  mps: {"+gpus+"}"),
		other("mps-many", "stand-in", withRoot, "version: v1", "sharing:", "  mps: {failRequestsGreaterThanOne: false, "+gpus+"}"),
		other("mps-mixed", "stand-in", withRoot, "version: v1", "flags: {migStrategy: mixed}", "sharing:", "  mps: {"+gpus+"}"),
		other("mps-49", "stand-in", withRoot, "version: v1", "sharing:", "  mps: {resources: [{name: nvidia.com/gpu, replicas: 49}]}"),
	}
}

// declared is the DevicePlugin of the cases.
func declared(t testing.TB) state.Set {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "deviceplugin.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	gvk := u.GroupVersionKind()
	return state.NewSet(state.Item{Key: state.Key{Target: "kubernetes", Group: gvk.Group, Kind: gvk.Kind, Name: u.GetName()}, Version: gvk.Version, Object: u.Object})
}

// expanded is what Poolwright makes of it.
func expanded(t testing.TB) state.Set {
	t.Helper()
	out, problems := deviceplugin.Expand(declared(t))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return out
}

// object decodes an item.
func object[T any](t testing.TB, item state.Item) T {
	t.Helper()
	var out T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(item.Object, &out, true); err != nil {
		t.Fatalf("%s: %v", item.Key, err)
	}
	return out
}

// made are the cases of the DevicePlugin: what the containers of its DaemonSets run, with their configuration. Those
// of MPS come twice, without a daemon and with one.
func made(t testing.TB) []recording.Case {
	t.Helper()
	set := expanded(t)
	var out []recording.Case
	for _, item := range set.Items() {
		if item.Key.Kind != "DaemonSet" {
			continue
		}
		daemonSet := object[appsv1.DaemonSet](t, item)
		spec := daemonSet.Spec.Template.Spec
		plugin := spec.Containers[0]
		mount := plugin.VolumeMounts[slices.IndexFunc(plugin.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "config" })]
		volume := spec.Volumes[slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "config" })]
		config, ok := set.Get(state.Key{Target: "kubernetes", Kind: "ConfigMap", Namespace: gpu.PluginNamespace, Name: volume.ConfigMap.Name})
		if !ok {
			t.Fatalf("%s mounts the ConfigMap %s, which nothing makes", item.Key, volume.ConfigMap.Name)
		}
		for file, text := range object[corev1.ConfigMap](t, config).Data {
			one := recording.Case{Name: daemonSet.Labels[gpu.ConfigLabel], Command: plugin.Command, ConfigPath: mount.MountPath + "/" + file, Config: text}
			if len(spec.InitContainers) > 0 {
				waiting := one
				waiting.Name += "-without-daemon"
				out = append(out, waiting)
				one.Daemon = "stand-in"
			}
			out = append(out, one)
		}
	}
	return out
}

func TestTheCasesAreThoseThatAreMade(t *testing.T) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(append(made(t), others()...)); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/cases.json", text.String())
}
