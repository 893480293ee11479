package syncpolicy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func key(group, kind, namespace, name string) state.Key {
	return state.Key{Target: state.TargetKubernetes, Group: group, Kind: kind, Namespace: namespace, Name: name}
}

// marked is an object with a field, and a mark.
func marked(k state.Key, field, until string) state.Item {
	item := state.Item{Key: k, Object: map[string]any{"spec": field}}
	if until != "" {
		item.HoldUntil, item.HoldReason = until, "INC-7"
	}
	return item
}

func TestWhatAPersonMarkedStaysAsItIsUntilThen(t *testing.T) {
	pool := key("karpenter.sh", "NodePool", "", "gpu")
	const later, earlier = "2026-11-28T18:00:00Z", "2026-11-28T11:59:59Z"
	tests := []struct {
		name           string
		live, declared string
		at             time.Time
		held           string // until; empty: not held
		warning        bool
	}{
		{name: "no mark", at: noon},
		{name: "a mark on the live object", live: later, at: noon, held: later},
		{name: "a mark in the repository", declared: later, at: noon, held: later},
		{name: "both, of which the live one counts", live: "2026-11-28T13:00:00Z", declared: later, at: noon, held: "2026-11-28T13:00:00Z"},
		{name: "the live one is over, and the declared one lasts", live: earlier, declared: later, at: noon, held: later},
		{name: "the live one is none, and the declared one lasts", live: "(empty)", declared: later, at: noon, held: later, warning: true},
		{name: "the declared one is none, and the live one lasts", live: later, declared: "true", at: noon, held: later},
		{name: "another time zone", live: "2026-11-28T19:00:00+01:00", at: noon, held: later},
		{name: "a second before its end", live: later, at: noon.Add(6*time.Hour - time.Second), held: later},
		{name: "its end", live: later, at: noon.Add(6 * time.Hour)},
		{name: "one that is over", live: earlier, at: noon},
		{name: "seven days", live: "2026-12-05T12:00:00Z", at: noon, held: "2026-12-05T12:00:00Z"},
		{name: "a second more than seven days", live: "2026-12-05T12:00:01Z", at: noon, warning: true},
		{name: "for ever", live: "9999-12-31T23:59:59Z", at: noon, warning: true},
		{name: "a day alone", live: "2026-11-29", at: noon, warning: true},
		{name: "a duration", declared: "2h", at: noon, warning: true},
		{name: "true", live: "true", at: noon, warning: true},
	}
	for _, tt := range tests {
		declared, live := marked(pool, "new", tt.declared), marked(pool, "old", tt.live)
		gone := marked(key("", "ConfigMap", "a", "b"), "x", tt.live)
		policies := ForRun(&v1alpha1.Sync{}, tt.at)
		update := plan.Compute(state.NewSet(declared), state.NewSet(live), policies...)
		remove := plan.Compute(state.NewSet(), state.NewSet(gone, marked(pool, "x", ""), marked(key("", "ConfigMap", "a", "c"), "x", "")), policies...)
		create := plan.Compute(state.NewSet(declared), state.NewSet(), policies...)
		for what, c := range map[string]plan.Change{"update": change(update, pool), "delete": change(remove, gone.Key), "create": change(create, pool)} {
			want := tt.held
			if what == "delete" && !slices.Contains([]string{tt.held, "2026-11-28T19:00:00+01:00"}, tt.live) || what == "create" {
				want = "" // A mark that is declared alone counts for nothing that is to be created.
			}
			if got := c.Hold.Has(hold.HoldUntil); got != (want != "") {
				t.Errorf("%s, %s: held: %v", tt.name, what, got)
			} else if got && (c.Hold[0].Facts.Until != want || c.Hold[0].Facts.Detail != "INC-7" || c.Hold.NeedsConfirmation()) {
				t.Errorf("%s, %s: %+v", tt.name, what, c.Hold)
			}
		}
		warned := slices.ContainsFunc(update.Notes, func(n plan.Note) bool {
			return n.Code == finding.HoldInvalid && n.Severity == finding.Warning && n.Key == pool
		})
		if warned != tt.warning {
			t.Errorf("%s: notes %+v", tt.name, update.Notes)
		}
	}
}

