package targettest

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets"
)

func desiredIsDeterministic(s *suite) {
	before, err := json.Marshal(s.fixture.Things.Items())
	if err != nil {
		s.Fatal(err)
	}
	once := s.desired(s.fixture.Things)
	s.equalSets("the second set of desired objects differs", s.desired(s.fixture.Things), once)
	after, err := json.Marshal(s.fixture.Things.Items())
	if err != nil {
		s.Fatal(err)
	}
	if d := cmp.Diff(string(before), string(after)); d != "" {
		s.Errorf("computing the desired objects changed what was declared:\n%s", d)
	}
}

func desiredHasOnlyOwnThings(s *suite) {
	foreign := state.Item{Key: state.Key{Target: "somewhere-else", Kind: "Thing", Name: "foreign"}, Version: "v1", Object: map[string]any{}}
	all := state.NewSet(append(s.fixture.Things.Items(), foreign)...)
	s.equalSets("another target's thing made a difference", s.desired(all), s.desired(s.fixture.Things))
}

func startsEmpty(s *suite) {
	p := s.plan(s.fixture.Things)
	if n := p.Count(plan.Create); n != len(p.Changes) || n < s.desired(s.fixture.Things).Len() {
		s.Errorf("the first plan does not just create: %s", describe(p))
	}
}

func observeIsPure(s *suite) {
	s.apply(s.plan(s.fixture.Things))
	desired := s.desired(s.fixture.Things)
	once := s.observe(desired)
	s.equalSets("the second Observe differs", s.observe(desired), once)
	for _, item := range once.Items() {
		if item.Live.UID == "" {
			s.Errorf("%s was observed without an identity", item.Key)
		}
	}
}

func converges(s *suite) {
	s.apply(s.plan(s.fixture.Things))
	s.noChanges(s.fixture.Things)
}

func revises(s *suite) {
	s.apply(s.plan(s.fixture.Things))
	p := s.plan(s.fixture.Revised)
	if p.Empty() || p.Count(plan.Delete) > 0 {
		s.Fatalf("the revision's plan: %s", describe(p))
	}
	for _, c := range p.Changes {
		if c.Action == plan.Update && len(c.Fields) == 0 {
			s.Errorf("updating %s shows no field", c.Key)
		}
		if c.Drift {
			s.Errorf("the revision of %s is taken for drift", c.Key)
		}
	}
	s.apply(p)
	s.noChanges(s.fixture.Revised)
	s.apply(s.plan(s.fixture.Things))
	s.noChanges(s.fixture.Things)
}

func undoesEdits(s *suite) {
	s.apply(s.plan(s.fixture.Things))
	k := s.first().Key
	s.fixture.Edit(s.T, k)
	c := s.only(s.plan(s.fixture.Things), plan.Update, k)
	if len(c.Fields) == 0 || c.Before.Live.UID == "" || !c.Drift {
		s.Errorf("the edit was observed as %d fields of %+v, drift %v", len(c.Fields), c.Before.Live, c.Drift)
	}
	s.apply(s.plan(s.fixture.Things))
	s.noChanges(s.fixture.Things)
	s.fixture.Edit(s.T, k)
	s.restart()
	s.only(s.plan(s.fixture.Things), plan.Update, k)
}

func undoesRemovals(s *suite) {
	s.apply(s.plan(s.fixture.Things))
	k := s.first().Key
	s.fixture.Remove(s.T, k)
	c := s.only(s.plan(s.fixture.Things), plan.Create, k)
	if !c.Drift {
		s.Error("a removal by hand is not known as drift")
	}
	s.apply(s.plan(s.fixture.Things))
	s.noChanges(s.fixture.Things)
}

func prunes(s *suite) {
	s.apply(s.plan(s.fixture.Things))
	k := s.first().Key
	rest := s.without(k)
	s.deletes(s.plan(rest), rest, k)
	s.restart()
	c := s.deletes(s.plan(rest), rest, k)
	if c.Before.Live.UID == "" {
		s.Error("the deletion names no incarnation")
	}
	s.apply(s.plan(rest))
	s.noChanges(rest)
}

func keepsSuccessors(s *suite) {
	if s.fixture.Replace == nil {
		s.Skip("names cannot be used again in this target")
	}
	s.apply(s.plan(s.fixture.Things))
	k := s.first().Key
	rest := s.without(k)
	p := s.plan(rest)
	c := s.deletes(p, rest, k)
	s.begin(p)
	s.fixture.Replace(s.T, k)
	if err := s.target.Apply(s.Context(), c); !isChanged(err) {
		s.Errorf("deleting the incarnation before returned %v", err)
	}
	s.end(p)
	desired := s.desired(s.fixture.Things)
	if live, found := s.observe(desired).Get(k); !found || live.Object == nil {
		s.Error("the successor is gone")
	}
	// The others that went with it are still to be deleted.
	s.apply(s.plan(rest))
	s.noChanges(rest)
}

func toleratesDeletedObjects(s *suite) {
	s.apply(s.plan(s.fixture.Things))
	k := s.first().Key
	rest := s.without(k)
	p := s.plan(rest)
	s.fixture.Remove(s.T, k)
	s.apply(p)
	s.noChanges(rest)
}

