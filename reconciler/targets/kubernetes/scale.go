package kubernetes

import (
	"context"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
)

// autoscaled finds the items with spec.replicas at which an autoscaler aims,
// wanted or live. KEDA is observed through the HorizontalPodAutoscaler that it
// makes, and in Git by its own kind.
func (w *Target) autoscaled(ctx context.Context, items []state.Item) (map[state.Key]bool, error) {
	sized := map[state.Key]bool{}
	aims := map[state.Key]bool{}
	for _, item := range items {
		if spec, ok := item.Object["spec"].(map[string]any); ok && spec["replicas"] != nil {
			sized[item.Key] = true
		}
		if k, ok := aimOf(item.Object, item.Key); ok {
			aims[k] = true
		}
	}
	if len(sized) == 0 {
		return nil, nil
	}
	hpa := schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}
	kind, ok, err := w.kinds.FindAny(hpa)
	if err != nil {
		return nil, err
	}
	if ok {
		_, err := w.api.List(ctx, api.Ref{Resource: kind.GVR()}, "", func(o *unstructured.Unstructured) {
			k, ok := aimOf(o.Object, state.Key{Kind: o.GetKind(), Group: "autoscaling", Namespace: o.GetNamespace()})
			if ok && w.managed(k) {
				aims[k] = true
			}
		})
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, api.Refused("listing the autoscalers", err, false)
		}
	}
	maps.DeleteFunc(aims, func(k state.Key, _ bool) bool { return !sized[k] })
	return aims, nil
}

// aimOf returns what an autoscaler scales.
func aimOf(object map[string]any, k state.Key) (state.Key, bool) {
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
	return state.Key{Target: Name, Group: group, Kind: kind, Namespace: k.Namespace, Name: name}, name != "" && kind != ""
}

// withoutReplicas copies an object without spec.replicas.
func withoutReplicas(object map[string]any) map[string]any {
	out := maps.Clone(object)
	if spec, ok := out["spec"].(map[string]any); ok {
		spec = maps.Clone(spec)
		delete(spec, "replicas")
		out["spec"] = spec
	}
	return out
}