func change(p plan.Plan, k state.Key) plan.Change {
	i := slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Key == k })
	if i < 0 {
		return plan.Change{}
	}
	return p.Changes[i]
}

func TestWhatIsMarkedIsNotDeletedWithItsNamespaceOrItsKind(t *testing.T) {
	const later = "2026-11-28T18:00:00Z"
	inside := key("example.com", "Widget", "team", "b")
	observed := state.NewSet(
		marked(key("example.com", "Widget", "team", "c"), "x", later), marked(inside, "x", later),
		marked(key("", "Namespace", "", "team"), "x", ""), marked(key("", "Namespace", "", "other"), "x", ""),
		marked(key("apiextensions.k8s.io", "CustomResourceDefinition", "", "widgets.example.com"), "x", ""),
		marked(key("apiextensions.k8s.io", "CustomResourceDefinition", "", "gadgets.other.com"), "x", ""),
	)
	p := plan.Compute(state.NewSet(), observed, ForDeletion(&v1alpha1.Sync{}, noon)...)
	got := map[string]string{}
	for _, c := range p.Changes {
		if c.Hold.Has(hold.HoldUntil) {
			got[c.Key.Kind+"/"+c.Key.Name] = c.Hold[0].Facts.Object
		}
	}
	want := map[string]string{"Widget/b": "", "Widget/c": "", "Namespace/team": inside.String(), "CustomResourceDefinition/widgets.example.com": inside.String()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// What has no change of its own counts as well, while its mark lasts.
	foreign := marked(key("", "Namespace", "", "foreign"), "x", "")
	foreign.Marked = map[string]loss.Mark{"ConfigMap/foreign/b": {Until: later, Reason: "INC-8"}, "ConfigMap/foreign/a": {Until: "2026-11-28T11:00:00Z"}, "ConfigMap/foreign/c": {Until: "soon"}}
	for at, want := range map[time.Time]hold.Reasons{
		noon: {{Rule: hold.HoldUntil, Facts: hold.Facts{Object: "ConfigMap/foreign/b", Until: later, Detail: "INC-8"}}}, noon.Add(6 * time.Hour): nil,
	} {
		p := plan.Compute(state.NewSet(), state.NewSet(foreign), ForRun(&v1alpha1.Sync{}, at)...)
		if diff := cmp.Diff(want, change(p, foreign.Key).Hold); diff != "" {
			t.Errorf("at %s: %s", at, diff)
		}
	}
	over := plan.Compute(state.NewSet(), observed, ForDeletion(&v1alpha1.Sync{}, noon.Add(6*time.Hour))...)
	for _, c := range over.Changes {
		if !c.Admitted() {
			t.Errorf("after its end %s is held: %s", c.Key, c.Hold)
		}
	}
}

// A mark must never let pass what waits otherwise: neither while it lasts nor by leaving a change out of a count.
func TestAMarkLetsNothingPass(t *testing.T) {
	var plain, mixed []state.Item
	for i := range 12 {
		k := key("", "ConfigMap", "a", strings.Repeat("x", i+1))
		plain = append(plain, marked(k, "x", ""))
		until := ""
		if i < 6 {
			until = "2026-11-28T18:00:00Z"
		}
		mixed = append(mixed, marked(k, "x", until))
	}
	for name, items := range map[string][]state.Item{"no marks": plain, "half of them marked": mixed} {
		p := plan.Compute(state.NewSet(), state.NewSet(items...), ForRun(&v1alpha1.Sync{}, noon)...)
		for _, c := range p.Changes {
			if c.Admitted() {
				t.Errorf("%s: %s would be deleted", name, c.Key)
			}
		}
	}
	readOnly := marked(key("", "ConfigMap", "a", "b"), "old", "2026-11-28T18:00:00Z")
	readOnly.ReadOnly = "somebody else's"
	p := plan.Compute(state.NewSet(marked(readOnly.Key, "new", "")), state.NewSet(readOnly), ForRun(&v1alpha1.Sync{}, noon)...)
	if c := change(p, readOnly.Key); !c.Hold.Has(hold.ReadOnly) || c.Hold.Has(hold.HoldUntil) {
		t.Errorf("got %+v", c.Hold)
	}
}
