package proposal_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/proposal"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

func TestAStepIsDistinguishedFromTheDrift(t *testing.T) {
	a1, a2 := m{"x": "1", "y": "1"}, m{"x": "2", "y": "1"}
	one, two, none := set(thing("a", a1)), set(thing("a", a2)), state.Set{}
	const kept = "[never: is not deleted with it: a deletion policy, another owner or what still uses it keeps it]"
	tests := []struct {
		name          string
		before, after state.Set
		target        liveTarget
		step, drift   []string
	}{
		{"a change of what is as it should be", one, two, liveTarget{"a": ours(a1)}, []string{"update a x=1>2"}, nil},
		{"a thing that comes", none, one, liveTarget{}, []string{"create a"}, nil},
		{"a thing that goes, and what goes with it", one, none, liveTarget{"a": {object: a1, applied: a1, impact: "3 nodes, 7 pods go with it"}}, []string{"delete a {3 nodes, 7 pods go with it}"}, nil},
		{"a thing that somebody else manages too", one, two, liveTarget{"a": {object: a1, applied: a1, owner: "Flux"}}, []string{"update a x=1>2 {also Flux}"}, nil},
		{"two equal revisions", one, one, liveTarget{"a": ours(a1)}, nil, nil},
		{"drift that the change does not touch", one, one, liveTarget{"a": drifted(a1, m{"x": "9", "y": "1"})}, nil, []string{"update a x=9>1"}},
		{
			"drift in another field of what differs between the revisions", one, two, liveTarget{"a": drifted(a1, m{"x": "1", "y": "9"})},
			[]string{"update a x=1>2"}, []string{"update a y=9>1"},
		},
		{
			"drift in the field that differs between the revisions", one, two, liveTarget{"a": drifted(a1, m{"x": "9", "y": "1"})},
			[]string{"update a x=1>2", "note a: has drifted live in fields that the change sets: x"}, []string{"update a x=9>1"},
		},
		{
			"somebody has done it by hand", one, two, liveTarget{"a": drifted(a1, a2)},
			[]string{"update a x=1>2", "note a: is so already"}, []string{"update a x=2>1"},
		},
		{
			"what is changed was deleted by hand", one, two, liveTarget{"a": {applied: a1}},
			[]string{"update a x=1>2", "note a: is not applied now: it is made anew"}, []string{"create a"},
		},
		{
			"what goes was deleted by hand", one, none, liveTarget{"a": {applied: a1}},
			[]string{"delete a", "note a: is not applied now: nothing is deleted"}, []string{"create a"},
		},
		{
			"the revision before was never applied", one, two, liveTarget{},
			[]string{"update a x=1>2", "note a: is not applied now: it is made anew"}, []string{"create a"},
		},
		{"what comes exists and is not ours", none, one, liveTarget{"a": foreign(m{"x": "9"})}, []string{"create a", "note a: exists, not managed by this Sync"}, nil},
		{"what comes exists, is not ours and is the same", none, one, liveTarget{"a": foreign(a1)}, []string{"create a", "note a: exists, not managed by this Sync"}, nil},
		{
			"what changes exists and is not ours", one, two, liveTarget{"a": foreign(m{"x": "9"})},
			[]string{"update a x=1>2", "note a: exists, not managed by this Sync"}, []string{"update a", "note a: exists, not managed by this Sync"},
		},
		{
			"what comes is there, as a deletion did not come to its end", none, one, liveTarget{"a": ours(a2)},
			[]string{"create a", "note a: exists already, and is ours: it is changed, not made"}, []string{"delete a"},
		},
		{"what goes is kept by its target", one, none, liveTarget{"a": {object: a1, applied: a1, kept: true}}, []string{"delete a " + kept}, nil},
		{
			"what goes is not ours", one, none, liveTarget{"a": foreign(m{"x": "9"})},
			[]string{"delete a " + kept, "note a: exists, not managed by this Sync"}, []string{"update a", "note a: exists, not managed by this Sync"},
		},
		{
			"what goes is on its way out", one, none, liveTarget{"a": {object: m{"x": "1", "y": "1", "metadata": m{"deletionTimestamp": "now"}}, applied: a1, kept: true}},
			[]string{"delete a", "note a: is being deleted already"}, []string{"update a metadata.deletionTimestamp=now><nil>"},
		},
		{
			"what is unknown", one, two, liveTarget{"a": {findings: state.Observation{Unknown: "no answer"}}},
			[]string{"update a x=1>2", "unknown a: no answer"}, []string{"unknown a: no answer"},
		},
		{
			"what is unknown and goes", one, none, liveTarget{"a": {findings: state.Observation{Unknown: "no answer"}}},
			[]string{"delete a", "unknown a: no answer"}, []string{"unknown a: no answer"},
		},
		{
			"what is unknown and unchanged", set(thing("b", a1)), set(thing("b", a1)),
			liveTarget{"a": {findings: state.Observation{Unknown: "no answer"}}, "b": ours(a1)}, nil, []string{"unknown a: no answer"},
		},
		{
			"what is read-only, by the text of its owner", none, one, liveTarget{"a": {object: m{"x": "9"}, terms: "adopt it"}},
			[]string{"create a [never: adopt it]", "note a: exists, not managed by this Sync"}, nil,
		},
		{
			"what changes is read-only, by the text of its owner", one, two, liveTarget{"a": {object: m{"x": "9"}, terms: "adopt it"}},
			[]string{"update a x=1>2 [never: adopt it]", "note a: exists, not managed by this Sync"}, []string{"update a [never: adopt it]", "note a: exists, not managed by this Sync"},
		},
		{
			"what is read-only and the same", none, one, liveTarget{"a": {object: a1, terms: "adopt it"}},
			[]string{"create a [never: adopt it]", "note a: exists, not managed by this Sync"}, nil,
		},
		{
			"what an API server refuses", one, two, liveTarget{"a": {object: a1, applied: a1, findings: state.Observation{DryRunError: "x is immutable"}}},
			[]string{"update a x=1>2"}, []string{"update a (a dry run of it is refused: x is immutable)"},
		},
		{
			"what was to be deleted all the time is no part of the change", one, two, liveTarget{"a": ours(a1), "old": ours(m{"z": "1"})},
			[]string{"update a x=1>2"}, []string{"delete old"},
		},
		{
			"notes of both are the drift's, those of one the change's", set(thing("quota", m{})), set(thing("quota", m{})),
			liveTarget{"quota": {object: m{}, findings: state.Observation{Notes: []finding.Finding{{Text: "used: 3"}}}}}, nil, []string{"note quota: used: 3"},
		},
		{
			"a quota that the change requires", none, set(thing("quota", m{})), liveTarget{"quota": {object: m{}, findings: state.Observation{Warnings: []finding.Finding{{Text: "too small"}}}}},
			[]string{"note quota: Warning: too small"}, nil,
		},
		{
			"notes of what is not ours are about it, and are not reported", one, one, liveTarget{"a": {object: a1, findings: state.Observation{Notes: []finding.Finding{{Text: "its password is 1"}}}}},
			nil, nil,
		},
		{"notes of what is ours", one, two, liveTarget{"a": {object: a1, applied: a1, findings: state.Observation{Notes: []finding.Finding{{Text: "three nodes"}}}}}, []string{"update a x=1>2"}, []string{"note a: three nodes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := proposal.Propose(tt.target.sides(tt.before, tt.after))
			if d := cmp.Diff(tt.step, summaryLines(got.Proposed)); d != "" {
				t.Errorf("the change: %s", d)
			}
			if d := cmp.Diff(tt.drift, summaryLines(got.Drift)); d != "" {
				t.Errorf("the drift: %s", d)
			}
			for _, c := range got.Proposed.Changes {
				if c.Drift {
					t.Errorf("%s is said to be drift", c.Key)
				}
			}
		})
	}
}

