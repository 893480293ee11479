package proposal_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/proposal"
	"github.com/poolwright/poolwright/reconciler/state"
)

// spread are constraints without a name, so that a change of their number is shown as a whole list. The
// skew of the first is ignored.
func spread(skews ...string) m {
	var list []any
	for _, skew := range skews {
		list = append(list, m{"topologyKey": "zone", "maxSkew": skew})
	}
	return m{"x": "1", "list": list}
}

const ignoredSkew = "/list/0/maxSkew"

func ignoring(object m, pointers ...string) state.Item {
	out := thing("a", object)
	out.Ignore = pointers
	return out
}

// observedSpread is the live object as a target observes it for a revision.
func observedSpread(desired state.Item, live, applied m) state.Set {
	return state.NewSet(state.Item{
		Key: desired.Key, Version: "v1", Object: live, Applied: state.Hash(applied), Live: state.Preconditions{UID: "uid", ResourceVersion: "1"},
		Observation: state.Observation{Ignored: state.IgnoredValues(desired.Ignore, desired.Object, live)},
	})
}

// disclosed is all that a comment is made from.
func disclosed(t *testing.T, p plan.Proposal) string {
	t.Helper()
	type published struct {
		Before, After m
		Fields        []plan.FieldChange
	}
	var all []published
	for _, c := range slices.Concat(p.Proposed.Changes, p.Drift.Changes) {
		one := published{Fields: c.Fields}
		if c.Before != nil {
			one.Before = c.Before.Object
		}
		if c.After != nil {
			one.After = c.After.Object
		}
		all = append(all, one)
	}
	out, err := json.Marshal([]any{all, p.Proposed.Ignored, p.Drift.Ignored})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestALiveValueOfAnIgnoredFieldIsInNoListThatIsWrittenAsAWhole(t *testing.T) {
	const live = "written-by-another"
	for _, tt := range []struct {
		name                 string
		before, after, found m
		fields               []string
	}{
		{"a proposed element beside it", spread("1", "8"), spread("1", "8", "9"), spread(live, "8"), []string{"list"}},
		{"a proposed value of its own", spread("1", "8"), spread("2", "8"), spread(live, "8"), nil},
		{"a proposed value of its own, with an element beside it", spread("1", "8"), spread("2", "8", "9"), spread(live, "8"), []string{"list"}},
		{"an element that drifted", spread("1", "8"), spread("1", "8"), spread(live, "7"), nil},
		{"an element that drifted and a proposed one", spread("1", "8"), spread("1", "8", "9"), spread(live, "7"), []string{"list"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after := ignoring(tt.before, ignoredSkew), ignoring(tt.after, ignoredSkew)
			got := proposal.Propose(proposal.RevisionStates{
				Before: proposal.RevisionState{Desired: state.NewSet(before), Observed: observedSpread(before, tt.found, tt.before)},
				After:  proposal.RevisionState{Desired: state.NewSet(after), Observed: observedSpread(after, tt.found, tt.before)},
			})
			if text := disclosed(t, got); strings.Contains(text, live) {
				t.Errorf("a live value is in it: %s", text)
			}
			var fields []string
			for _, c := range got.Proposed.Changes {
				for _, f := range c.Fields {
					fields = append(fields, f.Path)
				}
			}
			if d := cmp.Diff(tt.fields, fields); d != "" {
				t.Errorf("what the merge changes (-want +got):\n%s", d)
			}
		})
	}
}

func TestALiveValueIsInNoChangeThatAMergeOnlyBringsAbout(t *testing.T) {
	const live = "written-by-another"
	before, after := ignoring(spread("1", "8"), ignoredSkew), ignoring(spread("1", "8"), ignoredSkew)
	// It was not observed for the revision before.
	got := proposal.Propose(proposal.RevisionStates{
		Before: proposal.RevisionState{Desired: state.NewSet(before), Observed: observedSpread(before, spread("1", "8"), spread("1", "8"))},
		After:  proposal.RevisionState{Desired: state.NewSet(after), Observed: observedSpread(after, m{"x": "2", "list": spread(live, "8")["list"]}, spread("1", "8"))},
	})
	if text := disclosed(t, got); strings.Contains(text, live) || len(got.Proposed.Changes) != 1 {
		t.Errorf("a live value is in it: %s", text)
	}
}
