package deviceplugin_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/deviceplugin"
)

func offer(config deviceplugin.Config) string {
	each := config.AdvertisedPerGPU()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(each)) {
		out = append(out, fmt.Sprintf("%s %d", name, 4*each[name]))
	}
	return strings.Join(out, ", ")
}

// spec is a pod in namespace kube-system from YAML.
func spec(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "plugin", Namespace: "kube-system"}}
	if err := yaml.UnmarshalStrict([]byte(text), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	return pod
}

func slicing(replicas int) string {
	return fmt.Sprintf("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %d}]}}", replicas)
}

// stored are the ConfigMaps of kube-system.
func stored(namespace, name string) (*corev1.ConfigMap, error) {
	data := map[string]map[string]string{
		"one":     {"any": slicing(10)},
		"many":    {"default": slicing(2), "t4": slicing(7), "mps": "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 5}]}}"},
		"broken":  {"config.yaml": "a: ["},
		"patient": {"patient": "flags: {failOnInitError: false}\n" + slicing(2)},
	}[name]
	switch {
	case name == "unreachable":
		return nil, errors.New("connection refused")
	case namespace != "kube-system" || data == nil:
		return nil, nil
	}
	return &corev1.ConfigMap{Data: data}, nil
}

const mount = `
  volumeMounts: [{name: config, mountPath: /config}]
volumes: [{name: config, configMap: {name: %s%s}}]`

// chart is the shape of NVIDIA's chart with a configuration: a config manager
// before and beside the plugin.
func chart(configMap, env string) string {
	manager := `- image: nvcr.io/nvidia/k8s-device-plugin:v0.17.0
  name: %s
  command: [config-manager]
  env: [{name: ONESHOT, value: "%t"}, {name: NODE_LABEL, value: nvidia.com/device-plugin.config}, {name: CONFIG_FILE_SRCDIR, value: /available-configs},
    {name: CONFIG_FILE_DST, value: /config/config.yaml}, ` + env + `]
  volumeMounts: [{name: available, mountPath: /available-configs}, {name: config, mountPath: /config}]
`
	return "initContainers:\n" + fmt.Sprintf(manager, "init", true) + "containers:\n" + fmt.Sprintf(manager, "sidecar", false) +
		`- image: nvcr.io/nvidia/k8s-device-plugin:v0.17.0
  name: plugin
  command: [nvidia-device-plugin]
  env: [{name: MPS_ROOT, value: /run/nvidia/mps}, {name: CONFIG_FILE, value: /config/config.yaml}]
  volumeMounts: [{name: config, mountPath: /config}]
volumes: [{name: available, configMap: {name: ` + configMap + `}}, {name: config, emptyDir: {}}]`
}

