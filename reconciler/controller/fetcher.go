package controller

import (
	"context"
	"time"

	"github.com/poolwright/poolwright/reconciler"
)

// patience is how long a visit waits for the source. A slower one is awaited in
// the background: a server that accepts connections and says nothing must hold
// up neither corrections nor a suspension.
const patience = time.Second

// asker is the part of a Loop that asks the source.
type asker interface {
	Fetch(ctx context.Context) (reconciler.Result, bool, error)
}

// fetched is what Fetch returned.
type fetched struct {
	result  reconciler.Result
	changed bool
	err     error
}

// fetcher asks a source, in the background where it is slow. It is used by the
// visits to one Sync, which never overlap.
type fetcher struct {
	// live ends with the session.
	live context.Context
	ask  asker
	// wake asks for a visit.
	wake func()

	// pending is the question that is not answered yet, or nil.
	pending *question
}

// question is one fetch under way.
type question struct {
	// request is the reconcile-now annotation at its beginning: an answer to
	// an older question may not know what a newer request is about.
	request string
	done    chan struct{}
	// answer is valid when done is closed.
	answer fetched
	// late is set once a visit has given up waiting.
	late bool
}

// fetch returns the source's answer, or false when it takes longer than
// patience; then the answer brings another visit. Who is in a hurry does not
// wait for a source that is known to be slow.
func (f *fetcher) fetch(request string, hurry bool) (fetched, bool) {
	q := f.pending
	if q == nil {
		q = f.begin(request)
	}
	if !f.await(q, hurry) {
		return fetched{}, false
	}
	f.pending = nil
	if q.request != request {
		return f.fetch(request, hurry)
	}
	return q.answer, true
}

func (f *fetcher) begin(request string) *question {
	q := &question{request: request, done: make(chan struct{})}
	f.pending = q
	go func() {
		defer close(q.done)
		q.answer.result, q.answer.changed, q.answer.err = f.ask.Fetch(f.live)
	}()
	return q
}

// await reports whether the answer is there.
func (f *fetcher) await(q *question, hurry bool) bool {
	wait := patience
	if q.late && hurry {
		wait = 0
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-q.done:
		return true
	case <-timer.C:
	}
	if !q.late {
		q.late = true
		go func() {
			<-q.done
			f.wake()
		}()
	}
	return false
}

// farewell is how long a fetch may take to notice that it is not wanted.
const farewell = 10 * time.Second

// drain waits for a fetch under way, whose context has ended.
func (f *fetcher) drain() {
	if f.pending == nil {
		return
	}
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case <-f.pending.done:
	case <-timer.C:
	}
}
