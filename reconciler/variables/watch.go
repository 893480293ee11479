package variables

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// A watch that ended rests before it begins anew, and longer where it was refused: rights
// that were narrowed may lack it.
const (
	watchRest   = 5 * time.Second
	refusedRest = time.Minute
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
			watchObject(ctx, client.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(sync.Namespace), ref.Name, func() { changed(nil) })
			return nil
		})
	}
	return out
}

// watchObject calls changed once for each resource version of one object, until ctx ends.
// The watch begins with the object as it is, and needs no list.
func watchObject(ctx context.Context, objects metadata.ResourceInterface, name string, changed func()) {
	last := ""
	for ctx.Err() == nil {
		rest := refusedRest
		w, err := objects.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err == nil {
			rest = watchRest
			for event := range w.ResultChan() {
				object, ok := event.Object.(*metav1.PartialObjectMetadata)
				if !ok {
					break // The watch expired, or was refused.
				}
				now := object.ResourceVersion
				if event.Type == watch.Deleted {
					now += " deleted"
				}
				if now != last {
					last = now
					changed()
				}
			}
			w.Stop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}
