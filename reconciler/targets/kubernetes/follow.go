package kubernetes

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

// eventHandler see the objects of one kind: first all that there are, then what
// changes. After a gap in the stream they see all again.
type eventHandler interface {
	// updated gets an object that exists or has changed. It must not keep it.
	updated(live *unstructured.Unstructured)
	// listed gets the keys of everything that existed a moment ago, all of which
	// have just been observed.
	listed(all map[state.Key]bool)
	// gone gets the last state of an object that no longer matches: deleted,
	// or without our label.
	gone(live *unstructured.Unstructured)
}

// follow shows the labelled objects of a kind until ctx ends. Objects pass
// through one by one and are not kept, so that memory does not grow with them.
func (w *Target) follow(ctx context.Context, kind kinds.Kind, to eventHandler) {
	ref := api.Ref{Resource: kind.GVR()}
	wait := newBackoff()
	version := ""
	for ctx.Err() == nil {
		if version == "" {
			var err error
			all := map[state.Key]bool{}
			version, err = w.api.List(ctx, ref, w.selector(), func(live *unstructured.Unstructured) {
				all[keyOf(kind, live)] = true
				to.updated(live)
			})
			if apierrors.IsNotFound(err) {
				to.listed(nil) // The kind itself is gone, or not served yet.
			}
			if err != nil {
				version = ""
				wait.sleep(ctx)
				continue
			}
			to.listed(all)
		}
		started := time.Now()
		next, err := w.stream(ctx, ref, version, to)
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
func (w *Target) stream(ctx context.Context, ref api.Ref, version string, to eventHandler) (string, error) {
	// The API server ends a watch after this time; spread, so that not all
	// kinds come back at once.
	seconds := int64(300 + rand.IntN(300))
	events, err := w.api.Watch(ctx, ref, w.selector(), version, seconds)
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
			to.updated(live)
		case watch.Deleted:
			to.gone(live)
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
	pause(ctx, b.next/2+rand.N(b.next/2+1))
	b.next = min(2*b.next, 5*time.Second)
}
