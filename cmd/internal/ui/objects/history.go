package objects

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/store"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// kindConfigMaps are those of the history, as kubectl takes them.
const kindConfigMaps = "configmaps"

// historyReader reads the history, which is decoded once for each change of its ConfigMaps, also where it cannot be decoded.
type historyReader struct {
	namespace string
	// cached has the ConfigMaps once they are watched.
	cached client.Reader
	// notRead has why it cannot be read; nil where it can.
	notRead atomic.Pointer[get.IncompleteKind]
	// version counts the changes of the ConfigMaps.
	version atomic.Int64

	decoding sync.Mutex
	// decoded is the history of decodedVersion, which is 0 before the first, and failure why there is none.
	decoded        history.History
	failure        error
	decodedVersion int64
}

// check requests one ConfigMap of the history, and returns whether they can be read. Where again is true it can be tried again: only a permission
// that is missing stays so.
func (h *historyReader) check(ctx context.Context, from client.Reader) (readable, again bool) {
	err := from.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(h.namespace), client.MatchingLabels(store.Labels()), client.Limit(1))
	switch {
	case err == nil:
		return true, false
	case apierrors.IsForbidden(err):
		h.notRead.Store(&get.IncompleteKind{Kind: kindConfigMaps, Reason: get.Forbidden, Message: fmt.Sprintf("the history: you have no permission to list configmaps in the namespace %[1]s; to check, run: kubectl auth can-i list configmaps -n %[1]s", h.namespace)})
		return false, false
	}
	h.notRead.Store(&get.IncompleteKind{Kind: kindConfigMaps, Reason: get.Failed, Message: "the history: " + sanitize.Text(err.Error())})
	return false, true
}

const (
	// firstCheck is after how long what failed is checked again, and maxCheck the longest time between two checks.
	firstCheck = 200 * time.Millisecond
	maxCheck   = 30 * time.Second
)

// checkAgain checks until the history can be read, and then watches it, or the permission for it is missing.
func (w *Cache) checkAgain(ctx context.Context, informers cache.Cache) {
	for pause := firstCheck; ; pause = min(2*pause, maxCheck) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		readable, again := w.history.check(ctx, w.reader.direct)
		if !readable {
			if !again {
				w.notify()
				return
			}
			continue
		}
		informer, err := w.follow(ctx, informers, &corev1.ConfigMap{})
		if err != nil {
			continue
		}
		if toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			w.history.notRead.Store(nil)
			w.history.version.Add(1)
			w.notify()
		}
		return
	}
}

// History is what is recorded of the cluster; the zero one where nothing is, or where the user may not read it, which the report
// contains. Nobody may change it. It sends no request.
func (w *Cache) History(ctx context.Context) (history.History, error) {
	h := &w.history
	if h.notRead.Load() != nil {
		return history.History{}, nil
	}
	h.decoding.Lock()
	defer h.decoding.Unlock()
	version := h.version.Load()
	if version == h.decodedVersion {
		return h.decoded, h.failure
	}
	decoded, err := store.Read(ctx, h.cached, h.namespace)
	if ctx.Err() != nil {
		return history.History{}, context.Cause(ctx)
	}
	h.decoded, h.failure, h.decodedVersion = decoded, err, version
	return decoded, err
}
