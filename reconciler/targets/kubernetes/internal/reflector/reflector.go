// Package reflector lists and watches the labelled objects of one kind, as client-go's
// Reflector does, and passes each on without keeping it, so that memory does not grow with
// them.
//
// It refuses to interpret a gap in the stream: after one everything is listed again. Start
// reading at Reflector.Run.
package reflector

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// Handler gets the objects of one kind: first all that there are, then what
// changes. After a gap in the stream it gets all again.
type Handler interface {
	// Updated gets an object that exists or has changed. It must not keep it.
	Updated(live *unstructured.Unstructured)
	// Listed gets the keys of everything that existed a moment ago, all of which
	// have just been passed to Updated.
	Listed(all map[state.Key]bool)
	// Deleted gets the last state of an object that no longer matches: deleted,
	// or without the label.
	Deleted(live *unstructured.Unstructured)
}

// Both passes each object to two Handlers, one after the other.
type Both struct{ First, Second Handler }

// Updated implements Handler.
func (b Both) Updated(live *unstructured.Unstructured) {
	b.First.Updated(live)
	b.Second.Updated(live)
}

// Listed implements Handler.
func (b Both) Listed(all map[state.Key]bool) {
	b.First.Listed(all)
	b.Second.Listed(all)
}

// Deleted implements Handler.
func (b Both) Deleted(live *unstructured.Unstructured) {
	b.First.Deleted(live)
	b.Second.Deleted(live)
}

// Reflector lists and watches the objects that a label selector selects.
type Reflector struct {
	// API reaches the cluster.
	API *api.Client
	// Selector is the label selector; empty for all objects.
	Selector string
	// Namespace and Name are of the one object to watch; empty for those of all names, in all
	// namespaces.
	Namespace, Name string
}

// Run passes the objects of a kind to a Handler, one by one, until ctx ends.
func (r Reflector) Run(ctx context.Context, kind kinds.Kind, to Handler) {
	ref := api.Ref{Resource: kind.GVR(), Namespace: r.Namespace, Name: r.Name}
	wait := newBackoff()
	version := ""
	for ctx.Err() == nil {
		if version == "" {
			var err error
			all := map[state.Key]bool{}
			version, err = r.API.List(ctx, ref, r.Selector, func(live *unstructured.Unstructured) {
				all[kind.Key(live)] = true
				to.Updated(live)
			})
			if apierrors.IsNotFound(err) {
				to.Listed(nil) // The kind itself is gone, or not served yet.
			}
			if err != nil {
				version = ""
				wait.sleep(ctx)
				continue
			}
			to.Listed(all)
		}
		started := time.Now()
		next, err := r.stream(ctx, ref, version, to)
		version = next
		switch {
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsNotFound(err):
			version = ""
		case err == nil && time.Since(started) > time.Second:
			wait = newBackoff()
			continue
		}
		wait.sleep(ctx)
	}
}

// stream shows changes after version until the API server ends the watch, and
// returns the version up to which everything was observed.
func (r Reflector) stream(ctx context.Context, ref api.Ref, version string, to Handler) (string, error) {
	// The API server ends a watch after this time; spread, so that not all
	// kinds come back at once.
	seconds := int64(300 + rand.IntN(300))
	events, err := r.API.Watch(ctx, ref, r.Selector, version, seconds)
	if err != nil {
		return version, err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		live, ok := event.Object.(*unstructured.Unstructured)
		if event.Type == watch.Error || !ok {
			return version, apierrors.FromObject(event.Object)
		}
		switch event.Type {
		case watch.Added, watch.Modified:
			to.Updated(live)
		case watch.Deleted:
			to.Deleted(live)
		case watch.Bookmark, watch.Error:
			// The one only moves the version; the other has returned above.
		}
		version = live.GetResourceVersion()
	}
	return version, nil
}

// backoff waits longer each time, up to a few seconds: drift must be found
// soon after the API server is back.
type backoff struct{ next time.Duration }

func newBackoff() *backoff { return &backoff{next: 50 * time.Millisecond} }

func (b *backoff) sleep(ctx context.Context) {
	t := time.NewTimer(b.next/2 + rand.N(b.next/2+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	b.next = min(2*b.next, 5*time.Second)
}