func TestARefusalThatTheStepBringsIsReported(t *testing.T) {
	a1, a2 := m{"x": "1"}, m{"x": "2"}
	for _, applied := range []m{a1, nil} {
		before, after := set(thing("a", a1)), set(thing("a", a2))
		s := liveTarget{"a": {object: a1, applied: applied}}.sides(before, after)
		refused := liveTarget{"a": {object: a1, applied: applied, findings: state.Observation{DryRunError: "x was 1 and is immutable"}}}
		s.After.Observed = refused.observe(after)
		want := []string{"update a x=1>2", "note a: Warning: a dry run of it is refused: x was 1 and is immutable"}
		if applied == nil {
			want = []string{"update a x=1>2", "note a: exists, not managed by this Sync", "note a: Warning: a dry run of it is refused"}
		}
		if d := cmp.Diff(want, summaryLines(proposal.Propose(s).Proposed)); d != "" {
			t.Error(d)
		}
	}
}

func TestWhatCannotBeReadIsNotReportedToExist(t *testing.T) {
	a2 := m{"x": "2"}
	after := set(thing("a", a2))
	s := proposal.RevisionStates{After: proposal.RevisionState{Desired: after, Observed: set(state.Item{Key: key("a"), Version: "v1", Object: m{"x": "2"}, Observation: state.Observation{Unreadable: "forbidden"}})}}
	if d := cmp.Diff([]string{"create a", "note a: unreadable: forbidden"}, summaryLines(proposal.Propose(s).Proposed)); d != "" {
		t.Error(d)
	}
}

