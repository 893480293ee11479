package deviceplugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

const (
	// The plugin's values of migStrategy.
	migSingle = "single"
	migMixed  = "mixed"

	migProgram = "nvidia-mig-parted"

	devFolder = "/dev"
)

// migStrategy is the plugin's flag. A plugin without it advertises GPUs that are partitioned as whole ones.
func migStrategy(p gpu.PluginConfig) string {
	switch {
	case p.Strategy != gpu.StrategyMIG:
		return "none"
	case p.MIGSingle:
		return migSingle
	}
	return migMixed
}

// partitions is what nvidia-mig-parted makes of all GPUs of a node, in its own format.
func partitions(p gpu.PluginConfig) string {
	if p.Strategy != gpu.StrategyMIG {
		return ""
	}
	lines := []string{
		"version: v1",
		"mig-configs:",
		// A name such as 1e3 is no text without quotes.
		fmt.Sprintf("  %q:", p.Name),
		"    - devices: all",
		"      mig-enabled: true",
		"      mig-devices:",
	}
	for _, profile := range slices.Sorted(maps.Keys(p.MIGDevices)) {
		lines = append(lines, fmt.Sprintf("        %q: %d", profile, p.MIGDevices[profile]))
	}
	return strings.Join(lines, "\n") + "\n"
}

// addMIG has NVIDIA's nvidia-mig-parted partition the node's GPUs before the plugin starts, which registers what it finds then.
//
// It is an init container of the plugin's pod and not the MIG manager with its labels: pods are kept off the node until the
// plugin advertises what it should, so that nothing uses the GPUs yet, and after a reboot, by which GPUs lose their partitions,
// the containers run again. It changes nothing where all GPUs are partitioned already as declared. Where one is not, it deletes what
// it can of the partitions of every GPU, those included that a pod has and does not use at that moment: package pluginupdate replaces
// the pod only while no pod has GPUs.
func addMIG(pod, plugin map[string]any, mig v1alpha1.MIG, config string) {
	parted := container("mig-parted", mig.Image+":"+mig.Version, migProgram, "apply", "--config-file="+configFolder+"/"+partitionsKey, "--selected-config="+config)
	parted["env"] = []any{
		map[string]any{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
		map[string]any{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
		map[string]any{"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"},
	}
	parted["securityContext"] = map[string]any{"privileged": true}
	// The device nodes /dev/nvidia-caps/nvidia-capN, by which pods use MIG devices, are made in the container that partitions. Even
	// a privileged container has a /dev of its own, and the node would not have them.
	parted["volumeMounts"] = []any{configMount(), map[string]any{"name": "dev", "mountPath": devFolder}}
	pod["initContainers"] = []any{parted}
	pod["volumes"] = append(pod["volumes"].([]any), map[string]any{"name": "dev", "hostPath": map[string]any{"path": devFolder, "type": "Directory"}})

	// The driver lists MIG devices of all GPUs to a container with SYS_ADMIN, which NVIDIA's chart adds. The NVIDIA Container Toolkit
	// from 1.18.0 to 1.20.0 does not give it the device nodes that this takes too, so that the plugin ends with "Insufficient
	// Permissions"; a privileged container has all of them.
	plugin["securityContext"] = map[string]any{"privileged": true}
	plugin["env"] = append(plugin["env"].([]any), map[string]any{"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"})
}
