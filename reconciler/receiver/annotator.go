package receiver

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// The time between two writes to one Sync: it doubles while more webhooks come, so that
// neither a busy repository nor a sender of recorded webhooks makes more writes.
const (
	minInterval = time.Second
	maxInterval = 5 * time.Second
	// maxTries is how often one write is tried. The Sync's own interval makes up for a
	// lost one.
	maxTries     = 5
	writeTimeout = 5 * time.Second
)

// annotator annotates Syncs: at once, and for all webhooks that come before the interval is
// over, once more after it.
type annotator struct {
	writer    client.Writer
	namespace string
	clock     clock.Clock
	log       logr.Logger

	running sync.WaitGroup
	mu      sync.Mutex
	pending map[string]*request
}

// request is the write that a Sync is due.
type request struct {
	due bool
	// pushed is for a push to the branch that the Sync follows.
	pushed bool
}

// annotate returns at once. The write is made even when ctx ends.
func (a *annotator) annotate(ctx context.Context, sync string, pushed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.pending[sync]; r != nil {
		r.due, r.pushed = true, r.pushed || pushed
		return
	}
	if a.pending == nil {
		a.pending = map[string]*request{}
	}
	a.pending[sync] = &request{due: true, pushed: pushed}
	a.running.Go(func() { a.write(ctx, sync) })
}

// wait returns when everything is written. annotate must not be called any more.
func (a *annotator) wait() { a.running.Wait() }

// write goes on until no webhook came during an interval.
func (a *annotator) write(ctx context.Context, sync string) {
	failures := 0
	for interval := minInterval; ; interval = min(2*interval, maxInterval) {
		next, more := a.take(sync)
		if !more {
			return
		}
		err := a.patch(ctx, sync, next.pushed)
		switch failures++; {
		case err == nil:
			failures = 0
		case failures == maxTries || ctx.Err() != nil:
			failures = 0
			a.log.Error(err, "Annotating a Sync for a webhook failed; it reads the change at its interval", "sync", sync)
		default:
			a.annotate(ctx, sync, next.pushed)
		}
		select {
		case <-a.clock.After(interval):
		case <-ctx.Done():
		}
	}
}

// take returns what is to be written, or ends the writing when that is nothing.
func (a *annotator) take(sync string) (request, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := *a.pending[sync]
	if !next.due {
		delete(a.pending, sync)
		return request{}, false
	}
	*a.pending[sync] = request{}
	return next, true
}

// patch writes with a client that works on a standby, too. A Sync that is gone is no error.
func (a *annotator) patch(ctx context.Context, name string, pushed bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	at := a.clock.Now().UTC().Format(time.RFC3339Nano)
	annotations := map[string]string{v1alpha1.WebhookAnnotation: at}
	if pushed {
		annotations[fluxmeta.ReconcileRequestAnnotation] = at
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}}
	err = a.writer.Patch(ctx, sync, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
