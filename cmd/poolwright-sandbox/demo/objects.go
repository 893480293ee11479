package demo

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/watch"
)

// The resources that the run touches by name.
func nodePools() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
}

func nodeClaims() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
}

func nodeClasses() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"}
}

func syncs() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "poolwright.dev", Version: "v1alpha1", Resource: "syncs"}
}

func clusters() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "poolwright.dev", Version: "v1alpha1", Resource: "clusters"}
}

// poolBecomes waits until a live pool is as desired, counting from a state of it on
// that was observed.
func (s *Run) poolBecomes(ctx context.Context, from *unstructured.Unstructured, desired func(*unstructured.Unstructured) bool) error {
	if desired(from) {
		return nil
	}
	one := fields.OneTermEqualSelector("metadata.name", from.GetName()).String()
	watcher := &cache.ListWatch{WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
		o.FieldSelector = one
		return s.dyn.Resource(nodePools()).Watch(ctx, o)
	}}
	_, err := watch.Until(ctx, from.GetResourceVersion(), watcher, func(e apiwatch.Event) (bool, error) {
		live, ok := e.Object.(*unstructured.Unstructured)
		return ok && desired(live), nil
	})
	if err != nil {
		return fmt.Errorf("watching NodePool %s: %w (%w)", from.GetName(), err, context.Cause(ctx))
	}
	return nil
}

// ready reports whether an object's condition Ready is true, and its message.
func ready(object *unstructured.Unstructured) (is bool, reason, message string) {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, e := range list {
		if c, ok := e.(map[string]any); ok && c["type"] == "Ready" {
			reason, _ = c["reason"].(string)
			message, _ = c["message"].(string)
			return c["status"] == "True", reason, message
		}
	}
	return false, "", ""
}
