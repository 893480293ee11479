// Package readiness waits until applied objects are ready, by their status as kstatus
// computes it.
//
// It refuses to hold up the others for what depends on AWS. Start reading at Waiter.Ready.
package readiness

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/reflector"
)

// readiness is what an object's status shows of it.
type readiness struct {
	ready bool
	// failed reports that waiting longer will not help.
	failed bool
	reason string
}

// StatusOf is whether a live object is ready, whether it has failed, and what its status has of that.
func StatusOf(live *unstructured.Unstructured) (ready, failed bool, reason string) {
	r := readinessOf(live)
	return r.ready, r.failed, r.reason
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

// accepted is the readiness of what its controller only has to observe.
func accepted(live *unstructured.Unstructured) readiness {
	observed, found, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
	if found && observed >= live.GetGeneration() {
		return readiness{ready: true, reason: "its controller has observed it; pods are replaced one by one"}
	}
	return readiness{reason: "its controller has not observed it yet"}
}

// Config is what a Waiter needs.
type Config struct {
	// Store has the versions in which objects were applied.
	Store *inventory.Store
	// Kinds are those that the cluster serves.
	Kinds *kinds.RESTMapper
	// Objects are what is watched.
	Objects reflector.Reflector
	// Clock is the time.
	Clock clock.Clock
}

// Waiter waits for the objects of one Sync. It is safe for concurrent use.
type Waiter struct {
	cfg Config

	mu sync.Mutex
	// states holds the readiness that the last response showed.
	states map[state.Key]readiness
}

// New makes a Waiter. It sends no request.
func New(c Config) *Waiter { return &Waiter{cfg: c, states: map[state.Key]readiness{}} }

// Record keeps the readiness of an object as the API server returned it to an apply.
func (w *Waiter) Record(k state.Key, live *unstructured.Unstructured) {
	r := readinessOf(live)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states[k] = r
}

// brief is how long the wait is for things whose readiness depends on AWS:
// others may be applied before a node class has found its subnets, and must
// be, where the engine is off.
const brief = 2 * time.Second

// Ready waits until all of the objects are ready, or ctx ends, and returns those that are
// not, with the reason for each. What Note was given ready costs nothing; the others are
// watched, one watch a kind. An error means that the kinds could not be read.
func (w *Waiter) Ready(ctx context.Context, keys []state.Key) (map[state.Key]string, error) {
	q := &queue{clock: w.cfg.Clock, open: map[state.Key]bool{}, late: map[state.Key]string{}, done: make(chan struct{})}
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
		rec, _ := w.cfg.Store.Get(k)
		byKind[kinds.GVK(k, rec.Version)] = true
	}
	w.mu.Unlock()
	if len(q.open) == 0 {
		return q.late, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for gvk := range byKind {
		kind, ok, err := w.cfg.Kinds.Lookup(ctx, gvk)
		if err != nil {
			return q.result(), err
		}
		if ok {
			go w.cfg.Objects.Run(ctx, kind, &kindWaiter{queue: q, kind: kind})
		}
	}
	q.wait(ctx)
	return q.result(), nil
}

// queue is one Ready at work.
type queue struct {
	clock clock.Clock
	mu    sync.Mutex
	// open is still waited for; late holds whatever is not ready, with why.
	open map[state.Key]bool
	late map[state.Key]string
	done chan struct{}
}

// wait returns when nothing is waited for any more.
func (q *queue) wait(ctx context.Context) {
	soon := q.clock.NewTimer(brief)
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
		if kinds.OwnsWholeSpec(k.Group, k.Kind) {
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

// kindWaiter gets the objects of one kind.
type kindWaiter struct {
	*queue
	kind kinds.Kind
}

func (v *kindWaiter) Updated(live *unstructured.Unstructured) {
	k := v.kind.Key(live)
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

func (v *kindWaiter) Listed(map[state.Key]bool) {}

func (v *kindWaiter) Deleted(live *unstructured.Unstructured) {
	k := v.kind.Key(live)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open[k] {
		v.late[k] = "it was deleted"
	}
}
