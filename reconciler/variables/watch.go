package variables

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/objectwatch"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Watch watches each ConfigMap and Secret that a Sync takes variables from: one object a
// watch, and of that the metadata, so that no value is held or read here. What changes
// while a watch rests is found at the next fetch, which reads the values anyway. changed
// is called without keys: none of what is declared has changed by itself.
func Watch(config *rest.Config, sync *v1alpha1.Sync) []func(ctx context.Context, changed func([]state.Key)) error {
	var out []func(ctx context.Context, changed func([]state.Key)) error
	for _, ref := range sync.Spec.SubstituteFrom {
		resource := map[string]string{v1alpha1.SubstituteConfigMap: "configmaps", v1alpha1.SubstituteSecret: "secrets"}[ref.Kind]
		if resource == "" {
			continue
		}
		out = append(out, func(ctx context.Context, changed func([]state.Key)) error {
			client, err := metadata.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("watching %s %s: %w", ref.Kind, ref.Name, err)
			}
			objects := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(sync.Namespace)
			objectwatch.Watch(ctx, objects.Watch, ref.Name, resourceVersion, func() { changed(nil) })
			return nil
		})
	}
	return out
}

func resourceVersion(o runtime.Object) string {
	if object, ok := o.(*metav1.PartialObjectMetadata); ok {
		return object.ResourceVersion
	}
	return ""
}