func TestThePluginsConfigurationIsFound(t *testing.T) {
	const image = "containers:\n- name: p\n  image: nvcr.io/nvidia/k8s-device-plugin:v0.17.0\n"
	for name, c := range map[string]struct {
		spec   string
		labels map[string]string
		want   string
	}{
		"without a configuration":    {image, nil, "nvidia.com/gpu 4"},
		"from a mirror, by digest":   {"containers:\n- {name: p, image: 'mirror.local:5000/x/k8s-device-plugin@sha256:0123', args: [--fail-on-init-error=false]}", nil, "nvidia.com/gpu 4"},
		"by environment":             {image + "  env: [{name: CONFIG_FILE, value: /config/any}]" + fmt.Sprintf(mount, "one", ""), nil, "nvidia.com/gpu 40"},
		"by flag, which wins":        {image + "  args: [--config-file=/config/any]\n  env: [{name: CONFIG_FILE, value: /nowhere}]" + fmt.Sprintf(mount, "one", ""), nil, "nvidia.com/gpu 40"},
		"by flag and value":          {image + "  command: [/usr/bin/nvidia-device-plugin, --config-file, /config/any]" + fmt.Sprintf(mount, "one", ""), nil, "nvidia.com/gpu 40"},
		"in a shell's script":        {"containers:\n- {name: p, image: k8s-device-plugin, command: [bash, -c, 'exec nvidia-device-plugin']}", nil, "nvidia.com/gpu 4"},
		"under another name":         {image + "  args: [--config-file=/config/a/b.yaml]" + fmt.Sprintf(mount, "many", ", items: [{key: t4, path: a/b.yaml}]"), nil, "nvidia.com/gpu 28"},
		"as one file of a volume":    {image + "  args: [--config-file=/etc/c.yaml]\n  volumeMounts: [{name: config, mountPath: /etc/c.yaml, subPath: t4}]\nvolumes: [{name: config, configMap: {name: many}}]", nil, "nvidia.com/gpu 28"},
		"in a projected volume":      {image + "  args: [--config-file=/c/any]\n  volumeMounts: [{name: c, mountPath: /c}]\nvolumes: [{name: c, projected: {sources: [{configMap: {name: one}}]}}]", nil, "nvidia.com/gpu 40"},
		"chosen as the only one":     {chart("one", `{name: FALLBACK_STRATEGIES, value: "named,single"}`), nil, "nvidia.com/gpu 40"},
		"chosen by the name default": {chart("many", `{name: FALLBACK_STRATEGIES, value: "named,single"}`), nil, "nvidia.com/gpu 8"},
		"chosen by setting":          {chart("many", `{name: DEFAULT_CONFIG, value: t4}`), nil, "nvidia.com/gpu 28"},
		"chosen by the node's label": {chart("many", `{name: DEFAULT_CONFIG, value: t4}`), map[string]string{"nvidia.com/device-plugin.config": "mps"}, "nvidia.com/gpu 20"},
		"chosen to be empty":         {chart("many", `{name: FALLBACK_STRATEGIES, value: "single,empty"}`), nil, "nvidia.com/gpu 4"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := spec(t, c.spec)
			if !deviceplugin.Runs(pod) {
				t.Fatal("the plugin is not recognised")
			}
			config, err := deviceplugin.Locate(pod, c.labels, stored)
			if err != nil {
				t.Fatal(err)
			}
			if got := offer(config); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestAPluginThatCannotStartReportsTheReason(t *testing.T) {
	const image = "containers:\n- name: p\n  image: k8s-device-plugin\n"
	for name, c := range map[string]struct{ spec, reason string }{
		"no ConfigMap":           {image + "  args: [--config-file=/config/any]" + fmt.Sprintf(mount, "absent", ""), "no ConfigMap kube-system/absent"},
		"an unreachable one":     {image + "  args: [--config-file=/config/any]" + fmt.Sprintf(mount, "unreachable", ""), "connection refused"},
		"no such key":            {image + "  args: [--config-file=/config/other]" + fmt.Sprintf(mount, "one", ""), `no file "other"`},
		"no such item":           {image + "  args: [--config-file=/config/x]" + fmt.Sprintf(mount, "one", ", items: [{key: absent, path: x}]"), `no key "absent"`},
		"no volume":              {image + "  args: [--config-file=/config/any]", "no volume holds /config/any"},
		"a host path":            {image + "  args: [--config-file=/c/any]\n  volumeMounts: [{name: c, mountPath: /c}]\nvolumes: [{name: c, hostPath: {path: /etc}}]", "neither a ConfigMap"},
		"an empty folder":        {image + "  args: [--config-file=/c/any]\n  volumeMounts: [{name: c, mountPath: /c}]\nvolumes: [{name: c, emptyDir: {}}]", "no config manager"},
		"a value from elsewhere": {image + "  env: [{name: CONFIG_FILE, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]", "valueFrom"},
		"a malformed file":       {image + "  args: [--config-file=/config/config.yaml]" + fmt.Sprintf(mount, "broken", ""), "not YAML"},
		"no default among many":  {chart("many", `{name: FALLBACK_STRATEGIES, value: "single"}`), "no fallback"},
		"a default that is not":  {chart("many", `{name: DEFAULT_CONFIG, value: a100}`), `"a100"`},
		"an unknown fallback":    {chart("many", `{name: FALLBACK_STRATEGIES, value: "first"}`), `"first"`},
		"a setting of neither":   {image + "  env: [{name: FAIL_ON_INIT_ERROR, value: sometimes}]", "neither true nor false"},
		"MPS without its folder": {image + "  args: [--config-file=/config/mps]" + fmt.Sprintf(mount, "many", ""), "--mps-root"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := deviceplugin.Locate(spec(t, c.spec), nil, stored)
			if err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got %v, want an error with %q", err, c.reason)
			}
		})
	}
}

func TestWhetherThePluginWaitsWithoutADriver(t *testing.T) {
	const (
		image = "containers:\n- name: p\n  image: k8s-device-plugin\n"
		file  = "  args: [--config-file=/config/patient%s]"
	)
	for name, c := range map[string]struct {
		spec string
		want bool
	}{
		"unless configured, it ends":         {image, false},
		"by flag":                            {image + "  args: [--fail-on-init-error=false]", true},
		"by flag without a value, it ends":   {image + "  args: [--fail-on-init-error]", false},
		"by environment":                     {image + "  env: [{name: FAIL_ON_INIT_ERROR, value: 'false'}]", true},
		"an empty environment sets nothing":  {image + "  env: [{name: FAIL_ON_INIT_ERROR, value: ''}]", false},
		"the flag wins over the environment": {image + "  args: [--fail-on-init-error=true]\n  env: [{name: FAIL_ON_INIT_ERROR, value: 'false'}]", false},
		"by file":                            {image + fmt.Sprintf(file, "") + fmt.Sprintf(mount, "patient", ""), true},
		"the flag wins over the file":        {image + fmt.Sprintf(file, ", --fail-on-init-error") + fmt.Sprintf(mount, "patient", ""), false},
		"the environment wins over the file": {image + fmt.Sprintf(file, "") + "\n  env: [{name: FAIL_ON_INIT_ERROR, value: 'true'}]" + fmt.Sprintf(mount, "patient", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := deviceplugin.Locate(spec(t, c.spec), nil, stored)
			if err != nil || config.Patient != c.want {
				t.Errorf("patient %t (%v), want %t", config.Patient, err, c.want)
			}
		})
	}
}

func TestTheMPSDaemonIsFoundBesideThePlugin(t *testing.T) {
	const plugin = "\ncontainers:\n- {name: plugin, image: k8s-device-plugin, command: [nvidia-device-plugin]}"
	for name, c := range map[string]struct{ spec, want string }{
		"as another container":     {plugin + "\n- {name: mps, image: k8s-device-plugin, command: [mps-control-daemon]}", "mps"},
		"as a sidecar before it":   {"initContainers: [{name: mps, image: k8s-device-plugin, command: [mps-control-daemon], restartPolicy: Always}]" + plugin, "mps"},
		"not what mounts its part": {"initContainers: [{name: mounts, image: k8s-device-plugin, command: [mps-control-daemon, mount-shm]}]" + plugin, ""},
		"not the plugin itself":    {plugin, ""},
	} {
		pod := spec(t, c.spec)
		if got := deviceplugin.DaemonContainer(pod); got != c.want {
			t.Errorf("%s: daemon %q, want %q", name, got, c.want)
		}
		if got := deviceplugin.PluginContainer(pod); got != "plugin" {
			t.Errorf("%s: plugin %q", name, got)
		}
	}
}

func TestOtherProgramsOfTheSameImageAreNotThePlugin(t *testing.T) {
	for command, mps := range map[string]bool{"mps-control-daemon": true, "/usr/bin/gpu-feature-discovery": false, "config-manager": false} {
		pod := spec(t, "containers:\n- {name: x, image: nvcr.io/nvidia/k8s-device-plugin:v0.17.0, command: ["+command+"]}")
		if deviceplugin.Runs(pod) || deviceplugin.DaemonContainer(pod) != "" != mps {
			t.Errorf("%s: plugin %t, MPS daemon %t", command, deviceplugin.Runs(pod), deviceplugin.DaemonContainer(pod) != "")
		}
	}
	if deviceplugin.Runs(spec(t, "containers: [{name: x, image: example.com/device-plugin:1}]")) {
		t.Error("another image is taken for the plugin")
	}
}

func TestAConfigManagerWatchesALabel(t *testing.T) {
	if got := deviceplugin.WatchedLabel(spec(t, chart("many", "{name: X}"))); got != "nvidia.com/device-plugin.config" {
		t.Errorf("got %q", got)
	}
	if got := deviceplugin.WatchedLabel(spec(t, "containers: [{name: p, image: k8s-device-plugin}]")); got != "" {
		t.Errorf("without one it watches %q", got)
	}
}
