package wire

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// A watch that ended rests before it begins anew, and longer where it was refused: rights
// that were narrowed may lack it.
const (
	watchRest   = 5 * time.Second
	refusedRest = time.Minute
)

// watchVariables watches each ConfigMap and Secret that a Sync takes variables from: one
// object a watch, and of that the metadata, so that no value is held or read here. What
// changes while a watch rests is found at the next fetch, which reads the values anyway.
func (a *attempt) watchVariables(sync *v1alpha1.Sync) []watchFunc {
	var out []watchFunc
	for _, ref := range sync.Spec.SubstituteFrom {
		resource := map[string]string{v1alpha1.SubstituteConfigMap: "configmaps", v1alpha1.SubstituteSecret: "secrets"}[ref.Kind]
		if resource == "" {
			continue
		}
		out = append(out, func(ctx context.Context, changed func([]state.Key)) error {
			client, err := metadata.NewForConfig(a.cfg.REST)
			if err != nil {
				return fmt.Errorf("watching %s %s: %w", ref.Kind, ref.Name, err)
			}
			attend(ctx, client.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(sync.Namespace), ref.Name, func() { changed(nil) })
			return nil
		})
	}
	return out
}

// attend tells of each state of one object that it has not told of, until ctx ends. The
// watch begins with the object as it is, and needs no list.
func attend(ctx context.Context, objects metadata.ResourceInterface, name string, changed func()) {
	told := ""
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
				if now != told {
					told = now
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
