package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/losses"
)

// profileOf is the GPU profile that an object was made for; empty for all others.
func profileOf(object map[string]any) string {
	text, _, _ := unstructured.NestedString(object, "metadata", "labels", gpu.ProfileLabel)
	return text
}

// wave is an object's place in the order of work.
func wave(k state.Key, object map[string]any) int {
	if profileOf(object) != "" {
		return kinds.PluginWave(k.Group, k.Kind)
	}
	return kinds.Wave(k.Group, k.Kind)
}

func isPlugin(k state.Key, object map[string]any) bool {
	return k.Group == "apps" && k.Kind == "DaemonSet" && profileOf(object) != ""
}

// plugins are the wanted DaemonSets that offer GPUs.
func (o *observation) plugins() []state.Item {
	var out []state.Item
	for _, item := range o.wanted.Items() {
		if isPlugin(item.Key, item.Object) {
			out = append(out, item)
		}
	}
	return out
}

// pluginCoverage is which nodes get their GPUs from the plugins that go, by profile, and which
// from those that stay.
type pluginCoverage struct {
	removed map[string]selectedNodes
	kept    []labels.Selector
}

// selectedNodes are the nodes that a plugin runs on, or why they cannot be selected.
type selectedNodes struct {
	nodes labels.Selector
	err   error
}

// pluginCoverage distinguishes the plugins that are not wanted any more from the wanted ones.
func (o *observation) pluginCoverage() pluginCoverage {
	out := pluginCoverage{removed: map[string]selectedNodes{}}
	for _, s := range o.orphans {
		if isPlugin(s.item.Key, s.live.Object) {
			nodes, err := nodesOf(s.live.Object)
			out.removed[profileOf(s.live.Object)] = selectedNodes{nodes, err}
		}
	}
	for _, plugin := range o.plugins() {
		if nodes, err := nodesOf(plugin.Object); err == nil {
			out.kept = append(out.kept, nodes)
		}
	}
	return out
}

// pluginLosses are what goes with the plugins that go, by profile.
type pluginLosses map[string]uncoveredNodes

// uncoveredNodes are nodes whose GPUs nothing would offer without a plugin, or why they could
// not be counted.
type uncoveredNodes struct {
	nodes loss.Names
	err   error
}

func (u uncoveredNodes) removal() loss.Removal {
	switch {
	case u.err != nil:
		return loss.Removal{
			Impact: "the nodes that the device plugin runs on could not be counted: " + u.err.Error(),
			Losses: loss.Counts{loss.Uncounted: 1},
		}
	case len(u.nodes) == 0:
		return loss.Removal{}
	}
	return u.nodes.Removal("no plugin offers the GPUs of " + losses.Count(len(u.nodes["Node"]), "node") + " any more")
}

// lostGPUs counts for one profile, or for all where it is empty, what goes with the
// plugins that go.
func (w *Target) lostGPUs(ctx context.Context, f pluginCoverage, profile string) pluginLosses {
	out := pluginLosses{}
	for name, of := range f.removed {
		if profile == "" || profile == name {
			out[name] = w.countUncovered(ctx, of, f.kept)
		}
	}
	return out
}

// removal is what goes with an object of a profile, or with the DevicePlugin that
// they were all made from. They are one thing to whoever is asked: a plugin that
// waits for an answer needs its configuration for every pod, Karpenter needs its
// numbers, and whoever watches over nodes needs the DevicePlugin.
func (l pluginLosses) removal(k state.Key, live map[string]any) loss.Removal {
	if !isDevicePlugin(k) {
		return l[profileOf(live)].removal()
	}
	all := uncoveredNodes{nodes: loss.Names{}}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		karpenter.Lost(all.nodes, l[name].nodes["Node"], nil)
		all.err = cmp.Or(all.err, l[name].err)
	}
	return all.removal()
}

