package kinds

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Defined lists the kinds, one per served version, that a
// CustomResourceDefinition defines; none where it is malformed, which the API
// server will say better.
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
			Resource:         plural, Namespaced: scope == "Namespaced", Manageable: true, Promised: true,
		})
	}
	return out
}

// Whole reports whether a kind belongs to us with all of its spec, so that a
// field which somebody added by hand is drift although we never set it.
func Whole(group, kind string) bool {
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

// Waves of work: what defines, what others refer to, what works, and what can
// stand in the others' way.
const (
	waveDefinitions = iota
	waveClasses
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
