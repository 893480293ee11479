package deviceplugin

import (
	"maps"
	"slices"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/state"
)

// The labels of every object that is made, and the value of the first.
const (
	nameLabel      = "app.kubernetes.io/name"
	managedByLabel = "app.kubernetes.io/managed-by"
	instanceLabel  = "app.kubernetes.io/instance"
	pluginName     = "nvidia-device-plugin"
)

// Labels that Karpenter puts on nodes, and supports as requirements.
const (
	poolLabel         = "karpenter.sh/nodepool"
	manufacturerLabel = "karpenter.k8s.aws/instance-gpu-manufacturer"
	countLabel        = "karpenter.k8s.aws/instance-gpu-count"
	manufacturer      = "nvidia"
)

// selection is a set of NodePools: those that are named, or all but those.
type selection struct {
	allBut bool
	names  []string
}

// without takes pools out. It reports false when none is left.
func (s selection) without(out []string) (selection, bool) {
	if s.allBut {
		names := slices.Concat(s.names, out)
		slices.Sort(names)
		return selection{allBut: true, names: slices.Compact(names)}, true
	}
	left := slices.DeleteFunc(slices.Clone(s.names), func(name string) bool { return slices.Contains(out, name) })
	return selection{names: left}, len(left) > 0
}

// requirements select the pools' nodes. A label that must not have a value need not
// be there either, so it is selected by too.
func (s selection) requirements() []any {
	if !s.allBut {
		return []any{oneOf(poolLabel, s.names...)}
	}
	out := []any{map[string]any{"key": poolLabel, "operator": "Exists"}}
	if len(s.names) > 0 {
		out = append(out, noneOf(poolLabel, s.names...))
	}
	return out
}

func oneOf(key string, values ...string) map[string]any {
	return map[string]any{"key": key, "operator": "In", "values": list(values)}
}

func noneOf(key string, values ...string) map[string]any {
	return map[string]any{"key": key, "operator": "NotIn", "values": list(values)}
}

func list(values []string) []any {
	out := make([]any, 0, len(values))
	for _, v := range values {
		out = append(out, v)
	}
	return out
}

// at is the map at a path, nil where there is none.
func at(object map[string]any, path ...string) map[string]any {
	for _, step := range path {
		object, _ = object[step].(map[string]any)
	}
	return object
}

// with is a copy of an object in which the map at a path has one value more; only
// what changes is copied.
func with(object map[string]any, key string, value any, path ...string) map[string]any {
	out := maps.Clone(object)
	if out == nil {
		out = map[string]any{}
	}
	if len(path) == 0 {
		out[key] = value
		return out
	}
	inner, _ := out[path[0]].(map[string]any)
	out[path[0]] = with(inner, key, value, path[1:]...)
	return out
}

// named is an object's head.
func named(apiVersion, kind, namespace, name, pluginConfig string) map[string]any {
	metadata := map[string]any{
		"name": name,
		"labels": map[string]any{
			nameLabel: pluginName, managedByLabel: "poolwright", gpu.ConfigLabel: pluginConfig,
		},
	}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
}

// short is a digest that fits into a name.
func short(v any, length int) string { return state.Hash(v)[:length] }
