// Package targettest is the conformance suite that every Target passes: what
// the reconciler relies on, whatever the target behind the three verbs.
//
// It does not depend on any target: a Harness brings the things to declare and the hand
// that spoils them. Start reading at Run.
package targettest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// Harness makes a fresh target for each test of the suite.
type Harness func(t *testing.T) Fixture

// Fixture is one target under test, empty of the things that it declares.
type Fixture struct {
	// Connect returns a Target with no memory of its own, as a new process
	// would make it. All of them serve the same owner.
	Connect func(t *testing.T) targets.Target
	// Things declares what becomes at least three things, the first of which
	// can come and go without the others.
	Things state.Set
	// Revised declares the same things; at least one of them differently.
	Revised state.Set
	// Edit changes a live thing, as a person does, in a field that Things
	// declares.
	Edit func(t *testing.T, k state.Key)
	// Remove deletes a live thing, as a person does.
	Remove func(t *testing.T, k state.Key)
	// Replace deletes a live thing and puts another of the same name in its
	// place that is not ours. Nil where names cannot be used again.
	Replace func(t *testing.T, k state.Key)
	// Without declares Things but for what becomes the thing with that key,
	// and perhaps some others. Nil where each thing is declared by itself.
	Without func(k state.Key) state.Set
}

// Run runs the suite.
func Run(t *testing.T, harness Harness) {
	tests := []struct {
		name string
		test func(s *suite)
	}{
		{"Desired changes nothing that it was given and returns the same twice", desiredIsDeterministic},
		{"Desired passes over the things of other targets", desiredHasOnlyOwnThings},
		{"nothing is observed before the first apply", startsEmpty},
		{"Observe changes nothing and returns the same twice", observeIsPure},
		{"after an apply nothing differs, for this process and the next", converges},
		{"a revision changes what it revises, and is settled", revises},
		{"a hand edit is observed as an update of its fields and put back", undoesEdits},
		{"what was removed by hand is made anew", undoesRemovals},
		{"what is not desired any more is deleted, and nothing else", prunes},
		{"a deletion hits only the incarnation that was observed", keepsSuccessors},
		{"deleting what is already gone is no error", toleratesDeletedObjects},
		{"of a deletion that was begun, it is known how far it was allowed, and of no other", goesOn},
		{"an intent that came to nothing leaves nothing to delete", dropsIntents},
		{"a thing that was made but not recorded is not an orphan", findsTheUnrecorded},
		{"an observation that was cut off concludes nothing", concludesNothing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := harness(t)
			s := &suite{T: t, fixture: w, target: w.Connect(t)}
			if n := s.desired(w.Things).Len(); n < 3 {
				t.Fatalf("the harness declares what becomes %d things, the suite needs three", n)
			}
			s.restart()
			tt.test(s)
		})
	}
}

// Desired returns what a target makes of what is declared, and ends the test where it fails.
func Desired(t testing.TB, target targets.Target, declared state.Set) state.Set {
	t.Helper()
	desired, err := target.Desired(t.Context(), declared)
	if err != nil {
		t.Fatalf("computing the desired objects: %v", err)
	}
	return desired
}

func observe(t testing.TB, target targets.Target, desired state.Set) state.Set {
	t.Helper()
	observed, err := target.Observe(t.Context(), desired)
	if err != nil {
		t.Fatalf("observing: %v", err)
	}
	return observed
}

// Plan returns a target's plan for what is declared, without any policy, and ends the
// test where the target fails.
func Plan(t testing.TB, target targets.Target, declared state.Set) plan.Plan {
	t.Helper()
	desired := Desired(t, target, declared)
	return plan.Compute(desired, observe(t, target, desired))
}

// suite is one test at work.
type suite struct {
	*testing.T
	fixture Fixture
	target  targets.Target
}

func (s *suite) restart() { s.target = s.fixture.Connect(s.T) }

func (s *suite) desired(declared state.Set) state.Set {
	s.Helper()
	return Desired(s, s.target, declared)
}

func (s *suite) observe(desired state.Set) state.Set {
	s.Helper()
	return observe(s, s.target, desired)
}

func (s *suite) plan(declared state.Set) plan.Plan {
	s.Helper()
	return Plan(s, s.target, declared)
}

func (s *suite) begin(p plan.Plan) {
	s.Helper()
	if r, ok := s.target.(targets.InventoryWriter); ok && !p.Empty() {
		if err := r.Begin(s.Context(), p.Changes); err != nil {
			s.Fatalf("recording the intent: %v", err)
		}
	}
}

