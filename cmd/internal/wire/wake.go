package wire

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// How long what a Secret says of webhooks is believed. That it says nothing is
// asked sooner again: somebody is setting a webhook up.
const (
	signersAge   = 30 * time.Second
	noSignersAge = 5 * time.Second
	// signersKept bounds the memory; there is one entry for each Sync's Secret.
	signersKept = 1000
)

// signers remembers for a while what may sign webhooks, so that a flood of them
// does not become one of reads. It reads without a cache: watching Secrets would
// need the right to list all of them.
type signers struct {
	reader    client.Reader
	namespace string
	clock     clock.PassiveClock

	// mu is held while a Secret is read: whoever asks meanwhile wants to know
	// the same.
	mu    sync.Mutex
	known map[string]signing
}

type signing struct {
	keys  [][]byte
	err   error
	until time.Time
}

// of returns what may sign webhooks by a Secret's word; nothing, when there is no
// such Secret or it has no such keys.
func (s *signers) of(ctx context.Context, secret string) ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.known[secret]; ok && s.clock.Now().Before(now.until) {
		return now.keys, now.err
	}
	var held corev1.Secret
	err := client.IgnoreNotFound(s.reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: secret}, &held))
	if ctx.Err() != nil {
		return nil, ctx.Err() // it may be only this sender who went away
	}
	found := signing{err: err, until: s.clock.Now().Add(noSignersAge)}
	for _, key := range []string{keyWebhook, keyWebhookOld} {
		if value := held.Data[key]; err == nil && len(value) > 0 {
			found.keys = append(found.keys, value)
			found.until = s.clock.Now().Add(signersAge)
		}
	}
	if s.known == nil || len(s.known) >= signersKept {
		s.known = map[string]signing{}
	}
	s.known[secret] = found
	return found.keys, found.err
}

// The rest between two writes to one Sync: it doubles while more is told, so that
// neither a busy repository nor somebody who sends a recorded webhook again and
// again makes more of them.
const (
	firstRest   = time.Second
	longestRest = 5 * time.Second
	// wakeTries is how often one write is tried. Asking in intervals finds what a
	// lost one would have told.
	wakeTries   = 5
	wakeTimeout = 5 * time.Second
)

// waker writes on Syncs that there is something to look at: at once, and what is
// told meanwhile, however much, in one more write after a rest.
type waker struct {
	writer    client.Writer
	namespace string
	clock     clock.Clock
	log       logr.Logger

	running sync.WaitGroup
	mu      sync.Mutex
	waking  map[string]*tidings
}

// tidings are what is to be written on a Sync.
type tidings struct {
	something bool
	// pushed says that its branch has moved.
	pushed bool
}

// wake returns at once. What it is told is written even when ctx ends.
func (w *waker) wake(ctx context.Context, sync string, pushed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.waking[sync]; t != nil {
		t.something, t.pushed = true, t.pushed || pushed
		return
	}
	if w.waking == nil {
		w.waking = map[string]*tidings{}
	}
	w.waking[sync] = &tidings{something: true, pushed: pushed}
	w.running.Go(func() { w.write(ctx, sync) })
}

// wait returns when everything is written. Nothing more may be told.
func (w *waker) wait() { w.running.Wait() }

// write goes on until nothing more was told during a rest.
func (w *waker) write(ctx context.Context, sync string) {
	failures := 0
	for rest := firstRest; ; rest = min(2*rest, longestRest) {
		news, more := w.take(sync)
		if !more {
			return
		}
		err := w.annotate(ctx, sync, news.pushed)
		switch failures++; {
		case err == nil:
			failures = 0
		case failures == wakeTries || ctx.Err() != nil:
			failures = 0
			w.log.Error(err, "Giving up to tell the leader of a webhook; it finds the change by polling", "sync", sync)
		default:
			w.wake(ctx, sync, news.pushed)
		}
		select {
		case <-w.clock.After(rest):
		case <-ctx.Done():
		}
	}
}

// take returns what is to be written, or ends the writing when that is nothing.
func (w *waker) take(sync string) (tidings, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	news := *w.waking[sync]
	if !news.something {
		delete(w.waking, sync)
		return tidings{}, false
	}
	*w.waking[sync] = tidings{}
	return news, true
}

// annotate writes by a client that works on a standby, too. A Sync that is gone
// needs no telling.
func (w *waker) annotate(ctx context.Context, name string, pushed bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wakeTimeout)
	defer cancel()
	at := w.clock.Now().UTC().Format(time.RFC3339Nano)
	annotations := map[string]string{v1alpha1.WebhookAnnotation: at}
	if pushed {
		annotations[v1alpha1.ReconcileAnnotation] = at
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	err = w.writer.Patch(ctx, sync, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
