// Package objectwatch watches one object by its name, of which no more than that has to be permitted.
//
// It keeps no object and lists none. Start reading at Watch.
package objectwatch

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// A watch that ended soon rests before it begins anew, and longer where it was refused: rights
// that were narrowed may lack it.
const (
	watchRest   = 5 * time.Second
	refusedRest = time.Minute
)

// Begin begins a watch of a resource, as the clients of client-go do.
type Begin func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)

// Watch calls changed whenever what key makes of an object is another than before, and when the object is
// deleted, until ctx ends. The watch begins with the object as it is, for which changed is called too, and
// needs no list: what changes while it rests is found when it begins again.
func Watch(ctx context.Context, begin Begin, name string, key func(runtime.Object) string, changed func()) {
	last := ""
	for ctx.Err() == nil {
		rest, start := watchRest, time.Now()
		w, err := begin(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		switch {
		case err == nil:
			for event := range w.ResultChan() {
				if event.Type == watch.Error {
					break // The watch expired, or was refused.
				}
				now := key(event.Object)
				if event.Type == watch.Deleted {
					now += " deleted"
				}
				if now != last {
					last = now
					changed()
				}
			}
			w.Stop()
			if time.Since(start) > watchRest {
				rest = 0
			}
		case !apierrors.IsNotFound(err):
			rest = refusedRest
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}
