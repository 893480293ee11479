package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/apply"
)

// answers is a source that answers when it is told to.
type answers chan fetched

func (a answers) Fetch(ctx context.Context) (reconciler.Result, bool, error) {
	select {
	case f := <-a:
		return f.result, f.changed, f.err
	case <-ctx.Done():
		return reconciler.Result{}, false, ctx.Err()
	}
}

func revision(name string) fetched {
	return fetched{result: reconciler.Result{Revision: name}, changed: true}
}

func newFetcher(t *testing.T) (*fetcher, answers, chan struct{}) {
	t.Helper()
	source, woken := make(answers, 4), make(chan struct{}, 4)
	return &fetcher{live: t.Context(), ask: source, wake: func() { woken <- struct{}{} }}, source, woken
}

func TestAFastSourceIsAwaited(t *testing.T) {
	f, source, woken := newFetcher(t)
	source <- revision("a")
	got, ok := f.fetch("", false)
	if !ok || got.result.Revision != "a" || !got.changed {
		t.Fatalf("got %+v, %t", got, ok)
	}
	if f.pending != nil || len(woken) > 0 {
		t.Error("an answer in time asks for another visit")
	}
}

func TestASlowSourceHoldsUpOnlyOneVisit(t *testing.T) {
	f, source, woken := newFetcher(t)
	if _, ok := f.fetch("", true); ok {
		t.Fatal("an answer came from nowhere")
	}
	begin := time.Now()
	if _, ok := f.fetch("", true); ok || time.Since(begin) >= patience {
		t.Errorf("who is in a hurry waited %s for a source that is known to be slow", time.Since(begin))
	}
	source <- revision("a")
	<-woken
	got, ok := f.fetch("", false)
	if !ok || got.result.Revision != "a" {
		t.Errorf("got %+v, %t", got, ok)
	}
}

func TestAnAnswerOlderThanTheRequestIsNotEnough(t *testing.T) {
	f, source, woken := newFetcher(t)
	if _, ok := f.fetch("monday", false); ok {
		t.Fatal("an answer came from nowhere")
	}
	source <- revision("a")
	<-woken
	source <- revision("b")
	got, ok := f.fetch("tuesday", false)
	if !ok || got.result.Revision != "b" {
		t.Errorf("got %+v, %t", got, ok)
	}
}

func TestTheEndOfASessionEndsItsFetch(t *testing.T) {
	f, _, woken := newFetcher(t)
	live, end := context.WithCancel(t.Context())
	f.live = live
	if _, ok := f.fetch("", false); ok {
		t.Fatal("an answer came from nowhere")
	}
	end()
	<-woken
	if got, ok := f.fetch("", false); !ok || !errors.Is(got.err, context.Canceled) {
		t.Errorf("got %+v, %t", got, ok)
	}
}

// panicking is a source whose code meets what it was not made for.
type panicking struct{}

func (panicking) Fetch(context.Context) (reconciler.Result, bool, error) {
	var none []string
	return reconciler.Result{Revision: none[1]}, true, nil
}

func TestAPanicOfASourceIsAnErrorOfItsSync(t *testing.T) {
	f := &fetcher{live: t.Context(), ask: panicking{}, wake: func() {}}
	got, ok := f.fetch("", false)
	if _, panicked := errors.AsType[*apply.PanicError](got.err); !ok || !panicked {
		t.Errorf("got %+v, %t", got, ok)
	}
}
