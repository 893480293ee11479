package reconciler_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// allowing is a target that stores what is wanted again.
type allowing struct {
	fakeTarget
	order []string
	err   error
	// deleting are the names of what it began to delete, wanted those of the last Observe or ObserveOnly.
	deleting, wanted []string
}

func (w *allowing) Observe(ctx context.Context, wanted state.Set) (state.Set, error) {
	w.order = append(w.order, "observe")
	w.record(wanted)
	return w.fakeTarget.Observe(ctx, wanted)
}

func (w *allowing) ObserveOnly(ctx context.Context, wanted state.Set) (state.Set, error) {
	w.record(wanted)
	return w.fakeTarget.ObserveOnly(ctx, wanted)
}

func (w *allowing) record(wanted state.Set) {
	w.wanted = nil
	for _, i := range wanted.Items() {
		w.wanted = append(w.wanted, i.Key.Name)
	}
}

func (w *allowing) Withdraw(context.Context) error {
	w.order = append(w.order, "withdraw")
	return w.err
}

func (w *allowing) Deleting(context.Context) ([]state.Key, error) {
	var out []state.Key
	for _, name := range w.deleting {
		out = append(out, key(name))
	}
	return out, w.err
}

// Looking ahead can take minutes, in which the process may end: what an observation found
// wanted again is stored before. Who only plans stores nothing.
func TestWhatIsWantedAgainIsStoredBeforeAnythingElseIsDone(t *testing.T) {
	revs := revisions{"r1": things("NodePool/a", "2")}
	run := func(w *allowing, apply bool) error {
		loop := reconciler.NewLoop(&source{revision: "r1"}, revs.load, reconciler.NamedTarget{Name: "cluster", Target: w})
		opts := reconciler.Options{Policies: []plan.Policy{func(p plan.Plan) plan.Plan {
			w.order = append(w.order, "policies")
			return p
		}}}
		if !apply {
			_, err := loop.Plan(t.Context(), opts)
			return err
		}
		_, err := loop.RunOnce(t.Context(), opts)
		return err
	}
	empty := func() *allowing { return &allowing{fakeTarget: fakeTarget{objects: map[string]string{}}} }
	w := empty()
	if err := run(w, true); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"observe", "withdraw", "policies"}, w.order); d != "" {
		t.Errorf("a run (-want +got):\n%s", d)
	}
	w = empty()
	if err := run(w, false); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"observe", "policies"}, w.order); d != "" {
		t.Errorf("a plan (-want +got):\n%s", d)
	}
	w = empty()
	w.err = errors.New("conflict")
	if err := run(w, true); !errors.Is(err, w.err) || len(w.objects) > 0 {
		t.Errorf("it cannot be stored: %v, made %v", err, w.objects)
	}
}
