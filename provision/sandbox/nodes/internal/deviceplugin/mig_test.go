package deviceplugin_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/deviceplugin"
)

const parted = `
initContainers:
  - image: nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.0
    name: mig-parted
    command: [nvidia-mig-parted, apply, --config-file=/etc/p/mig-parted.yaml, --selected-config=a]
    securityContext: {privileged: true}
    volumeMounts: [{name: config, mountPath: /etc/p}, {name: dev, mountPath: /dev}]
containers:
  - image: nvcr.io/nvidia/k8s-device-plugin:v0.19.3
    name: plugin
    command: [nvidia-device-plugin, --config-file=/etc/p/config.yaml]
    securityContext: {"privileged": true}
    volumeMounts: [{name: config, mountPath: /etc/p}]
volumes: [{name: config, configMap: {name: mig}}, {name: dev, hostPath: {path: /dev}}]`

func TestAPluginAdvertisesThePartitionsThatItsPodMakes(t *testing.T) {
	const sevenths, mixture = `{"1g.10gb": 7}`, `{"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}`
	for name, c := range map[string]struct{ strategy, devices, pod, want, refused string }{
		"mixed":                      {"mixed", mixture, parted, "nvidia.com/mig-1g.10gb 8, nvidia.com/mig-2g.20gb 4, nvidia.com/mig-3g.40gb 4", ""},
		"single":                     {"single", sevenths, parted, "nvidia.com/gpu 28", ""},
		"single of two kinds":        {"single", mixture, parted, "", "more than one type"},
		"none: whole all the same":   {"none", sevenths, parted, "nvidia.com/gpu 4", ""},
		"nothing partitions":         {"mixed", sevenths, strings.Replace(parted, "nvidia-mig-parted, apply", "nvidia-mig-parted, export", 1), "nvidia.com/gpu 4", ""},
		"without the privilege":      {"mixed", sevenths, strings.Replace(parted, "privileged: true", "privileged: false", 1), "", "nvidia-mig-parted may not partition GPUs: its container is not privileged"},
		"without the node's devices": {"mixed", sevenths, strings.Replace(parted, ", {name: dev, mountPath: /dev}", "", 1), "", "/dev is not mounted"},
		"devices of elsewhere":       {"mixed", sevenths, strings.Replace(parted, "hostPath: {path: /dev}", "emptyDir: {}", 1), "", "/dev is not mounted"},
		"an unprivileged plugin":     {"mixed", sevenths, strings.Replace(parted, `"privileged": true`, `"privileged": false`, 1), "", "migStrategy is mixed, and its container is not privileged"},
		"one that leaves MIG alone":  {"none", sevenths, strings.Replace(parted, `"privileged": true`, `"privileged": false`, 1), "nvidia.com/gpu 4", ""},
		"another name":               {"mixed", sevenths, strings.Replace(parted, "config=a", "config=b", 1), "", `"b"`},
		"another file":               {"mixed", sevenths, strings.Replace(parted, "/mig-parted.yaml", "/parts.yaml", 1), "", "nvidia-mig-parted"},
		"no map":                     {"mixed", "7", parted, "", "expected shape"},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := deviceplugin.Locate(spec(t, c.pod), nil, func(string, string) (*corev1.ConfigMap, error) {
				return &corev1.ConfigMap{Data: map[string]string{
					"config.yaml":     "version: v1\nflags: {migStrategy: " + c.strategy + "}",
					"mig-parted.yaml": "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: " + c.devices + "}]}",
				}}, nil
			})
			switch {
			case c.refused != "":
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("got %v, want an error with %q", err, c.refused)
				}
			case err != nil || offer(config) != c.want:
				t.Errorf("got %s, %v; want %s", offer(config), err, c.want)
			}
		})
	}
	if !deviceplugin.HasMIG("H100") || deviceplugin.HasMIG("T4") || deviceplugin.NeedsReset("H100") || !deviceplugin.NeedsReset("A100") {
		t.Error("which models have MIG, and which are reset for it")
	}
}
