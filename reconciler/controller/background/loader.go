// Package background fetches and loads a Sync's revisions beside the runs that wait for
// them: what takes longer than a run waits goes on without it, and its end requests another.
package background

import (
	"context"
	"time"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/apply"
)

// waitTimeout is the default of Loader.Timeout.
const waitTimeout = time.Second

// background is work that reconciliations of one Sync wait for. They never overlap.
type background struct {
	done chan struct{}
	// late is set once a reconciliation has given up waiting.
	late bool
}

// await reports whether the work has ended. Where that takes too long its end requests
// another reconciliation. Who is urgent does not wait for what is known to be slow.
func (b *background) await(urgent bool, timeout time.Duration, notify func()) bool {
	if b.late && urgent {
		timeout = 0
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-b.done:
		return true
	case <-timer.C:
	}
	if !b.late {
		b.late = true
		go func() {
			<-b.done
			notify()
		}()
	}
	return false
}

// Loop is the part of a reconciler.Loop that takes long.
type Loop interface {
	Fetch(ctx context.Context) (reconciler.Result, error)
	Loaded(planned bool) bool
	Load(ctx context.Context, planned bool) error
	Unload()
}

// Loader fetches and loads the revisions of one Sync. It is used by the reconciliations of that
// Sync, which never overlap.
type Loader struct {
	// Timeout is how long a reconciliation waits for the source, or for a revision that is loaded
	// again; New sets a second. What takes longer is awaited in the background: a server that accepts
	// connections and sends nothing must hold up neither corrections nor a suspension, nor other Syncs.
	Timeout time.Duration

	// live ends with what is kept of the Sync.
	live context.Context
	loop Loop
	// notify requests a reconciliation.
	notify func()

	// pending is the fetch that has no result yet, or nil; last is the latest that has.
	pending, last *fetch
	// loading is a revision that is being loaded for the next reconciliation, or nil.
	loading *loading
}

// New makes a Loader for a Loop. What it begins ends with live; notify is called when what
// a reconciliation did not wait for has ended.
func New(live context.Context, loop Loop, notify func()) *Loader {
	return &Loader{Timeout: waitTimeout, live: live, loop: loop, notify: notify}
}

// fetch is one fetch under way.
type fetch struct {
	// request is the reconcile-now annotation at its beginning: the result of an older
	// fetch may lack what a newer request is about.
	request string
	background
	// result and err are valid when done is closed.
	result reconciler.Result
	err    error
}

// Fetch returns what the Loop's Fetch does, or false when that takes longer than Timeout;
// then the result brings another reconciliation. An urgent reconciliation does not wait for a source that
// is known to be slow.
func (l *Loader) Fetch(request string, urgent bool) (result reconciler.Result, done bool, err error) {
	q := l.pending
	if q == nil {
		q = l.begin(request)
	}
	if !q.await(urgent, l.Timeout, l.notify) {
		return reconciler.Result{}, false, nil
	}
	l.pending, l.last = nil, q
	if q.request != request {
		return l.Fetch(request, urgent)
	}
	return q.result, true, q.err
}

func (l *Loader) begin(request string) *fetch {
	q := &fetch{request: request, background: background{done: make(chan struct{})}}
	l.pending = q
	go func() {
		defer close(q.done)
		q.err = apply.Recover(func() (err error) {
			q.result, err = l.loop.Fetch(l.live)
			return err
		})
	}()
	return q
}

// Keep makes the last result that of the next fetch, unless there is another request by
// then.
func (l *Loader) Keep() { l.pending = l.last }

// drainTimeout is how long a fetch may take to notice that it is cancelled.
const drainTimeout = 10 * time.Second

// Drain waits up to ten seconds for a fetch under way, whose context has ended.
func (l *Loader) Drain() {
	if l.pending == nil {
		return
	}
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-l.pending.done:
	case <-timer.C:
	}
}