// countUncovered counts the nodes that a plugin runs on and none of the others.
func (w *Target) countUncovered(ctx context.Context, of selectedNodes, others []labels.Selector) uncoveredNodes {
	if of.err != nil {
		return uncoveredNodes{err: of.err}
	}
	out := uncoveredNodes{nodes: loss.Names{}}
	nodes := api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
	out.err = w.api.Names(ctx, nodes, of.nodes.String(), "", func(node *metav1.PartialObjectMetadata) {
		if !slices.ContainsFunc(others, func(other labels.Selector) bool { return other.Matches(labels.Set(node.Labels)) }) {
			out.nodes.Add("Node", node.Name)
		}
	})
	return out
}

// stillMounted reports whether a plugin's configuration that is not wanted any more
// is one that a DaemonSet makes pods with, or that pods live on until they are
// replaced: a node that comes or reboots would not get its GPUs without it. It goes
// when everything is compared the next time after that. A DaemonSet that goes too
// counts for nothing, and neither do its pods: the configuration waits for the same
// answer.
func (o *observation) stillMounted(ctx context.Context, live *unstructured.Unstructured, dying map[state.Key]bool) bool {
	profile := profileOf(live.Object)
	if live.GetKind() != "ConfigMap" || profile == "" {
		return false
	}
	goes := func(daemonSet string) bool {
		return dying[state.Key{Target: Name, Group: "apps", Kind: "DaemonSet", Namespace: live.GetNamespace(), Name: daemonSet}]
	}
	mounted := false
	for _, by := range []struct {
		of   schema.GroupVersionResource
		pod  []string
		goes func(*unstructured.Unstructured) bool
	}{
		{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, []string{"spec", "template", "spec"},
			func(u *unstructured.Unstructured) bool { return goes(u.GetName()) }},
		{schema.GroupVersionResource{Version: "v1", Resource: "pods"}, []string{"spec"},
			func(u *unstructured.Unstructured) bool {
				return slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Kind == "DaemonSet" && goes(r.Name) })
			}},
	} {
		ref := api.Ref{Resource: by.of, Namespace: live.GetNamespace()}
		_, err := o.target.api.List(ctx, ref, labels.Set{gpu.ProfileLabel: profile}.String(), func(u *unstructured.Unstructured) {
			left := u.GetDeletionTimestamp() == nil && !by.goes(u)
			mounted = mounted || left && mounts(u.Object, live.GetName(), by.pod)
		})
		if mounted || err != nil {
			return true // What cannot be observed may well be.
		}
	}
	return false
}

// mounts reports whether the pod at a path has a ConfigMap for a volume.
func mounts(object map[string]any, configMap string, pod []string) bool {
	volumes, _, _ := unstructured.NestedSlice(object, append(slices.Clone(pod), "volumes")...)
	return slices.ContainsFunc(volumes, func(v any) bool {
		volume, _ := v.(map[string]any)
		name, _, _ := unstructured.NestedString(volume, "configMap", "name")
		return name == configMap
	})
}

// nodesOf reads the node affinity of a DaemonSet that was made for a profile, which
// has one term.
func nodesOf(daemonSet map[string]any) (labels.Selector, error) {
	terms, _, _ := unstructured.NestedSlice(daemonSet, "spec", "template", "spec", "affinity", "nodeAffinity",
		"requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	if len(terms) != 1 {
		return nil, fmt.Errorf("its node affinity has %d terms, not one", len(terms))
	}
	term, _ := terms[0].(map[string]any)
	expressions, _, _ := unstructured.NestedSlice(term, "matchExpressions")
	out := labels.NewSelector()
	for _, e := range expressions {
		expression, _ := e.(map[string]any)
		key, _ := expression["key"].(string)
		word, _ := expression["operator"].(string)
		values, _, _ := unstructured.NestedStringSlice(expression, "values")
		operator, known := map[corev1.NodeSelectorOperator]selection.Operator{
			corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
			corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
		}[corev1.NodeSelectorOperator(word)]
		if !known {
			return nil, fmt.Errorf("its node affinity has the operator %q", word)
		}
		requirement, err := labels.NewRequirement(key, operator, values)
		if err != nil {
			return nil, fmt.Errorf("reading its node affinity: %w", err)
		}
		out = out.Add(*requirement)
	}
	return out, nil
}
