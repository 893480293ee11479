package plan_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

const byHand = "run: aws eks update-cluster-version"

// inAWS is a thing of another target.
func inAWS(name string, content object) state.Item {
	i := thing(name, 0, content)
	i.Key.Target = "aws"
	return i
}

// unknown is what a target reports of a thing that it could not look at.
func unknown(i state.Item, reason string) state.Item {
	return state.Item{Key: i.Key, Observation: state.Observation{Unknown: reason}}
}

func noted(i state.Item, notes ...string) state.Item {
	for _, text := range notes {
		i.Notes = append(i.Notes, finding.Finding{Text: text})
	}
	return i
}

func compared(i state.Item) state.Item {
	i.ReadOnly = byHand
	return i
}

func TestComputeConcludesNothingFromWhatIsUnknown(t *testing.T) {
	a, b := inAWS("a", object{"v": int64(1)}), inAWS("b", object{"v": int64(1)})
	a.Origin = state.Origin{File: "cluster.yaml", Line: 9}
	denied := "denied: sqs:GetQueueAttributes is missing"
	stale := unknown(a, denied)
	stale.Applied = state.Hash(a.Object)
	both := unknown(a, denied)
	both.Object = object{"v": int64(2)}
	tests := []struct {
		name              string
		desired, observed []state.Item
		want              []string
		unknown           []plan.Unknown
		managed           int
		unchanged         int
	}{
		{
			name: "what is desired and unknown is neither made nor as desired", desired: []state.Item{a}, observed: []state.Item{unknown(a, denied)},
			unknown: []plan.Unknown{{Key: a.Key, Origin: a.Origin, Reason: denied}},
		},
		{
			name: "what we applied once and is unknown now was not deleted by hand", desired: []state.Item{a}, observed: []state.Item{stale},
			unknown: []plan.Unknown{{Key: a.Key, Origin: a.Origin, Reason: denied, Ours: true}}, managed: 1,
		},
		{
			name: "what is read-only was never ours, whatever was recorded of it", desired: []state.Item{compared(a)}, observed: []state.Item{stale},
			unknown: []plan.Unknown{{Key: a.Key, Origin: a.Origin, Reason: denied}},
		},
		{
			name: "what is no longer desired and unknown is not deleted", observed: []state.Item{unknown(a, denied)},
			unknown: []plan.Unknown{{Key: a.Key, Reason: denied, Ours: true}}, managed: 1,
		},
		{
			name: "content that comes with an unknown thing proves nothing", desired: []state.Item{a}, observed: []state.Item{both},
			unknown: []plan.Unknown{{Key: a.Key, Origin: a.Origin, Reason: denied}},
		},
		{
			name:    "the others are compared as ever, and unknown things are in the order of their keys",
			desired: []state.Item{a, b, thing("new", 0, nil)}, observed: []state.Item{unknown(b, "throttled"), unknown(a, denied), inAWS("old", nil)},
			want:    []string{"create new", "delete old"},
			unknown: []plan.Unknown{{Key: a.Key, Origin: a.Origin, Reason: denied}, {Key: b.Key, Reason: "throttled"}}, managed: 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := plan.Compute(state.NewSet(tt.desired...), state.NewSet(tt.observed...))
			if got := steps(p); !slices.Equal(got, tt.want) {
				t.Errorf("changes %v, want %v", got, tt.want)
			}
			if d := cmp.Diff(tt.unknown, p.Unknown); d != "" {
				t.Errorf("unknown (-want +got):\n%s", d)
			}
			if p.Managed != tt.managed || p.Unchanged != tt.unchanged || p.Empty() {
				t.Errorf("%d managed, %d unchanged, empty %v; want %d and %d, and not empty", p.Managed, p.Unchanged, p.Empty(), tt.managed, tt.unchanged)
			}
		})
	}
}

