package losses

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

func isPlugin(k state.Key, object map[string]any) bool {
	return k.Group == "apps" && k.Kind == "DaemonSet" && kinds.ServesGPUs(object)
}

// ConfigOf is the GPU configuration that an object was made for; empty for what several share, and for all others.
func ConfigOf(object map[string]any) string {
	dra, _ := kinds.DRAConfig(object)
	return cmp.Or(kinds.PluginConfig(object), dra)
}

// Coverage is which nodes get their GPUs from the device plugins and DRA drivers that go, by configuration, and which
// from those that stay.
type Coverage struct {
	removed map[string][]selectedNodes
	kept    []selectedNodes
}

// selectedNodes are the nodes that a device plugin or DRA driver runs on, or why they cannot be selected.
type selectedNodes struct {
	by    component
	nodes labels.Selector
	err   error
}

// component is what advertises GPUs.
type component int

const (
	byPlugin component = iota
	byDriver
)

// componentNames are the names of what advertises GPUs.
func componentNames(all []component) string {
	var names []string
	for _, by := range all {
		names = append(names, map[component]string{byPlugin: "plugin", byDriver: "DRA driver"}[by])
	}
	return strings.Join(names, " or ")
}

// NewCoverage distinguishes the device plugins among the live objects that are not desired any
// more from those among what is desired.
func NewCoverage(desired []state.Item, removed map[state.Key]map[string]any) Coverage {
	out := Coverage{removed: map[string][]selectedNodes{}}
	for k, object := range removed {
		if isPlugin(k, object) {
			config := ConfigOf(object)
			out.removed[config] = append(out.removed[config], nodesOf(object))
		}
	}
	for _, item := range desired {
		if !isPlugin(item.Key, item.Object) {
			continue
		}
		if nodes := nodesOf(item.Object); nodes.err == nil {
			out.kept = append(out.kept, nodes)
		}
	}
	return out
}

// PluginLosses are what goes with the device plugins and DRA drivers that go, by configuration.
type PluginLosses map[string]uncoveredNodes

// uncoveredNodes are nodes whose GPUs nothing would advertise any more, or why they could
// not be counted.
type uncoveredNodes struct {
	// by is what advertises them, sorted.
	by    []component
	nodes loss.Names
	err   error
}

func (u uncoveredNodes) removal() loss.DeletionImpact {
	switch {
	case u.err != nil:
		return loss.DeletionImpact{
			Impact: "the nodes that the " + componentNames(u.by) + " runs on could not be counted: " + u.err.Error(),
			Losses: loss.Counts{loss.Uncounted: 1},
		}
	case len(u.nodes) == 0:
		return loss.DeletionImpact{}
	}
	return u.nodes.DeletionImpact("no " + componentNames(u.by) + " advertises the GPUs of " + plural.Count(len(u.nodes["Node"]), "node") + " any more")
}

// LostGPUs counts for one configuration, or for all where it is empty, what goes with the
// plugins that go. Without a Coverage nothing is known to go.
func (c Counter) LostGPUs(ctx context.Context, f *Coverage, config string) PluginLosses {
	out := PluginLosses{}
	if f == nil {
		return out
	}
	for name, all := range f.removed {
		if config != "" && config != name {
			continue
		}
		var lost []uncoveredNodes
		for _, of := range all {
			lost = append(lost, c.countUncovered(ctx, of, f.kept))
		}
		out[name] = joined(lost)
	}
	return out
}

// removal is what goes with an object of a configuration, or with the DevicePlugin that
// they were all made from. They are confirmed as one thing: a plugin that waits for a
// confirmation needs its configuration for every pod, Karpenter needs its numbers, and
// whoever watches over nodes needs the DevicePlugin.
func (l PluginLosses) removal(k state.Key, live map[string]any) loss.DeletionImpact {
	if config := ConfigOf(live); config != "" {
		return l[config].removal()
	}
	_, driver := kinds.DRAConfig(live)
	var all []uncoveredNodes
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if kinds.IsDevicePlugin(k) || driver && slices.Contains(l[name].by, byDriver) {
			all = append(all, l[name])
		}
	}
	return joined(all).removal()
}

// joined is what goes with several.
func joined(lost []uncoveredNodes) uncoveredNodes {
	all := uncoveredNodes{nodes: loss.Names{}}
	for _, l := range lost {
		if l.err != nil || len(l.nodes) > 0 {
			all.by = append(all.by, l.by...)
		}
		karpenter.Lost(all.nodes, l.nodes["Node"], nil)
		all.err = cmp.Or(all.err, l.err)
	}
	slices.Sort(all.by)
	all.by = slices.Compact(all.by)
	return all
}

// countUncovered counts the nodes that a plugin runs on and no other plugin, or a driver and no other driver: a pod that
// has its GPU by one keeps nothing by the other.
func (c Counter) countUncovered(ctx context.Context, of selectedNodes, others []selectedNodes) uncoveredNodes {
	out := uncoveredNodes{by: []component{of.by}, nodes: loss.Names{}, err: of.err}
	if of.err != nil {
		return out
	}
	nodes := api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}
	out.err = c.API.Names(ctx, nodes, of.nodes.String(), "", func(node *metav1.PartialObjectMetadata) {
		if !slices.ContainsFunc(others, func(other selectedNodes) bool {
			return other.by == of.by && other.nodes.Matches(labels.Set(node.Labels))
		}) {
			out.nodes.Add("Node", node.Name)
		}
	})
	return out
}

// StillMounted reports whether a plugin's configuration that is not desired any more
// is one that a DaemonSet makes pods with, or that pods live on until they are
// replaced: a node that comes or reboots would not get its GPUs without it. It goes
// when everything is compared the next time after that. A DaemonSet that goes too
// counts for nothing, and neither do its pods: the configuration waits for the same
// result.
func (c Counter) StillMounted(ctx context.Context, live *unstructured.Unstructured, deleted map[state.Key]bool) bool {
	config := kinds.PluginConfig(live.Object)
	if live.GetKind() != "ConfigMap" || config == "" {
		return false
	}
	goes := func(daemonSet string) bool {
		return deleted[state.Key{Target: kinds.Target, Group: "apps", Kind: "DaemonSet", Namespace: live.GetNamespace(), Name: daemonSet}]
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
		_, err := c.API.List(ctx, ref, labels.Set{gpu.ConfigLabel: config}.String(), func(u *unstructured.Unstructured) {
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

func nodesOf(daemonSet map[string]any) selectedNodes {
	by := byPlugin
	if _, driver := kinds.DRAConfig(daemonSet); driver {
		by = byDriver
	}
	nodes, err := affinityOf(daemonSet)
	return selectedNodes{by, nodes, err}
}

// affinityOf reads the node affinity of a DaemonSet that was made for a configuration, which
// has one term.
func affinityOf(daemonSet map[string]any) (labels.Selector, error) {
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
		value, _ := expression["operator"].(string)
		values, _, _ := unstructured.NestedStringSlice(expression, "values")
		operator, known := map[corev1.NodeSelectorOperator]selection.Operator{
			corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
			corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
		}[corev1.NodeSelectorOperator(value)]
		if !known {
			return nil, fmt.Errorf("its node affinity has the operator %q", value)
		}
		requirement, err := labels.NewRequirement(key, operator, values)
		if err != nil {
			return nil, fmt.Errorf("reading its node affinity: %w", err)
		}
		out = out.Add(*requirement)
	}
	return out, nil
}