func goesOn(s *suite) {
	if _, ok := s.target.(targets.InventoryWriter); !ok {
		s.Skip("this target keeps no inventory")
	}
	s.apply(s.plan(s.fixture.Things))
	k := s.first().Key
	rest := s.without(k)
	p := s.plan(rest)
	if s.deletes(p, rest, k).Before.Allowed != nil {
		s.Error("a deletion that nobody has begun is taken for allowed")
	}
	s.begin(p)
	s.restart()
	p = s.plan(rest)
	s.allows(s.deletes(p, rest, k), loss.Approval{Losses: s.deletes(p, rest, k).Before.EffectiveLosses()})
	// A person allows more, and no later step as much again.
	allowed := loss.Approval{Losses: loss.Counts{"Node": 3, "Pod": 7}, Digest: "1", Number: 2, Quoted: loss.Counts{"Node": 3, "Pod": 7}}
	for _, now := range []loss.Counts{allowed.Losses, {"Node": 2}} {
		for i, c := range p.Changes {
			before := *c.Before
			before.Impact, before.Losses = "nodes go with it", now
			p.Changes[i].Before, p.Changes[i].Confirmed = &before, now
			p.Changes[i].Tokens = []hold.Token{{Purpose: "deletions", Digest: allowed.Digest, Number: allowed.Number, Losses: allowed.Quoted}}
		}
		s.begin(p)
		s.restart()
		p = s.plan(rest)
		s.allows(s.deletes(p, rest, k), allowed)
	}
	// Desired again, it stays, and its next deletion is another.
	s.apply(s.plan(s.fixture.Revised))
	s.noChanges(s.fixture.Revised)
	for _, c := range s.plan(rest).Changes {
		if c.Action == plan.Delete && c.Before.Allowed != nil {
			s.Error("a deletion that was taken back is taken for allowed")
		}
	}
	s.apply(s.plan(s.fixture.Things))
	s.begin(s.plan(rest))
	s.restart()
	if s.deletes(s.plan(rest), rest, k).Before.Allowed == nil {
		s.Error("a deletion that was begun is not known as allowed")
	}
	// So it is when what is desired again differs, and the change of it is held.
	s.end(s.plan(s.fixture.Revised))
	s.restart()
	if s.deletes(s.plan(rest), rest, k).Before.Allowed != nil {
		s.Error("a deletion that was taken back while changes are held is taken for allowed")
	}
	revokes(s, rest, k)
	givesUp(s, rest, k)
}

// revokes holds that what was desired again is known to be so by the next process, also
// where this one ended before it began anything.
func revokes(s *suite, rest state.Set, k state.Key) {
	s.Helper()
	for name, revoke := range map[string]bool{"it is stored": true, "the control: it is not": false} {
		s.apply(s.plan(s.fixture.Things))
		s.begin(s.plan(rest))
		s.restart()
		s.plan(s.fixture.Things)
		if revoke {
			if err := s.target.(targets.ApprovalRevoker).RevokeApprovals(s.Context()); err != nil {
				s.Fatal(err)
			}
		}
		s.restart()
		deleting, err := s.target.(targets.ApprovalRevoker).Deleting(s.Context())
		if err != nil || slices.Contains(deleting, k) == revoke {
			s.Errorf("%s, and the next process lists the deletions %v, %v", name, deleting, err)
		}
		if still := s.deletes(s.plan(rest), rest, k).Before.Allowed != nil; still == revoke {
			s.Errorf("%s, the process ends, and the next one takes the deletion for allowed: %v", name, still)
		}
	}
}

// givesUp holds that a deletion that was given up is no more known to be allowed.
func givesUp(s *suite, rest state.Set, k state.Key) {
	s.Helper()
	s.apply(s.plan(s.fixture.Things))
	s.begin(s.plan(rest))
	if err := s.target.(targets.ApprovalRevoker).RevokeApprovals(s.Context(), k); err != nil {
		s.Fatal(err)
	}
	s.restart()
	deleting, err := s.target.(targets.ApprovalRevoker).Deleting(s.Context())
	if err != nil || slices.Contains(deleting, k) {
		s.Errorf("the next process lists the deletions %v, %v", deleting, err)
	}
	if s.deletes(s.plan(rest), rest, k).Before.Allowed != nil {
		s.Error("a deletion that was given up is taken for allowed")
	}
}

// allows fails unless exactly that is known to be allowed of a deletion.
func (s *suite) allows(c plan.Change, want loss.Approval) {
	s.Helper()
	if d := cmp.Diff(&want, c.Before.Allowed, cmpopts.EquateEmpty()); d != "" {
		s.Errorf("what is allowed of %s (-desired +observed):\n%s", c.Key, d)
	}
}

func dropsIntents(s *suite) {
	s.begin(s.plan(s.fixture.Things))
	s.restart()
	if p := s.plan(state.Set{}); !p.Empty() {
		s.Errorf("an intent alone is taken for a thing: %s", describe(p))
	}
	s.restart()
	s.apply(s.plan(s.fixture.Things))
	s.noChanges(s.fixture.Things)
}

func findsTheUnrecorded(s *suite) {
	p := s.plan(s.fixture.Things)
	s.begin(p)
	s.correct(p)
	s.restart()
	if n := s.plan(state.Set{}).Count(plan.Delete); n != len(p.Changes) {
		s.Errorf("%d things were made, %d are known", len(p.Changes), n)
	}
	s.apply(s.plan(s.fixture.Things))
	s.noChanges(s.fixture.Things)
}

func concludesNothing(s *suite) {
	s.apply(s.plan(s.fixture.Things))
	desired := s.desired(s.fixture.Things)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if observed, err := s.target.Observe(ctx, desired); err == nil {
		s.Errorf("a stopped Observe returned %d things and no error", observed.Len())
	}
	s.noChanges(s.fixture.Things)
}