func TestWhatATargetDoesNotReadIsNotReportedAsDone(t *testing.T) {
	// Another thing is missing that says it all: the target passes this one as desired.
	a2 := m{"x": "2"}
	s := proposal.RevisionStates{Before: proposal.RevisionState{Desired: set(thing("a", m{"x": "1"}))}, After: proposal.RevisionState{Desired: set(thing("a", a2)), Observed: set(state.Item{Key: key("a"), Object: a2})}}
	if d := cmp.Diff([]string{"update a x=1>2"}, summaryLines(proposal.Propose(s).Proposed)); d != "" {
		t.Error(d)
	}
}

func TestAStepOfWhatIsOnlyCompared(t *testing.T) {
	compared := func(x string) state.Item {
		item := thing("a", m{"x": x})
		item.ReadOnly = "do it by hand"
		return item
	}
	none := state.Set{}
	tests := []struct {
		name          string
		before, after state.Set
		want          []string
	}{
		{"changes", set(compared("1")), set(compared("2")), []string{"update a x=1>2 [never: do it by hand]"}},
		{"comes", none, set(compared("1")), []string{"create a [never: do it by hand]"}},
		{"goes", set(compared("1")), none, []string{"note a: is not compared any more"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := proposal.Propose(proposal.RevisionStates{Before: proposal.RevisionState{Desired: tt.before}, After: proposal.RevisionState{Desired: tt.after}, Offline: true})
			if d := cmp.Diff(tt.want, summaryLines(got.Proposed)); d != "" {
				t.Errorf("offline: %s", d)
			}
			got = proposal.Propose(liveTarget{}.sides(tt.before, tt.after))
			live := summaryLines(got.Proposed)
			if len(live) == 0 || live[0] != tt.want[0] {
				t.Errorf("live: %v", live)
			}
		})
	}
}

func TestAReservedThingGoesByHandAlone(t *testing.T) {
	desired := thing("a", m{"x": "1"})
	desired.ReadOnly = "only bootstrap writes it"
	got := proposal.Propose(liveTarget{"a": {object: m{"x": "1"}, applied: m{"x": "1"}, terms: "delete it by hand"}}.sides(set(desired), state.Set{}))
	if d := cmp.Diff([]string{"delete a [never: delete it by hand]"}, summaryLines(got.Proposed)); d != "" {
		t.Error(d)
	}
}

