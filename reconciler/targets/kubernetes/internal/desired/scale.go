package desired

import (
	"context"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
)

// autoscaled finds the items with spec.replicas at which an autoscaler aims,
// desired or live. KEDA is observed through the HorizontalPodAutoscaler that it
// makes, and in Git by its own kind.
func (w *State) autoscaled(ctx context.Context, items []state.Item) (map[state.Key]bool, error) {
	sized := map[state.Key]bool{}
	aims := map[state.Key]bool{}
	for _, item := range items {
		if spec, ok := item.Object["spec"].(map[string]any); ok && spec["replicas"] != nil {
			sized[item.Key] = true
		}
		if k, ok := manifest.ScaleTarget(item.Object, item.Key); ok {
			aims[k] = true
		}
	}
	if len(sized) == 0 {
		return nil, nil
	}
	hpa := schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}
	kind, ok, err := w.cfg.Kinds.FindAny(hpa)
	if err != nil {
		return nil, err
	}
	if ok {
		_, err := w.cfg.API.List(ctx, api.Ref{Resource: kind.GVR()}, "", func(o *unstructured.Unstructured) {
			k, ok := manifest.ScaleTarget(o.Object, state.Key{Kind: o.GetKind(), Group: "autoscaling", Namespace: o.GetNamespace()})
			if ok && w.cfg.Managed(k) {
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