func TestANoteIsNoChange(t *testing.T) {
	a, gone := inAWS("a", nil), inAWS("gone", nil)
	a.Origin = state.Origin{File: "cluster.yaml", Line: 2}
	missing := state.Item{Key: gone.Key, Observation: state.Observation{Notes: []finding.Finding{{Text: "its name is free again in 60 s"}}}}
	p := plan.Compute(state.NewSet(a), state.NewSet(noted(a, "one", "two")))
	if !p.Empty() || p.Unchanged != 1 {
		t.Errorf("changes %v, %d unchanged", steps(p), p.Unchanged)
	}
	p = plan.Compute(state.NewSet(a, gone), state.NewSet(missing, noted(a, "one", "two"), noted(inAWS("old", nil), "three")))
	want := []plan.Note{
		{Key: a.Key, Origin: a.Origin, Text: "one"}, {Key: a.Key, Origin: a.Origin, Text: "two"},
		{Key: gone.Key, Text: "its name is free again in 60 s"}, {Key: inAWS("old", nil).Key, Text: "three"},
	}
	if d := cmp.Diff(want, p.Notes); d != "" {
		t.Errorf("notes (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"create gone", "delete old"}, steps(p)); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

func TestWhatIsOnlyComparedIsHeldBeforeAnyPolicyRuns(t *testing.T) {
	live := inAWS("version", object{"v": "1.33"})
	tests := []struct {
		name              string
		desired, observed []state.Item
		want              []string
		managed           int
	}{
		{name: "a desired thing that is not ours to write", desired: []state.Item{compared(inAWS("version", nil))}, observed: []state.Item{live}, want: []string{"update version held"}},
		{name: "a live thing that is somebody else's", desired: []state.Item{inAWS("version", nil)}, observed: []state.Item{compared(live)}, want: []string{"update version held"}},
		{name: "a missing thing that is not ours to make", desired: []state.Item{compared(inAWS("version", nil))}, want: []string{"create version held"}},
		{name: "a thing that left and is not ours to delete", observed: []state.Item{compared(live)}, want: []string{"delete version held"}, managed: 1},
		{name: "one that is as desired", desired: []state.Item{compared(live)}, observed: []state.Item{live}, want: []string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			requested := func(p plan.Plan) plan.Plan {
				if d := cmp.Diff(tt.want, steps(p)); d != "" {
					t.Errorf("what the first policy sees (-want +got):\n%s", d)
				}
				return p
			}
			p := plan.Compute(state.NewSet(tt.desired...), state.NewSet(tt.observed...), requested, plan.ReportDrift(), plan.ReportTarget("aws"), plan.Guard(0, ""))
			if p.Managed != tt.managed {
				t.Errorf("%d managed, want %d", p.Managed, tt.managed)
			}
			for _, c := range p.Changes {
				if !c.ReadOnly() || c.Hold.String() != byHand {
					t.Errorf("%s: standing %v, hold %q", c.Key, c.ReadOnly(), c.Hold)
				}
			}
		})
	}
}

func TestReportTargetLetsNothingBeWrittenInItsTarget(t *testing.T) {
	edited := inAWS("edited", object{"v": int64(1)})
	liveEdited := inAWS("edited", object{"v": int64(2)})
	liveEdited.Applied = state.Hash(edited.Object)
	desired := state.NewSet(inAWS("new", nil), edited, compared(inAWS("version", nil)), thing("pool", 0, nil))
	observed := state.NewSet(liveEdited, inAWS("old", nil), inAWS("version", object{"v": "x"}), thing("stray", 0, nil))
	p := plan.Compute(desired, observed, plan.ReportTarget("aws"), plan.Guard(50, ""))
	want := []string{"update edited drift held", "create new held", "update version held", "create pool", "delete old held", "delete stray"}
	if d := cmp.Diff(want, steps(p)); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"nothing is written to aws (drift: Report)", byHand}, holds(p)); d != "" {
		t.Errorf("reasons (-want +got):\n%s", d)
	}
	for _, c := range p.Changes {
		if c.ReadOnly() != (c.Key.Target == "aws") {
			t.Errorf("%s: standing %v", c.Key, c.ReadOnly())
		}
	}
	for _, i := range append(desired.Items(), observed.Items()...) {
		if i.ReadOnly != "" && i.ReadOnly != byHand {
			t.Errorf("the policy changed its input: %s: %s", i.Key, i.ReadOnly)
		}
	}
}

