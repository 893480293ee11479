package deviceplugin

import (
	"fmt"
	"strings"

	"github.com/poolwright/poolwright/provision/gpu"
)

// configKey is the file's name in the ConfigMap and in the containers, partitionsKey that of what nvidia-mig-parted reads.
const (
	configKey     = "config.yaml"
	partitionsKey = "mig-parted.yaml"
)

// config is a configuration in the plugin's own configuration format.
type config struct {
	pluginConfig string
	text         string
	// partitions is the file of nvidia-mig-parted; empty where GPUs are not partitioned.
	partitions string
}

// configure writes the configuration's configuration. The same configuration gives the same
// text, byte by byte: the ConfigMap's name depends on it.
func configure(p gpu.PluginConfig) config {
	lines := []string{
		"version: v1",
		"flags:",
		"  migStrategy: " + migStrategy(p),
		// A node without a driver must show it. The plugin would wait in silence.
		"  failOnInitError: true",
	}
	strategy := map[gpu.SharingStrategy]string{gpu.SharingStrategyTimeSlicing: "timeSlicing", gpu.SharingStrategyMPS: "mps"}[p.Strategy]
	if strategy != "" {
		lines = append(lines,
			"sharing:",
			"  "+strategy+":",
			fmt.Sprintf("    renameByDefault: %t", p.Renamed),
			fmt.Sprintf("    failRequestsGreaterThanOne: %t", p.OnePerRequest),
			"    resources:",
			"      - name: "+string(gpu.Resource),
			fmt.Sprintf("        replicas: %d", p.Replicas),
		)
	}
	return config{pluginConfig: p.Name, text: strings.Join(lines, "\n") + "\n", partitions: partitions(p)}
}

// name changes with the content, so that the pods of a DaemonSet read the file that
// belongs to their template and no other, whenever they start.
//
// The ConfigMap of an earlier content is deleted when the last pod that mounts it is
// gone, not at once (targets/kubernetes does that). A pod keeps its volume for its life,
// and a container that only restarts would not notice; but after a reboot of the node, or
// a restart of its kubelet, the volume is set up anew, which fails without the ConfigMap,
// and an update that waits can leave old pods for a long time.
func (c config) name() string {
	return pluginName + "-" + c.pluginConfig + "-" + short(c.text+c.partitions, 8)
}

func (c config) object() map[string]any {
	object := named("v1", "ConfigMap", gpu.PluginNamespace, c.name(), c.pluginConfig)
	object["immutable"] = true
	data := map[string]any{configKey: c.text}
	if c.partitions != "" {
		data[partitionsKey] = c.partitions
	}
	object["data"] = data
	return object
}