func (s *suite) end(p plan.Plan) {
	s.Helper()
	if r, ok := s.target.(targets.InventoryWriter); ok && !p.Empty() {
		if err := r.End(s.Context()); err != nil {
			s.Fatalf("recording the result: %v", err)
		}
	}
}

// correct makes all changes in the plan's order, each wave when the one before
// is ready.
func (s *suite) correct(p plan.Plan) {
	s.Helper()
	var applied []state.Key
	for i, c := range p.Changes {
		if i > 0 && c.Action != plan.Delete && c.Wave() != p.Changes[i-1].Wave() {
			s.await(applied)
			applied = nil
		}
		if err := s.target.Apply(s.Context(), c); err != nil {
			s.Fatalf("correcting: %v", err)
		}
		applied = append(applied, c.Key)
	}
}

func (s *suite) await(keys []state.Key) {
	s.Helper()
	w, ok := s.target.(targets.Waiter)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	if _, err := w.Ready(ctx, keys); err != nil {
		s.Fatalf("waiting: %v", err)
	}
}

func (s *suite) apply(p plan.Plan) {
	s.Helper()
	s.begin(p)
	s.correct(p)
	s.end(p)
}

// noChanges fails unless nothing differs, now and for a process without memory.
func (s *suite) noChanges(declared state.Set) {
	s.Helper()
	for _, who := range []string{"the same process", "a new process"} {
		if p := s.plan(declared); !p.Empty() {
			s.Fatalf("%s still finds differences: %s", who, describe(p))
		}
		s.restart()
	}
}

// first is the first thing, as it is desired.
func (s *suite) first() state.Item {
	s.Helper()
	return s.desired(s.fixture.Things).Items()[0]
}

// without is what is declared but for one thing.
func (s *suite) without(k state.Key) state.Set {
	if s.fixture.Without != nil {
		return s.fixture.Without(k)
	}
	var keep []state.Item
	for _, item := range s.fixture.Things.Items() {
		if item.Key.Kind != k.Kind || item.Key.Name != k.Name {
			keep = append(keep, item)
		}
	}
	return state.NewSet(keep...)
}

// only fails unless the plan is exactly one change, and returns it.
func (s *suite) only(p plan.Plan, action plan.Action, k state.Key) plan.Change {
	s.Helper()
	if len(p.Changes) != 1 || p.Changes[0].Action != action || p.Changes[0].Key != k {
		s.Fatalf("desired only: %s %s; got: %s", action, k, describe(p))
	}
	return p.Changes[0]
}

// deletes fails unless the plan does nothing but delete what rest does not
// declare any more, and returns the deletion of k.
func (s *suite) deletes(p plan.Plan, rest state.Set, k state.Key) plan.Change {
	s.Helper()
	keep := s.desired(rest)
	gone := 0
	for _, item := range s.desired(s.fixture.Things).Items() {
		if _, stays := keep.Get(item.Key); !stays {
			gone++
		}
	}
	var found plan.Change
	for _, c := range p.Changes {
		if _, stays := keep.Get(c.Key); stays || c.Action != plan.Delete {
			s.Fatalf("desired only deletions of what is not declared; got: %s", describe(p))
		}
		if c.Key == k {
			found = c
		}
	}
	if found.Before == nil || len(p.Changes) != gone {
		s.Fatalf("desired %d deletions, %s among them; got: %s", gone, k, describe(p))
	}
	s.desired(rest)
	return found
}

func describe(p plan.Plan) string {
	if p.Empty() {
		return "nothing"
	}
	var text strings.Builder
	for _, c := range p.Changes {
		text.WriteString("\n  " + string(c.Action) + " " + c.Key.String())
		for _, f := range c.Fields {
			text.WriteString(", " + f.Path)
		}
	}
	for _, u := range p.Unknown {
		text.WriteString("\n  unknown " + u.Key.String() + ": " + u.Reason)
	}
	return text.String()
}

// equalSets compares two sets, apart from live versions: a controller's status
// update may come between two observations. The second is what was expected.
func (s *suite) equalSets(what string, got, want state.Set) {
	s.Helper()
	if d := cmp.Diff(versionless(want), versionless(got)); d != "" {
		s.Errorf("%s (-before +after):\n%s", what, d)
	}
}

func versionless(set state.Set) []state.Item {
	items := set.Items()
	for i := range items {
		items[i].Live.ResourceVersion = ""
	}
	return items
}

func isChanged(err error) bool { return errors.Is(err, targets.ErrChanged) }