// A guard counts what the plan would delete against what is ours and known.
func TestAGuardIsDisturbedByNeitherUnknownNorComparedThings(t *testing.T) {
	in := func(n int, edit func(state.Item) state.Item) []state.Item {
		var out []state.Item
		for _, i := range things("side", n) {
			i.Key.Target = "aws"
			out = append(out, edit(i))
		}
		return out
	}
	lost := func(i state.Item) state.Item { return unknown(i, "denied") }
	plain := func(i state.Item) state.Item { return i }
	tests := []struct {
		name              string
		desired, observed []state.Item
		policies          []plan.Policy
		reason            string
		held              int
	}{
		{name: "the control: something of ours stays", desired: things("kept", 1), observed: append(things("kept", 1), things("old", 3)...)},
		{name: "an unknown thing is not what stays", observed: append(in(5, lost), things("old", 3)...), reason: "would delete all 3 objects (guard.maxPrunePercent)", held: 3},
		{name: "nor are they in the share", desired: things("kept", 8), observed: slices.Concat(in(90, lost), things("kept", 8), things("old", 10)),
			reason: "would delete 10 of 18 objects, more than 50% (guard.maxPrunePercent)", held: 10},
		{name: "a thing that is read-only is not what stays", desired: in(5, compared), observed: append(in(5, plain), things("old", 3)...), reason: "would delete all 3 objects (guard.maxPrunePercent)", held: 3},
		{name: "even where it differs", desired: in(1, compared), observed: append(in(1, func(i state.Item) state.Item { i.Object = object{}; return i }), things("old", 3)...),
			reason: "would delete all 3 objects (guard.maxPrunePercent)", held: 4},
		{name: "deletions that are only reported trip nothing", desired: things("kept", 1), observed: slices.Concat(in(90, plain), things("kept", 1), things("old", 3)),
			policies: []plan.Policy{plan.ReportTarget("aws")}, held: 90},
		{name: "and hide nothing", observed: slices.Concat(in(90, plain), things("old", 3)),
			policies: []plan.Policy{plan.ReportTarget("aws")}, reason: "would delete all 3 objects (guard.maxPrunePercent)", held: 93},
		{name: "impact ones among them require no confirmation", desired: things("kept", 1), observed: append(in(1, func(i state.Item) state.Item { i.Impact = "all nodes"; return i }), things("kept", 1)...),
			policies: []plan.Policy{plan.ReportTarget("aws")}, held: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := plan.Compute(state.NewSet(tt.desired...), state.NewSet(tt.observed...), append(tt.policies, plan.Guard(50, ""))...)
			if got := heldCount(p); got != tt.held {
				t.Errorf("%d held, want %d", got, tt.held)
			}
			want := ""
			if tt.reason != "" {
				want = tt.reason
			}
			if got := slices.Contains(holds(p), want); got != (want != "") {
				t.Errorf("reasons %q, want %q", holds(p), want)
			}
			for _, c := range p.Changes {
				if c.Action == plan.Delete && c.ReadOnly() == (c.Hold.String() == want) {
					t.Errorf("%s: standing %v, held by %q", c.Key, c.ReadOnly(), c.Hold)
				}
			}
		})
	}
}

func TestAConfirmationIsNotSpoiledByWhatIsUnknownOrOnlyReported(t *testing.T) {
	kept, old := things("kept", 2), things("old", 20)
	hash := deletionsOf(plan.Compute(state.NewSet(kept...), state.NewSet(append(old, kept...)...), plan.Guard(50, "")))
	observed := slices.Concat(old, kept, []state.Item{inAWS("reported", nil), unknown(inAWS("lost", nil), "denied")})
	p := plan.Compute(state.NewSet(kept...), state.NewSet(observed...), plan.ReportTarget("aws"), plan.Guard(50, hash))
	if got := heldCount(p); got != 1 || deletionsOf(p) != hash {
		t.Errorf("%d held, hash %s, want 1 and %s: %v", got, deletionsOf(p), hash, holds(p))
	}
}

func TestWhatIsReadForItsNotesAloneCountsNowhere(t *testing.T) {
	quota, ours := inAWS("quota", object{}), inAWS("queue", nil)
	observed := noted(quota, "too small")
	p := plan.Compute(state.NewSet(quota, ours), state.NewSet(observed, ours))
	if p.Unchanged != 1 || p.Managed != 1 || len(p.Notes) != 1 || !p.Empty() {
		t.Errorf("%d unchanged, %d managed, notes %v, changes %v", p.Unchanged, p.Managed, p.Notes, steps(p))
	}
	lost := unknown(quota, "denied")
	lost.Applied = state.Hash(quota.Object)
	if p = plan.Compute(state.NewSet(quota, ours), state.NewSet(lost, ours)); p.Managed != 1 || len(p.Unknown) != 1 {
		t.Errorf("%d managed, unknown %v", p.Managed, p.Unknown)
	}
}

func TestWhatAnAPIServerCouldNotCompareIsAChange(t *testing.T) {
	a := thing("a", 0, object{"v": int64(1)})
	for name, findings := range map[string]state.Observation{
		"a dry run that is refused":    {DryRunError: "v is immutable"},
		"content that may not be read": {Unreadable: "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			found := a
			found.Observation, found.Applied = findings, state.Hash(a.Object)
			p := plan.Compute(state.NewSet(a), state.NewSet(found))
			if len(p.Changes) != 1 || p.Changes[0].Action != plan.Update || !p.Changes[0].Drift || p.Unchanged != 0 || p.Managed != 1 {
				t.Errorf("changes %+v, %d unchanged, %d managed", p.Changes, p.Unchanged, p.Managed)
			}
		})
	}
}