func TestOfflineAStepIsTheDifferenceOfTheRevisions(t *testing.T) {
	reads := thing("quota", m{})
	before := set(thing("a", m{"x": "1"}), thing("b", m{"x": "1"}), thing("c", m{"x": "1"}))
	after := set(thing("a", m{"x": "2"}), thing("b", m{"x": "1"}), thing("d", m{"x": "1"}), reads)
	got := proposal.Propose(proposal.RevisionStates{Before: proposal.RevisionState{Desired: before}, After: proposal.RevisionState{Desired: after, Observed: set(thing("a", m{"x": "9"}))}, Offline: true})
	if d := cmp.Diff([]string{"update a x=1>2", "create d", "delete c"}, summaryLines(got.Proposed)); d != "" {
		t.Error(d)
	}
	if got.Proposed.Managed != 3 || got.Proposed.Unchanged != 1 {
		t.Errorf("managed %d, unchanged %d", got.Proposed.Managed, got.Proposed.Unchanged)
	}
	if d := cmp.Diff(plan.Plan{}, got.Drift); d != "" {
		t.Errorf("drift where nobody looked: %s", d)
	}
}

func TestPoliciesGetAllThatWillBeDeleted(t *testing.T) {
	var before []state.Item
	live := liveTarget{}
	for i := range 20 {
		name := fmt.Sprintf("t%02d", i)
		live[name] = ours(m{"x": "1"})
		if i < 14 {
			before = append(before, thing(name, m{"x": "1"}))
		}
	}
	// Six deletions are open, the change adds five: neither is more than half or ten.
	s := live.sides(set(before...), set(before[:9]...))
	got := proposal.Propose(s, plan.Guard(50, ""))
	whole := plan.Compute(s.After.Desired, s.After.Observed, plan.Guard(50, ""))
	if !strings.Contains(got.Proposed.Reasons().String(), "would delete 11 of 20 objects") || got.Proposed.Confirmation() != whole.Confirmation() || whole.Confirmation() == "" {
		t.Errorf("the change's holds: %v, confirmed by %q", got.Proposed.Reasons(), got.Proposed.Confirmation())
	}
	if len(got.Drift.Reasons()) != 0 || got.Drift.Count(plan.Delete) != 6 || got.Proposed.Count(plan.Delete) != 5 {
		t.Errorf("drift: %v", summaryLines(got.Drift))
	}
	s.Offline = true
	s.After.Desired = set(before[:3]...)
	offline := proposal.Propose(s, plan.Guard(50, "")).Proposed
	if got := offline.Reasons().String(); got != "would delete 11 of 14 objects, more than 50% (guard.maxPrunePercent)" || offline.Confirmation() != "" {
		t.Errorf("offline a token is made of nothing live: %q of %q", offline.Confirmation(), got)
	}
}

