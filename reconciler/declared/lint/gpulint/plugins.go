package gpulint

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// twoPlugins is what comes of a second plugin.
const twoPlugins = "two device plugins on one node overwrite each other's GPU count, so that the node never becomes ready and is replaced repeatedly"

// plugin is what a DevicePlugin brings to the pool's nodes, and what comes of another device plugin there.
func (p *pool) plugin() (brings, consequence string) {
	if p.dra {
		return "NVIDIA's DRA driver", "both advertise each GPU of a node, so that two pods get the same one"
	}
	return "one", twoPlugins
}

// plugins finds other device plugins for NVIDIA's GPUs that come to nodes which the
// DevicePlugin serves: NVIDIA's own objects, and its operator's.
func (c *linter) plugins() {
	for _, w := range c.workloads {
		if at := runsPlugin(w.pod); at >= 0 && !ours(w.item) {
			c.another(w, fmt.Sprintf("%s.containers[%d].image", w.path, at))
		}
	}
	for _, item := range c.items {
		if item.Key.Group == "nvidia.com" && item.Key.Kind == "ClusterPolicy" {
			c.operator(item)
		}
	}
}

// runsPlugin is the container that runs NVIDIA's plugin, -1 where none does. The
// same image has other programs.
func runsPlugin(pod corev1.PodSpec) int {
	return slices.IndexFunc(pod.Containers, func(o corev1.Container) bool {
		image, _, _ := strings.Cut(o.Image, "@")
		if !strings.HasPrefix(path.Base(image), "k8s-device-plugin") {
			return false
		}
		command := o.Command
		if len(command) == 0 {
			command = o.Args
		}
		// What the image runs by itself is the plugin.
		return len(command) == 0 || strings.HasPrefix(command[0], "-") ||
			slices.ContainsFunc(command, func(arg string) bool { return strings.Contains(arg, "nvidia-device-plugin") })
	})
}

// ours reports an object that was made of a DevicePlugin.
func ours(item state.Item) bool {
	var o struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	return read(item.Object, &o) && o.Metadata.Labels[gpu.ConfigLabel] != ""
}

// another reports a workload that brings a plugin.
func (c *linter) another(w workload, path string) {
	if p := c.servedFor(w, alternatives(w.pod)); p != nil {
		brings, consequence := p.plugin()
		c.problem(w.item, path, codeDevicePluginConflict, "this is NVIDIA's device plugin, and DevicePlugin %s (%s) brings %s to nodes of NodePool %s: %s; take this one out, or keep it off the pool",
			finding.NewFact("devicePlugin", c.sharing.Name), finding.NewFact("declaredAt", c.plugin.item.Origin), brings, finding.NewFact("nodePool", p.called()), consequence)
		return
	}
	// Labels for what a node has come from programs that inspect it.
	discovered := func(r catalog.Requirement) bool {
		return strings.HasPrefix(r.Key, "feature.node.kubernetes.io/") || isNVIDIA(r.Key)
	}
	choices := alternatives(w.pod)
	for i := range choices {
		choices[i] = slices.DeleteFunc(choices[i], discovered)
	}
	if p := c.servedFor(w, choices); p != nil {
		brings, consequence := p.plugin()
		c.warn(w.item, path, codeDevicePluginMayConflict, "this is NVIDIA's device plugin, and DevicePlugin %s (%s) brings %s to nodes of NodePool %s: where something gives them the labels that this one selects, %s; take this one out, or keep it off the pool",
			finding.NewFact("devicePlugin", c.sharing.Name), finding.NewFact("declaredAt", c.plugin.item.Origin), brings, finding.NewFact("nodePool", p.called()), consequence)
	}
}

// servedFor is the first pool with a configuration that pods can run in which meet one of
// several lists of requirements; nil if there is none.
func (c *linter) servedFor(w workload, choices [][]catalog.Requirement) *pool {
	if w.pod.NodeName != "" {
		return nil
	}
	for _, p := range c.pools {
		if (p.served || p.dra) && c.toleratesAll(w.pod.Tolerations, p.taintList()) && len(p.reachable(choices)) > 0 {
			return p
		}
	}
	return nil
}

// deployLabel on a node keeps the plugin of NVIDIA's operator away.
const deployLabel = "nvidia.com/gpu.deploy.device-plugin"

// operator reports NVIDIA's operator where it runs its plugin, which it does unless
// that is switched off.
func (c *linter) operator(item state.Item) {
	var policy struct {
		Spec struct {
			DevicePlugin struct {
				Enabled *bool `json:"enabled"`
			} `json:"devicePlugin"`
		} `json:"spec"`
	}
	if !read(item.Object, &policy) {
		return
	}
	if enabled := policy.Spec.DevicePlugin.Enabled; enabled != nil && !*enabled {
		return
	}
	for _, p := range c.pools {
		if (p.served || p.dra) && len(p.gpus) > 0 && p.labels()[deployLabel] != "false" {
			brings, consequence := p.plugin()
			c.problem(item, "spec.devicePlugin.enabled", codeDevicePluginConflict, "NVIDIA's operator runs its device plugin on all nodes with GPUs, and DevicePlugin %s (%s) brings %s to nodes of NodePool %s: %s; write enabled: false, or give the pool's nodes the label %s: \"false\"",
				finding.NewFact("devicePlugin", c.sharing.Name), finding.NewFact("declaredAt", c.plugin.item.Origin), brings, finding.NewFact("nodePool", p.called()), consequence, deployLabel)
			return
		}
	}
}
