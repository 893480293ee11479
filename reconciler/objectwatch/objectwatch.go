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

// A watch that ended soon rests before it begins anew, and longer where it is not permitted: permissions
// that were narrowed may lack it for good.
const (
	watchRest   = 5 * time.Second
	refusedRest = time.Minute
)

// Begin begins a watch of a resource, as the clients of client-go do.
type Begin func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)

// Watch calls changed whenever what key makes of an object is another than before, when the object is
// deleted, and once for each watch after the first, until ctx ends: no event has what was deleted while no watch
// was open. A watch begins with the object as it is, for which changed is called too, and needs no list.
func Watch(ctx context.Context, begin Begin, name string, key func(runtime.Object) string, changed func()) {
	run(ctx, begin, name, key, changed, sleep)
}

func sleep(ctx context.Context, rest time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(rest):
	}
}

// run is Watch with what waits before the next watch.
func run(ctx context.Context, begin Begin, name string, key func(runtime.Object) string, changed func(), sleep func(context.Context, time.Duration)) {
	last, began := "", false
	for ctx.Err() == nil {
		rest, start := watchRest, time.Now()
		w, err := begin(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		switch {
		case err == nil:
			if began {
				changed()
			}
			began = true
			last = follow(w, last, key, changed)
			if time.Since(start) > watchRest {
				rest = 0
			}
		case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
			rest = refusedRest
		}
		sleep(ctx, rest)
	}
}

// follow reads a watch to its end, and returns what key made of the object last.
func follow(w watch.Interface, last string, key func(runtime.Object) string, changed func()) string {
	defer w.Stop()
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
	return last
}
