package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/target/cluster/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/target/internal/api"
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

// stillMounted reports whether a plugin's configuration that is not wanted any more
// is one that pods live on, until they are replaced: a node that reboots would not
// get its GPUs back without it. It goes when everything is compared the next time
// after that. Where the plugin goes too, nobody replaces its pods.
func (o *observation) stillMounted(ctx context.Context, live *unstructured.Unstructured) bool {
	profile := profileOf(live.Object)
	if live.GetKind() != "ConfigMap" || profile == "" {
		return false
	}
	replaced := false
	for _, plugin := range o.plugins() {
		replaced = replaced || plugin.Key.Namespace == live.GetNamespace() && profileOf(plugin.Object) == profile
	}
	if !replaced {
		return false
	}
	mounted := false
	pods := api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: live.GetNamespace()}
	_, err := o.world.api.List(ctx, pods, labels.Set{gpu.ProfileLabel: profile}.String(), func(pod *unstructured.Unstructured) {
		volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
		for _, v := range volumes {
			volume, _ := v.(map[string]any)
			name, _, _ := unstructured.NestedString(volume, "configMap", "name")
			mounted = mounted || name == live.GetName()
		}
	})
	// What cannot be seen may well be.
	return mounted || err != nil
}

// lostGPUs counts the nodes whose GPUs nothing would offer without a plugin.
func (o *observation) lostGPUs(ctx context.Context, live *unstructured.Unstructured) string {
	if !isPlugin(state.Key{Group: live.GroupVersionKind().Group, Kind: live.GetKind()}, live.Object) {
		return ""
	}
	on, err := nodesOf(live.Object)
	if err != nil {
		return "the nodes that it runs on could not be counted: " + err.Error()
	}
	var others []labels.Selector
	for _, plugin := range o.plugins() {
		if other, err := nodesOf(plugin.Object); err == nil {
			others = append(others, other)
		}
	}
	n := 0
	nodes := api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
	err = o.world.api.Names(ctx, nodes, on.String(), "", func(node *metav1.PartialObjectMetadata) {
		for _, other := range others {
			if other.Matches(labels.Set(node.Labels)) {
				return
			}
		}
		n++
	})
	switch {
	case err != nil:
		return "the nodes that it runs on could not be counted: " + err.Error()
	case n == 0:
		return ""
	}
	return "no plugin offers the GPUs of " + count(n, "node") + " any more"
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
