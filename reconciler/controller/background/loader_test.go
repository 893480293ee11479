package background

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/apply"
)

// resident is a Loop all of whose revisions are loaded.
type resident struct{}

func (resident) Loaded(bool) bool                 { return true }
func (resident) Load(context.Context, bool) error { return nil }
func (resident) Unload()                          {}

// pendingLoop is a Loop whose source answers when it is told to.
type pendingLoop struct {
	resident
	later chan reconciler.Result
}

func (a pendingLoop) Fetch(ctx context.Context) (reconciler.Result, error) {
	select {
	case f := <-a.later:
		return f, nil
	case <-ctx.Done():
		return reconciler.Result{}, ctx.Err()
	}
}

func revision(name string) reconciler.Result {
	return reconciler.Result{Revision: name, Changed: true}
}

func newLoader(t *testing.T) (*Loader, pendingLoop, chan struct{}) {
	t.Helper()
	source, woken := pendingLoop{later: make(chan reconciler.Result, 4)}, make(chan struct{}, 4)
	return New(t.Context(), source, func() { woken <- struct{}{} }), source, woken
}

func TestAFastSourceIsAwaited(t *testing.T) {
	f, source, woken := newLoader(t)
	f.Timeout = time.Hour // However busy the machine is.
	source.later <- revision("a")
	got, ok, _ := f.Fetch("", false)
	if !ok || got.Revision != "a" || !got.Changed {
		t.Fatalf("got %+v, %t", got, ok)
	}
	if f.pending != nil || len(woken) > 0 {
		t.Error("an answer in time asks for another reconciliation")
	}
}

func TestASlowSourceHoldsUpOnlyOneReconciliation(t *testing.T) {
	f, source, woken := newLoader(t)
	if _, ok, _ := f.Fetch("", true); ok {
		t.Fatal("an answer came from nowhere")
	}
	begin := time.Now()
	if _, ok, _ := f.Fetch("", true); ok || time.Since(begin) >= waitTimeout {
		t.Errorf("who does not wait for it waited %s for a source that is known to be slow", time.Since(begin))
	}
	source.later <- revision("a")
	<-woken
	got, ok, _ := f.Fetch("", false)
	if !ok || got.Revision != "a" {
		t.Errorf("got %+v, %t", got, ok)
	}
}

func TestAResultOlderThanTheRequestIsNotEnough(t *testing.T) {
	f, source, woken := newLoader(t)
	if _, ok, _ := f.Fetch("monday", false); ok {
		t.Fatal("an answer came from nowhere")
	}
	source.later <- revision("a")
	<-woken
	source.later <- revision("b")
	got, ok, _ := f.Fetch("tuesday", false)
	if !ok || got.Revision != "b" {
		t.Errorf("got %+v, %t", got, ok)
	}
}

func TestTheEndOfASessionEndsItsFetch(t *testing.T) {
	f, _, woken := newLoader(t)
	live, end := context.WithCancel(t.Context())
	f.live = live
	if _, ok, _ := f.Fetch("", false); ok {
		t.Fatal("an answer came from nowhere")
	}
	end()
	<-woken
	f.Timeout = time.Hour
	if got, ok, err := f.Fetch("", false); !ok || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %t", got, ok)
	}
}

// panicking is a source whose code meets what it was not made for.
type panicking struct{ resident }

func (panicking) Fetch(context.Context) (reconciler.Result, error) {
	var none []string
	return reconciler.Result{Revision: none[1]}, nil
}

func TestAPanicOfASourceIsAnErrorOfItsSync(t *testing.T) {
	f := New(t.Context(), panicking{}, func() {})
	f.Timeout = time.Hour
	got, ok, err := f.Fetch("", false)
	if _, panicked := errors.AsType[*apply.PanicError](err); !ok || !panicked {
		t.Errorf("got %+v, %t", got, ok)
	}
}
