package deviceplugin

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

const (
	configFolder  = "/etc/nvidia-device-plugin"
	kubeletFolder = "/var/lib/kubelet/device-plugins"
)

// daemonSet runs the plugin on the GPU nodes of the pools.
//
// Its pods are replaced by package pluginupdate, one node at a time, and never by
// the DaemonSet's controller: a plugin that restarts withdraws its node's GPUs for
// a moment. The revision that distinguishes old pods from new ones is of what they run,
// and not of where: else a pool that moves between two configurations would have the plugins
// of all the others replaced. Only the pods' template has it, so that it is in one
// place. How the configuration divides GPUs is on the DaemonSet and not in the template: it
// is for those who compare, and rolls no pods.
func daemonSet(spec v1alpha1.DevicePluginSpec, p gpu.PluginConfig, c config, on selection) map[string]any {
	pod := podSpec(spec, p, c)
	revision := short([]any{pod, c.text + c.partitions}, 16)
	pod["affinity"] = map[string]any{"nodeAffinity": map[string]any{
		"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": []any{
			// A pool may have nodes with and without GPUs.
			map[string]any{"matchExpressions": append(on.requirements(), oneOf(manufacturerLabel, manufacturer))},
		}},
	}}
	pod["tolerations"] = tolerations(spec)

	object := named("apps/v1", "DaemonSet", gpu.PluginNamespace, pluginName+"-"+p.Name, p.Name)
	metadata := at(object, "metadata")
	metadata["annotations"] = map[string]any{gpu.SharingAnnotation: p.EncodeSharing()}
	object["spec"] = map[string]any{
		"selector":       map[string]any{"matchLabels": map[string]any{nameLabel: pluginName, gpu.ConfigLabel: p.Name}},
		"updateStrategy": map[string]any{"type": "OnDelete"},
		"template": map[string]any{
			"metadata": map[string]any{
				"labels":      metadata["labels"],
				"annotations": map[string]any{gpu.PluginHashAnnotation: revision},
			},
			"spec": pod,
		},
	}
	return object
}

// podSpec is what the pods run.
func podSpec(spec v1alpha1.DevicePluginSpec, p gpu.PluginConfig, c config) map[string]any {
	image := spec.Image + ":" + spec.Version
	plugin := container(pluginName, image, pluginName, "--config-file="+configFolder+"/"+configKey)
	plugin["securityContext"] = map[string]any{
		"allowPrivilegeEscalation": false,
		"capabilities":             map[string]any{"drop": []any{"ALL"}},
	}
	plugin["volumeMounts"] = []any{
		map[string]any{"name": "device-plugins", "mountPath": kubeletFolder},
		configMount(),
	}
	if r := resources(spec.Resources); len(r) > 0 {
		plugin["resources"] = r
	}
	pod := map[string]any{
		// GPU nodes are useless without it: it must not be evicted first.
		"priorityClassName": "system-node-critical",
		// It connects to the kubelet and the driver, never to the API server.
		"automountServiceAccountToken": false,
		"containers":                   []any{plugin},
		"volumes": []any{
			map[string]any{"name": "device-plugins", "hostPath": map[string]any{"path": kubeletFolder, "type": "Directory"}},
			map[string]any{"name": "config", "configMap": map[string]any{"name": c.name()}},
		},
	}
	if p.Strategy == gpu.SharingStrategyMPS {
		addMPS(pod, plugin, image)
	}
	for _, declared := range spec.Configs {
		if declared.Name == p.Name && declared.MIG != nil {
			addMIG(pod, plugin, *declared.MIG, p.Name)
		}
	}
	return pod
}

// container is one of the image's programs. There is nothing to probe: the plugin
// has no endpoint for it, and what it achieves shows in the node's resources.
func container(name, image string, command ...string) map[string]any {
	return map[string]any{
		"name": name, "image": image, "command": list(command),
		// The NVIDIA runtime gives the container the driver by these.
		"env": []any{
			map[string]any{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
			map[string]any{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
		},
		// A node's diagnosis reads a failed container's last log lines from its status.
		"terminationMessagePolicy": "FallbackToLogsOnError",
	}
}

func configMount() map[string]any {
	return map[string]any{"name": "config", "mountPath": configFolder, "readOnly": true}
}

// tolerations are the declared ones and that of our own startup taint, which waits
// for this very pod. Taints of failing nodes the DaemonSet's controller adds; the one
// of nodes that have not registered goes before the labels come by which they are
// selected.
func tolerations(spec v1alpha1.DevicePluginSpec) []any {
	out := []any{map[string]any{"key": gpu.StartupTaint, "operator": "Exists", "effect": "NoSchedule"}}
	for _, t := range spec.Tolerations {
		one := map[string]any{}
		for field, value := range map[string]string{"key": t.Key, "operator": t.Operator, "value": t.Value, "effect": t.Effect} {
			if value != "" {
				one[field] = value
			}
		}
		out = append(out, one)
	}
	return out
}

func resources(r *v1alpha1.Resources) map[string]any {
	out := map[string]any{}
	if r == nil {
		return out
	}
	for field, amounts := range map[string]map[string]resource.Quantity{"limits": r.Limits, "requests": r.Requests} {
		if len(amounts) == 0 {
			continue
		}
		texts := map[string]any{}
		for name, q := range amounts {
			texts[name] = q.String()
		}
		out[field] = texts
	}
	return out
}
