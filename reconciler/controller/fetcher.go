package controller

import (
	"context"
	"time"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/apply"
)

// patience is how long a visit waits for the source, or for a revision that is loaded
// again. What takes longer is awaited in the background: a server that accepts connections
// and says nothing must hold up neither corrections nor a suspension, nor other Syncs.
const patience = time.Second

// background is work that visits to one Sync wait for. They never overlap.
type background struct {
	done chan struct{}
	// late is set once a visit has given up waiting.
	late bool
}

// await reports whether the work has ended. Where that takes too long its end asks for
// another visit. Who is in a hurry does not wait for what is known to be slow.
func (b *background) await(hurry bool, wake func()) bool {
	wait := patience
	if b.late && hurry {
		wait = 0
	}
	timer := time.NewTimer(wait)
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
			wake()
		}()
	}
	return false
}

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

	// pending is the question that is not answered yet, or nil; answered is the last that was.
	pending, answered *question
}

// question is one fetch under way.
type question struct {
	// request is the reconcile-now annotation at its beginning: an answer to
	// an older question may not know what a newer request is about.
	request string
	background
	// answer is valid when done is closed.
	answer fetched
}

// fetch returns the source's answer, or false when it takes longer than
// patience; then the answer brings another visit. Who is in a hurry does not
// wait for a source that is known to be slow.
func (f *fetcher) fetch(request string, hurry bool) (fetched, bool) {
	q := f.pending
	if q == nil {
		q = f.begin(request)
	}
	if !q.await(hurry, f.wake) {
		return fetched{}, false
	}
	f.pending, f.answered = nil, q
	if q.request != request {
		return f.fetch(request, hurry)
	}
	return q.answer, true
}

func (f *fetcher) begin(request string) *question {
	q := &question{request: request, background: background{done: make(chan struct{})}}
	f.pending = q
	go func() {
		defer close(q.done)
		q.answer.err = apply.Recover(func() (err error) {
			q.answer.result, q.answer.changed, err = f.ask.Fetch(f.live)
			return err
		})
	}()
	return q
}

// keep makes the last answer that of the next fetch, unless there is another request by
// then.
func (f *fetcher) keep() { f.pending = f.answered }

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
