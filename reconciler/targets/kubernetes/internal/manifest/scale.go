package manifest

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// ScaleTarget is the key of what an autoscaler scales, a HorizontalPodAutoscaler or a
// ScaledObject of KEDA with that key; it is false for all other objects.
func ScaleTarget(object map[string]any, k state.Key) (state.Key, bool) {
	fallback := ""
	switch {
	case k.Group == "autoscaling" && k.Kind == "HorizontalPodAutoscaler":
	case k.Group == "keda.sh" && k.Kind == "ScaledObject":
		fallback = "Deployment"
	default:
		return state.Key{}, false
	}
	ref, ok, err := unstructured.NestedMap(object, "spec", "scaleTargetRef")
	if !ok || err != nil {
		return state.Key{}, false
	}
	name, _ := ref["name"].(string)
	kind, _ := ref["kind"].(string)
	version, _ := ref["apiVersion"].(string)
	if kind == "" {
		kind = fallback
	}
	group, _, grouped := strings.Cut(version, "/")
	if !grouped {
		group = ""
		if version == "" && fallback != "" {
			group = "apps"
		}
	}
	return state.Key{Target: kinds.Target, Group: group, Kind: kind, Namespace: k.Namespace, Name: name}, name != "" && kind != ""
}

// WithoutReplicas copies an object without spec.replicas.
func WithoutReplicas(object map[string]any) map[string]any {
	out := maps.Clone(object)
	if spec, ok := out["spec"].(map[string]any); ok {
		spec = maps.Clone(spec)
		delete(spec, "replicas")
		out["spec"] = spec
	}
	return out
}