func TestDeletionsThatAreNotMadeAreShownWithTheReason(t *testing.T) {
	a1 := m{"x": "1"}
	before, after := set(thing("a", a1), thing("b", a1)), set(thing("b", a1))
	live := liveTarget{"a": {object: a1, applied: a1, impact: "3 nodes go with it"}, "b": ours(a1)}
	const off, withProblems = "nothing is deleted (prune: false)", "nothing is deleted while the repository has problems: they may hide what seems to be removed"
	tests := []struct {
		name     string
		change   func(*proposal.RevisionStates)
		policies []plan.Policy
		want     []string
	}{
		{"nothing is pruned", nil, []plan.Policy{plan.NoPrune()}, []string{"delete a [never: " + off + "] {3 nodes go with it}"}},
		{"the revision has problems", func(s *proposal.RevisionStates) { s.After.Problems = problems }, nil, []string{"delete a [never: " + withProblems + "] {3 nodes go with it}"}},
		{"offline nothing is pruned", func(s *proposal.RevisionStates) { s.Offline = true }, []plan.Policy{plan.NoPrune()}, []string{"delete a [never: " + off + "]"}},
		{"offline the revision has problems", func(s *proposal.RevisionStates) { s.Offline, s.After.Problems = true, problems }, nil, []string{"delete a [never: " + withProblems + "]"}},
		{"the guard requires a token", nil, []plan.Policy{plan.ConfirmLosses("")}, []string{"delete a [waits: deleting NodePool.karpenter.sh/a: 3 nodes go with it] {3 nodes go with it}"}},
		{"nothing is written to the target", nil, []plan.Policy{plan.ReportTarget("kubernetes")}, []string{"delete a [never: nothing is written to kubernetes (drift: Report)] {3 nodes go with it}"}},
		{"it is declared with a problem", func(s *proposal.RevisionStates) { s.After.Problems, s.Declared = problems, before }, nil, nil},
		{"offline it is declared with a problem", func(s *proposal.RevisionStates) { s.Offline, s.After.Problems, s.Declared = true, problems, before }, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := live.sides(before, after)
			if tt.change != nil {
				tt.change(&s)
			}
			got := proposal.Propose(s, tt.policies...)
			if d := cmp.Diff(tt.want, summaryLines(got.Proposed)); d != "" {
				t.Error(d)
			}
			if want := plan.Compute(s.After.Desired, s.After.Observed, tt.policies...).Confirmation(); !s.Offline && len(got.Proposed.Changes) > 0 && got.Proposed.Confirmation() != want {
				t.Errorf("confirmed by %q, want %q", got.Proposed.Confirmation(), want)
			}
			if len(got.Drift.Changes) != 0 {
				t.Errorf("drift: %v", summaryLines(got.Drift))
			}
		})
	}
}

func TestAMendedProblemLetsGoWhatWaitedForIt(t *testing.T) {
	a1 := m{"x": "1"}
	live := liveTarget{"a": ours(a1), "old": {object: m{"z": "1"}, applied: m{"z": "1"}, impact: "2 nodes go with it"}, "label": {object: m{"z": "secret"}, adopted: true}}
	s := live.sides(set(thing("a", a1)), set(thing("a", a1)))
	s.Before.Problems = problems
	got := proposal.Propose(s)
	const why = ": was removed before, and waited for the repository's problems to be mended"
	if d := cmp.Diff([]string{"delete label", "delete old {2 nodes go with it}", "note label" + why, "note old" + why}, summaryLines(got.Proposed)); d != "" {
		t.Error(d)
	}
	if strings.Contains(liveValues(got), "secret") || len(got.Drift.Changes) != 0 {
		t.Errorf("shown:\n%s", liveValues(got))
	}
}

func TestAStepIsReportedInTheOrderOfWork(t *testing.T) {
	x := m{"x": "1"}
	live := liveTarget{"b": ours(x), "early": ours(x), "late": ours(x), "z": ours(x)}
	s := live.sides(set(thing("early", x), thing("late", x), thing("z", x)), set(thing("new", x)))
	s.Before.Problems = problems
	var observed []state.Item
	for _, item := range s.After.Observed.Items() {
		item.Wave = map[string]int{"early": 1, "b": 2, "z": 2, "late": 3}[item.Key.Name]
		observed = append(observed, item)
	}
	s.After.Observed = set(observed...)
	var got []string
	for _, c := range proposal.Propose(s).Proposed.Changes {
		got = append(got, c.Key.Name)
	}
	if d := cmp.Diff([]string{"new", "late", "b", "z", "early"}, got); d != "" {
		t.Error(d)
	}
}

func TestTheTermsAfterTheStepCount(t *testing.T) {
	before, after := thing("a", m{"x": "1"}), thing("a", m{"x": "2"})
	before.ReadOnly = "do it by hand"
	for _, offline := range []bool{false, true} {
		s := liveTarget{"a": ours(m{"x": "1"})}.sides(set(before), set(after))
		s.Offline = offline
		if d := cmp.Diff([]string{"update a x=1>2"}, summaryLines(proposal.Propose(s).Proposed)); d != "" {
			t.Errorf("offline %v: %s", offline, d)
		}
	}
}

