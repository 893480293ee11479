package kubernetes

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// readiness is what an object's status says of it.
type readiness struct {
	ready bool
	// failed reports that waiting longer will not help.
	failed bool
	reason string
}

func readinessOf(live *unstructured.Unstructured) readiness {
	if replacedByHand(live) {
		return accepted(live)
	}
	result, err := status.Compute(live)
	if err != nil {
		return readiness{failed: true, reason: "its status cannot be read: " + err.Error()}
	}
	reason := result.Message
	if reason == "" {
		reason = result.Status.String()
	}
	return readiness{ready: result.Status == status.CurrentStatus, failed: result.Status == status.FailedStatus, reason: reason}
}

// replacedByHand reports a DaemonSet whose pods its controller does not replace: who
// does so takes their time, one node after the other in the case of device plugins,
// and nothing else has to wait for the last of them.
func replacedByHand(live *unstructured.Unstructured) bool {
	strategy, _, _ := unstructured.NestedString(live.Object, "spec", "updateStrategy", "type")
	return live.GetKind() == "DaemonSet" && live.GroupVersionKind().Group == "apps" && strategy == "OnDelete" && live.GetDeletionTimestamp() == nil
}

// accepted is the readiness of what its controller only has to know.
func accepted(live *unstructured.Unstructured) readiness {
	observed, found, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
	if found && observed >= live.GetGeneration() {
		return readiness{ready: true, reason: "its controller knows it; pods are replaced one by one"}
	}
	return readiness{reason: "its controller has not seen it yet"}
}

func (w *Target) noteReadiness(k state.Key, live *unstructured.Unstructured) {
	r := readinessOf(live)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states[k] = r
}

// brief is how long the wait is for things whose readiness depends on AWS:
// others may be applied before a node class has found its subnets, and must
// be, where the engine is off.
const brief = 2 * time.Second

// Ready implements target.Waiter. What the answer to its apply showed ready
// costs nothing; the others are watched, one watch a kind.
func (w *Target) Ready(ctx context.Context, keys []state.Key) (map[state.Key]string, error) {
	q := &queue{target: w, open: map[state.Key]bool{}, late: map[state.Key]string{}, done: make(chan struct{})}
	byKind := map[schema.GroupVersionKind]bool{}
	w.mu.Lock()
	for _, k := range keys {
		r, known := w.states[k]
		if known && r.ready {
			continue
		}
		q.late[k] = r.reason
		if r.failed {
			continue
		}
		q.open[k] = true
		rec, _ := w.store.Get(k)
		byKind[schema.GroupVersionKind{Group: k.Group, Version: rec.Version, Kind: k.Kind}] = true
	}
	w.mu.Unlock()
	if len(q.open) == 0 {
		return q.late, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for gvk := range byKind {
		kind, ok, err := w.kinds.Lookup(ctx, gvk)
		if err != nil {
			return q.result(), err
		}
		if ok {
			go w.follow(ctx, kind, &waiter{queue: q, kind: kind})
		}
	}
	q.wait(ctx)
	return q.result(), nil
}

// queue is one Ready at work.
type queue struct {
	target *Target
	mu     sync.Mutex
	// open is still waited for; late holds whatever is not ready, with why.
	open map[state.Key]bool
	late map[state.Key]string
	done chan struct{}
}

// wait returns when nothing is waited for any more.
func (q *queue) wait(ctx context.Context) {
	soon := q.target.cfg.Clock.NewTimer(brief)
	defer soon.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.done:
			return
		case <-soon.C():
			q.release()
		}
	}
}

// release stops waiting for what must not hold up the others.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.open)
	for k := range q.open {
		if kinds.Whole(k.Group, k.Kind) {
			delete(q.open, k)
		}
	}
	if before > 0 && len(q.open) == 0 {
		close(q.done)
	}
}

func (q *queue) result() map[state.Key]string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.late)
}

// waiter is the eyes on one kind.
type waiter struct {
	*queue
	kind kinds.Kind
}

func (v *waiter) updated(live *unstructured.Unstructured) {
	k := keyOf(v.kind, live)
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.open[k] {
		return
	}
	r := readinessOf(live)
	v.late[k] = r.reason
	if r.ready {
		delete(v.late, k)
	}
	if !r.ready && !r.failed {
		return
	}
	delete(v.open, k)
	if len(v.open) == 0 {
		close(v.done)
	}
}

func (v *waiter) listed(map[state.Key]bool) {}

func (v *waiter) gone(live *unstructured.Unstructured) {
	k := keyOf(v.kind, live)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open[k] {
		v.late[k] = "it was deleted"
	}
}
