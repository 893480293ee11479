package objects

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/store"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// kindConfigMaps are those of the history, as kubectl takes them.
const kindConfigMaps = "configmaps"

// past is the history, which is decoded once for each change of its ConfigMaps.
type past struct {
	namespace string
	// notRead has why it cannot be read; empty where it can.
	notRead []get.IncompleteKind
	// version counts the changes of the ConfigMaps.
	version atomic.Int64

	decoding sync.Mutex
	// decoded is the history of decodedVersion, which is 0 before the first.
	decoded        history.History
	decodedVersion int64
}

// check requests one ConfigMap of the history, and returns whether they can be read.
func (p *past) check(ctx context.Context, from client.Reader) bool {
	err := from.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(p.namespace), client.MatchingLabels(store.Labels()), client.Limit(1))
	switch {
	case err == nil:
		return true
	case apierrors.IsForbidden(err):
		p.notRead = []get.IncompleteKind{{Kind: kindConfigMaps, Reason: get.Forbidden, Message: fmt.Sprintf("the history: you have no right to list configmaps in the namespace %[1]s; to check, run: kubectl auth can-i list configmaps -n %[1]s", p.namespace)}}
	default:
		p.notRead = []get.IncompleteKind{{Kind: kindConfigMaps, Reason: get.Failed, Message: "the history: " + sanitize.Text(err.Error())}}
	}
	return false
}

// History is what is recorded of the cluster; the zero one where nothing is, or where the user may not read it, which the report
// contains. Nobody may change it. It sends no request.
func (w *Cache) History(ctx context.Context) (history.History, error) {
	p := &w.past
	if len(p.notRead) > 0 {
		return history.History{}, nil
	}
	p.decoding.Lock()
	defer p.decoding.Unlock()
	version := p.version.Load()
	if version == p.decodedVersion {
		return p.decoded, nil
	}
	h, err := store.Read(ctx, w.reader, p.namespace)
	if err != nil {
		return history.History{}, err
	}
	p.decoded, p.decodedVersion = h, version
	return h, nil
}