func TestWhatTheStepBringsAboutWithoutChangingItIsAPartOfIt(t *testing.T) {
	a1, b1 := m{"x": "1"}, m{"x": "1"}
	both := set(thing("a", a1), thing("b", b1))
	s := liveTarget{"a": ours(a1), "b": foreign(b1)}.sides(both, both)
	s.After.Observed = liveTarget{"a": drifted(a1, m{"x": "8"}), "b": foreign(m{"x": "secret"})}.observe(both)
	got := proposal.Propose(s)
	if d := cmp.Diff([]string{"update a x=8>1", "update b", "note b: exists, not managed by this Sync"}, summaryLines(got.Proposed)); d != "" {
		t.Error(d)
	}
	if strings.Contains(liveValues(got), "secret") {
		t.Errorf("shown:\n%s", liveValues(got))
	}
}

func TestFieldsAreNamedWhereTheStepChangesWhatHasDrifted(t *testing.T) {
	list := func(n int, value string) m {
		out := m{}
		for i := range n {
			out[fmt.Sprintf("f%d", i)] = value
		}
		return out
	}
	tests := []struct {
		name                   string
		before, after, is, new m
		want                   []string
	}{
		{
			"a part of what the change replaces", m{"l": []any{"a"}}, m{"l": []any{"b"}}, m{"l": []any{"a", "c"}}, nil,
			[]string{"has drifted live in fields that the change sets: l"},
		},
		{
			"a field in one that has drifted as a whole", m{"l": m{"a": "1", "b": "1"}}, m{"l": m{"a": "2", "b": "1"}}, m{"l": "none"}, nil,
			[]string{"has drifted live in fields that the change sets: l"},
		},
		{"a field that only begins alike", m{"la": "1", "lab": "1"}, m{"la": "2", "lab": "1"}, m{"la": "1", "lab": "9"}, nil, nil},
		{
			"more than a few", list(8, "1"), list(8, "2"), list(8, "9"), nil,
			[]string{"has drifted live in fields that the change sets: f0, f1, f2, f3, f4 and 3 more"},
		},
		{
			"a field that only the targets after the change show", m{"a": "1", "b": "1"}, m{"a": "2", "b": "1"}, m{"a": "1", "b": "1"}, m{"a": "1", "b": "9"},
			[]string{"live, the change also sets: b"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := set(thing("a", tt.before)), set(thing("a", tt.after))
			s := liveTarget{"a": drifted(tt.before, tt.is)}.sides(before, after)
			if tt.new != nil {
				s.After.Observed = liveTarget{"a": drifted(tt.before, tt.new)}.observe(after)
			}
			var got []string
			for _, n := range proposal.Propose(s).Proposed.Notes {
				got = append(got, warned(n))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// A target that was not asked about a thing knows nothing of it, so that it neither drifts nor
// is missing; a thing that was looked for and is not there is missing.
func TestWhatATargetDoesNotReadIsNoDrift(t *testing.T) {
	one, two := set(thing("a", m{"x": "1"})), set(thing("a", m{"x": "2"}))
	unread := set(state.Item{Key: key("a"), Observation: state.Observation{Hidden: true}})
	for name, c := range map[string]struct {
		observed    state.Set
		after       state.Set
		step, drift []string
	}{
		"not read, and not changed": {unread, one, nil, nil},
		"not read, and changed":     {unread, two, []string{"update a x=1>2", "note a: is not applied by this Sync: for a comment, it is not read whether it exists"}, nil},
		"read, and not there":       {set(), one, nil, []string{"create a"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := proposal.Propose(proposal.RevisionStates{Before: proposal.RevisionState{Desired: one, Observed: c.observed}, After: proposal.RevisionState{Desired: c.after, Observed: c.observed}})
			if d := cmp.Diff(c.step, summaryLines(got.Proposed)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.drift, summaryLines(got.Drift)); d != "" {
				t.Error(d)
			}
		})
	}
}
