package reconciler_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// allowing is a target that stores what is desired again.
type allowing struct {
	fakeTarget
	order []string
	err   error
	// allowed are the names of what it has and was allowed to delete, revoked those whose
	// deletion was given up.
	allowed map[string]bool
	revoked []string
	// deleting are the names of what it began to delete, desired those of the last Observe or ObserveOnly.
	deleting, desired []string
}

func (w *allowing) Observe(ctx context.Context, desired state.Set) (state.Set, error) {
	w.order = append(w.order, "observe")
	w.record(desired)
	observed, err := w.fakeTarget.Observe(ctx, desired)
	items := observed.Items()
	for i := range items {
		if w.allowed[items[i].Key.Name] {
			items[i].Allowed = &loss.Approval{}
		}
	}
	return state.NewSet(items...), err
}

func (w *allowing) ObserveOnly(ctx context.Context, desired state.Set) (state.Set, error) {
	w.record(desired)
	return w.fakeTarget.ObserveOnly(ctx, desired)
}

func (w *allowing) record(desired state.Set) {
	w.desired = nil
	for _, i := range desired.Items() {
		w.desired = append(w.desired, i.Key.Name)
	}
}

func (w *allowing) RevokeApprovals(_ context.Context, revoked ...state.Key) error {
	for _, k := range revoked {
		w.revoked = append(w.revoked, k.Name)
		delete(w.allowed, k.Name)
	}
	w.order = append(w.order, "revoke")
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
// desired again is stored before. Who only plans stores nothing.
func TestWhatIsDesiredAgainIsStoredBeforeAnythingElseIsDone(t *testing.T) {
	revs := revisions{"r1": things("NodePool/a", "2")}
	run := func(w *allowing, apply bool) error {
		loop := reconciler.NewLoop(&source{revision: "r1"}, revs.load, reconciler.NamedTarget{Name: "kubernetes", Target: w})
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
	if d := cmp.Diff([]string{"observe", "revoke", "policies"}, w.order); d != "" {
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

// What is not to be pruned any more is not waited for as a deletion; while what is desired is not
// completely known, that nothing is deleted proves nothing.
func TestADeletionThatIsGivenUpIsRecorded(t *testing.T) {
	for _, tt := range []struct {
		name     string
		policies []plan.Policy
		problems []state.Problem
		want     []string
	}{
		{"nothing is pruned", []plan.Policy{plan.NoPrune()}, nil, []string{"old"}},
		{"it is read-only", []plan.Policy{plan.ReportTarget("memory")}, nil, []string{"old"}},
		{"it is deleted", nil, nil, nil},
		{"it is held", []plan.Policy{plan.ConfirmLosses("")}, nil, nil},
		{"a file has a problem", nil, []state.Problem{{Message: "not a manifest"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &allowing{fakeTarget: fakeTarget{objects: map[string]string{"old": "1", "a": "2"}}, allowed: map[string]bool{"old": true}}
			desired := things("a", "2")
			desired.Problems = tt.problems
			revs := revisions{"r1": desired}
			loop := reconciler.NewLoop(&source{revision: "r1"}, revs.load, reconciler.NamedTarget{Name: "memory", Target: w})
			if _, err := loop.RunOnce(t.Context(), reconciler.Options{Policies: tt.policies}); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, w.revoked, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("given up (-want +got):\n%s", d)
			}
		})
	}
}

// Who only plans records nothing.
func TestAPlanRecordsNoDeletionAsGivenUp(t *testing.T) {
	w := &allowing{fakeTarget: fakeTarget{objects: map[string]string{"old": "1"}}, allowed: map[string]bool{"old": true}}
	loop := reconciler.NewLoop(&source{revision: "r1"}, revisions{"r1": things("a", "2")}.load, reconciler.NamedTarget{Name: "memory", Target: w})
	if _, err := loop.Plan(t.Context(), reconciler.Options{Policies: []plan.Policy{plan.NoPrune()}}); err != nil {
		t.Fatal(err)
	}
	if len(w.order) == 0 || len(w.revoked) > 0 {
		t.Errorf("order %v, given up %v", w.order, w.revoked)
	}
}
