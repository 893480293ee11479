package proposal_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/proposal"
	"github.com/poolwright/poolwright/reconciler/state"
)

// randomObject has a few fields with a few values, so that two are often alike.
func randomObject(r *rand.Rand, values string) m {
	out := m{"fixed": "1"}
	for _, field := range []string{"p", "q"} {
		switch r.IntN(3) {
		case 0:
			out[field] = fmt.Sprintf("%s%d", values, r.IntN(2))
		case 1:
			out[field] = m{"deep": fmt.Sprintf("%s%d", values, r.IntN(2))}
		}
	}
	return out
}

func randomRevision(r *rand.Rand) state.Set {
	var items []state.Item
	for _, name := range []string{"a", "b", "c", "d"} {
		if r.IntN(3) > 0 {
			items = append(items, thing(name, randomObject(r, "git")))
		}
	}
	return set(items...)
}

// randomTarget holds what is ours, as applied or changed by hand or gone, what is not,
// and what nobody can tell. Some of it is as a revision says.
func randomTarget(r *rand.Rand, revision state.Set) liveTarget {
	out := liveTarget{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		object := randomObject(r, "git")
		if item, ok := revision.Get(key(name)); ok && r.IntN(2) == 0 {
			object = item.Object
		}
		switch r.IntN(7) {
		case 0, 1:
			out[name] = ours(object)
		case 2:
			out[name] = drifted(object, randomObject(r, "hand"))
		case 3:
			out[name] = real{applied: object}
		case 4:
			out[name] = real{object: randomObject(r, "foreign"), owner: "foreign"}
		case 5:
			out[name] = real{findings: state.Observation{Unknown: "no answer"}}
		case 6:
			if r.IntN(2) == 0 {
				out[name] = real{object: randomObject(r, "foreign"), owner: "foreign", adopted: true}
			}
		}
	}
	return out
}

// done is what becomes of the things that are ours when changes are made.
func done(observed state.Set, changes ...plan.Change) map[string]any {
	out := map[string]any{}
	for _, item := range observed.Items() {
		if item.Applied != "" && item.Object != nil {
			out[item.Key.Name] = item.Object
		}
	}
	for _, c := range changes {
		item, _ := observed.Get(c.Key)
		switch {
		case item.Applied == "":
		case c.Action == plan.Delete:
			delete(out, c.Key.Name)
		default:
			out[c.Key.Name] = c.After.Object
		}
	}
	return out
}

// TestNothingIsLostBetweenStepAndDrift: where the targets stand after the drift has been
// corrected and the change been made is where the live plan after the change leads, in
// whatever is ours; and a proposal shows nothing live of what is not.
func TestNothingIsLostBetweenStepAndDrift(t *testing.T) {
	for seed := range uint64(4_000) {
		r := rand.New(rand.NewPCG(seed, 5))
		before := randomRevision(r)
		after := before
		if r.IntN(8) > 0 {
			after = randomRevision(r)
		}
		s := randomTarget(r, before).sides(before, after)
		got := proposal.Propose(s)
		whole := plan.Compute(s.After.Desired, s.After.Observed)

		// What the change says of a thing, counts; the drift is for what it leaves alone.
		stepped := map[state.Key]bool{}
		for _, c := range got.Proposed.Changes {
			stepped[c.Key] = true
		}
		var changes []plan.Change
		for _, c := range got.Drift.Changes {
			if !stepped[c.Key] {
				changes = append(changes, c)
			}
		}
		changes = append(changes, got.Proposed.Changes...)
		if d := cmp.Diff(done(s.After.Observed, whole.Changes...), done(s.After.Observed, changes...)); d != "" {
			t.Fatalf("seed %d: %s\nstep %v\ndrift %v\nwhole %v", seed, d, summaryLines(got.Proposed), summaryLines(got.Drift), summaryLines(whole))
		}
		if text := liveValues(got); strings.Contains(text, "foreign") {
			t.Fatalf("seed %d shows what is not ours:\n%s", seed, text)
		}
		if d := cmp.Diff(summaryLines(got.Proposed), summaryLines(proposal.Propose(s).Proposed)); d != "" {
			t.Fatalf("seed %d: the second answer is another: %s", seed, d)
		}
	}
}

// TestEachDifferenceOfTheRevisionsIsReportedOnce: whatever the target, each difference of the two
// revisions is reported once.
func TestEachDifferenceOfTheRevisionsIsReportedOnce(t *testing.T) {
	for seed := range uint64(2_000) {
		r := rand.New(rand.NewPCG(seed, 6))
		before, after := randomRevision(r), randomRevision(r)
		s := randomTarget(r, before).sides(before, after)
		var policies []plan.Policy
		switch r.IntN(4) {
		case 0:
			policies = append(policies, plan.NoPrune())
		case 1:
			policies = append(policies, plan.ReportTarget("kubernetes"), plan.ReportDrift())
		}
		if r.IntN(4) == 0 {
			s.After.Problems = problems
		}
		s.Offline = r.IntN(4) == 0
		got := map[string]int{}
		for _, c := range proposal.Propose(s, policies...).Proposed.Changes {
			got[fmt.Sprint(c.Action, c.Key)]++
		}
		for _, c := range plan.Compute(after, before).Changes {
			if name := fmt.Sprint(c.Action, c.Key); got[name] != 1 {
				t.Fatalf("seed %d: %s is told %d times", seed, name, got[name])
			}
		}
	}
}
