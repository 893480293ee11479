package kinds

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/state"
)

// Defined lists the kinds, one per served version, that a
// CustomResourceDefinition defines; none where it is malformed, for which the API
// server has the better error.
func Defined(definition map[string]any) []Kind {
	spec, _ := definition["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	group, _ := spec["group"].(string)
	kind, _ := names["kind"].(string)
	plural, _ := names["plural"].(string)
	scope, _ := spec["scope"].(string)
	versions, _ := spec["versions"].([]any)
	if kind == "" || plural == "" || group == "" {
		return nil
	}
	var out []Kind
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		if served, _ := version["served"].(bool); !served || name == "" {
			continue
		}
		out = append(out, Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: group, Version: name, Kind: kind},
			Resource:         plural, Namespaced: scope == "Namespaced", Manageable: true, DeclaredOnly: true,
		})
	}
	return out
}

// OwnsWholeSpec reports whether a kind belongs to us with all of its spec, so that a
// field which somebody added by hand is drift although we never set it.
func OwnsWholeSpec(group, kind string) bool {
	switch group {
	case "karpenter.sh":
		return kind == "NodePool" || kind == "NodeOverlay"
	case "karpenter.k8s.aws":
		return kind == "EC2NodeClass"
	case "poolwright.dev":
		return kind == "Cluster" || kind == "DevicePlugin"
	}
	return false
}

// Waves of work: what defines, what others refer to, room that is given up, what
// fills room, room, what works, and what can stand in the others' way.
//
// NodeOverlays declare how many pods go on a node's GPUs and device plugins make it
// true. Where there is to be less, the overlay goes first, so that no node is bought
// for pods that it will not take; else the plugin. Both go before pods and NodePools: a
// pool without its overlay would buy a node for each share.
const (
	waveDefinitions = iota
	waveClasses
	waveShrink
	wavePlugin
	waveOverlays
	waveRest
	waveGates
)

// Wave is the place of a kind in the order of work.
func Wave(group, kind string) int {
	switch kind {
	case "CustomResourceDefinition", "Namespace":
		return waveDefinitions
	case "Cluster":
		if group == "poolwright.dev" {
			return waveClasses
		}
	case "DevicePlugin":
		if group == "poolwright.dev" {
			return wavePlugin
		}
	case "NodeOverlay":
		if group == "karpenter.sh" {
			return waveOverlays
		}
	case "ServiceAccount", "ResourceQuota", "LimitRange":
		// Pods are refused without the first, and escape the others.
		return waveClasses
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding", "APIService":
		// A webhook without its backend refuses everything after it.
		return waveGates
	}
	if strings.HasSuffix(kind, "Class") {
		return waveClasses
	}
	return waveRest
}

// PluginWave is the place of what is made for a configuration of GPUs: the plugin or the DRA driver, and
// before it the configuration that its pods mount, and the driver's permissions.
func PluginWave(group, kind string) int {
	switch {
	case group == "" && kind == "ConfigMap", group == "rbac.authorization.k8s.io":
		return waveClasses
	case group == "apps" && kind == "DaemonSet":
		return wavePlugin
	}
	return Wave(group, kind)
}

// WaveOnDecrease is where a kind gives up room; nil for the kinds that hold none.
func WaveOnDecrease(group, kind string) *state.WaveOnDecrease {
	if group != "karpenter.sh" || kind != "NodeOverlay" {
		return nil
	}
	return &state.WaveOnDecrease{Field: []string{"spec", "capacity"}, Wave: waveShrink}
}
