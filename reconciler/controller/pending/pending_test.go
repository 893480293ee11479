package pending

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
)

func change(object, action, token string) v1alpha1.PendingChange {
	return v1alpha1.PendingChange{Object: object, Action: action, ConfirmationToken: token, Reason: "reason of " + object}
}

func objects(changes []v1alpha1.PendingChange) string {
	var out []string
	for _, c := range changes {
		out = append(out, c.Object)
	}
	return strings.Join(out, " ")
}

func TestWhatARunCannotComputeStaysPending(t *testing.T) {
	in := confirm.Binding{UID: "u"}
	update, deletion, move := in.Token("nodes", 1), in.Token("deletions", 1), in.Token("force-push", 1)
	earlier := v1alpha1.SyncStatus{ConfirmationToken: deletion + "," + move + "," + update, Pending: []v1alpha1.PendingChange{
		change("A/update", "update", update), change("A/delete", "delete", deletion), change("A/found", "delete", deletion),
	}}
	found := func(object string) bool { return object == "A/found" }
	for name, tt := range map[string]struct {
		computed Computable
		moved    bool
		objects  string
		tokens   []string
	}{
		"a full run computes all":                                         {Everything, false, "", nil},
		"a full run of a branch that may have moved keeps that token":     {Everything, true, "", []string{move}},
		"one without deletions keeps those that it did not find":          {NoDeletions, false, "A/delete", []string{deletion}},
		"one of drift alone keeps all that it did not find":               {Nothing, false, "A/update A/delete", []string{deletion, update}},
		"one of drift alone, of a branch that may have moved, keeps each": {Nothing, true, "A/update A/delete", []string{deletion, move, update}},
	} {
		t.Run(name, func(t *testing.T) {
			got := RetainedFrom(earlier, "", tt.computed, tt.moved, found, in)
			if d := cmp.Diff(tt.tokens, got.Tokens); d != "" || objects(got.Changes) != tt.objects {
				t.Errorf("kept %q, tokens (-want +got):\n%s", objects(got.Changes), d)
			}
		})
	}
}

// A former release stored in heldBy also the rules that skip a change.
func TestAStoredRuleThatSkipsAChangeDoesNotHoldIt(t *testing.T) {
	for name, tt := range map[string]struct {
		heldBy, skippedBy         []string
		wantHeldBy, wantSkippedBy []string
	}{
		"a read-only object":                       {[]string{"ReadOnly"}, nil, nil, []string{"ReadOnly"}},
		"drift that is only reported":              {[]string{"DriftReported"}, nil, nil, []string{"DriftReported"}},
		"a rule of each":                           {[]string{"ReadOnly", "MaxPrunePercent"}, nil, []string{"MaxPrunePercent"}, []string{"ReadOnly"}},
		"what is stored as skipped stays":          {[]string{"HoldUntil"}, []string{"ReadOnly"}, []string{"HoldUntil"}, []string{"ReadOnly"}},
		"what is stored as both is there once":     {[]string{"ReadOnly"}, []string{"ReadOnly"}, nil, []string{"ReadOnly"}},
		"what failed has no rule before and after": {nil, nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			stored := change("A/x", "delete", "")
			stored.HeldBy, stored.SkippedBy = tt.heldBy, tt.skippedBy
			earlier := v1alpha1.SyncStatus{Pending: []v1alpha1.PendingChange{stored}}
			want := stored
			want.HeldBy, want.SkippedBy = tt.wantHeldBy, tt.wantSkippedBy
			kept := RetainedFrom(earlier, "", NoDeletions, false, func(string) bool { return false }, confirm.Binding{UID: "u"})
			if d := cmp.Diff([]v1alpha1.PendingChange{want}, kept.Changes); d != "" {
				t.Errorf("kept (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.heldBy, earlier.Pending[0].HeldBy); d != "" {
				t.Errorf("the stored status is written to (-want +got):\n%s", d)
			}
		})
	}
}

func TestTheTokensOfARunReplaceThoseForTheSamePurpose(t *testing.T) {
	in := confirm.Binding{UID: "u"}
	first, second, deletion := in.Token("nodes", 1), in.Token("nodes", 2), in.Token("deletions", 1)
	kept := Retained{Tokens: []string{first, deletion}, quoted: []string{"served"}}
	for name, tt := range map[string]struct {
		own  []string
		want string
	}{
		"a run that found nothing keeps all":                 {nil, strings.Join([]string{deletion, first, "served"}, ",")},
		"a token for another purpose is added":               {[]string{in.Token("force-push", 1)}, strings.Join([]string{deletion, in.Token("force-push", 1), first, "served"}, ",")},
		"one for the same purpose replaces that of before":   {[]string{second}, strings.Join([]string{deletion, second, "served"}, ",")},
		"what is quoted already is in it once, and in order": {[]string{second, "served"}, strings.Join([]string{deletion, second, "served"}, ",")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kept.MergeTokens(tt.own); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	if got := (Retained{quoted: []string{"served"}}).MergeTokens(nil); got != "" {
		t.Errorf("where nothing waits, %q is quoted", got)
	}
}

func TestStatusListsWhatAPersonHasToConfirmFirst(t *testing.T) {
	kept := Retained{Changes: []v1alpha1.PendingChange{change("A/kept", "delete", ""), change("A/waits", "delete", "t")}}
	listed, omitted := kept.MergeChanges([]v1alpha1.PendingChange{change("A/found", "update", ""), change("A/held", "update", "t")}, 2, 0)
	if got := objects(listed); got != "A/waits A/held A/kept A/found" || omitted != 0 {
		t.Errorf("listed %s, omitted %d", got, omitted)
	}
	var many []v1alpha1.PendingChange
	for i := range Limit + 5 {
		many = append(many, change(fmt.Sprint("A/", i), "update", ""))
	}
	if listed, omitted := (Retained{}).MergeChanges(many, len(many)+7, 3); len(listed) != Limit || omitted != 12 {
		t.Errorf("%d are listed, %d omitted", len(listed), omitted)
	}
	// Of what was omitted before, nobody has a list by which to find it again.
	if _, omitted := kept.MergeChanges(nil, 0, 40); omitted != 40 {
		t.Errorf("%d are omitted, 40 were before", omitted)
	}
}

func TestReasonsAreBoundedAndEachIsThereOnce(t *testing.T) {
	var kept Retained
	for i := range NamedReasons + 2 {
		kept.Changes = append(kept.Changes, change(fmt.Sprint("A/", i), "delete", fmt.Sprint("t", i)), change(fmt.Sprint("A/", i), "delete", fmt.Sprint("t", i)))
	}
	kept.Changes = append(kept.Changes, change("A/retried", "update", ""))
	parts := strings.Split(kept.Reasons(true), "; ")
	if len(parts) != NamedReasons+1 || !strings.HasSuffix(parts[0], "t0)") {
		t.Errorf("%d parts, the first %q", len(parts), parts[0])
	}
	long := Retained{Changes: []v1alpha1.PendingChange{{Reason: strings.Repeat("ü", MessageLimit), ConfirmationToken: "t"}}}
	if got := long.Reasons(true); len(got) > MessageLimit/2 || !strings.Contains(got, "token t") {
		t.Errorf("%d bytes, in which the token is not", len(got))
	}
	if got := (Retained{Changes: []v1alpha1.PendingChange{change("A/x", "update", "")}}).Reasons(false); got != "" {
		t.Errorf("of what waits for no confirmation: %q", got)
	}
}
