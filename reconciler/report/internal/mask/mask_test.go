package mask

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
)

type object = map[string]any

// updated is a change of one thing from one content to another.
func updated(kind string, before, after object) plan.Change {
	item := func(content object) *state.Item {
		return &state.Item{Key: state.Key{Target: "kubernetes", Kind: kind, Name: "x"}, Object: content}
	}
	return plan.Change{Key: state.Key{Target: "kubernetes", Kind: kind, Name: "x"}, Action: plan.Update, Before: item(before), After: item(after)}
}

func TestADifferenceOfSecretsIsShownWithoutThem(t *testing.T) {
	tests := []struct {
		name          string
		kind          string
		before, after object
		want          []Field
	}{
		{"a secret that changes", "Secret", object{"data": object{"a": "b25lLW9uZQ=="}}, object{"data": object{"a": "dHdvLXR3bw=="}}, []Field{{Path: "data.a", Masked: "changed"}}},
		{"one that is added", "Secret", object{"data": object{}}, object{"stringData": object{"a": "hunter2"}, "data": object{}}, []Field{{Path: "stringData.a", Masked: "added"}}},
		{"one that is removed", "Secret", object{"data": object{"a": "b25lLW9uZQ=="}}, object{"data": nil}, []Field{{Path: "data", Before: object{"a": "(masked)"}}}},
		{"one that stays", "Secret", object{"data": object{"a": "b25lLW9uZQ=="}, "type": "a"}, object{"data": object{"a": "b25lLW9uZQ=="}, "type": "b"}, []Field{{Path: "type", Before: "a", After: "b"}}},
		{"a Secret within another object", "Bundle", object{"item": object{"kind": "Secret", "data": object{"a": "1"}}}, object{"item": object{"kind": "Secret", "data": object{"a": "2"}}}, []Field{{Path: "item.data.a", Masked: "changed"}}},
		{"user data", "EC2NodeClass", object{"spec": object{"userData": "a"}}, object{"spec": object{"userData": "b"}}, []Field{{Path: "spec.userData", Masked: "changed"}}},
		{"a token by its name", "Custom", object{"bearerToken": "a", "tokenTTL": "1h"}, object{"bearerToken": "b", "tokenTTL": "2h"}, []Field{{Path: "bearerToken", Masked: "changed"}, {Path: "tokenTTL", Before: "1h", After: "2h"}}},
		{"a variable that is a token", "Pod", object{"env": []any{object{"name": "HF_TOKEN", "value": "a"}}}, object{"env": []any{object{"name": "HF_TOKEN", "value": "b"}}}, []Field{{Path: "env[name=HF_TOKEN].value", Masked: "changed"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := updated(tt.kind, tt.before, tt.after)
			if d := cmp.Diff(tt.want, New(plan.Plan{Changes: []plan.Change{c}}).Diff(c)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestATextLosesTheSecretsOfTheObjects(t *testing.T) {
	c := updated("Secret", object{"stringData": object{"a": "hunter2", "b": "ter2-and-more", "short": "abc"}}, object{"data": object{"c": "b25lLW9uZQ=="}})
	m := New(plan.Plan{Changes: []plan.Change{c}})
	for in, want := range map[string]string{
		"Invalid value: hunter2":          "Invalid value: (masked)",
		"it decodes to one-one":           "it decodes to (masked)",
		"both, hunter2-and-more, overlap": "both, (masked), overlap",
		"abc is too short to be found":    "abc is too short to be found",
		"nothing of them":                 "nothing of them",
	} {
		if got := m.Text(in); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

func TestWhoseTheFieldsAreIsMaskedLikeAText(t *testing.T) {
	c := updated("Secret", object{"stringData": object{"a": "hunter2"}}, object{"stringData": object{"a": "hunter2"}})
	c.Before.Ownership = &owner.Fields{Unclaimed: []string{"spec.hunter2"}}
	want := []Field{{Path: "metadata.managedFields", Before: "not yet owned by Poolwright: spec.(masked)"}}
	if d := cmp.Diff(want, New(plan.Plan{Changes: []plan.Change{c}}).Diff(c)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestAnObjectIsShownWithAllThatIsNoSecret(t *testing.T) {
	in := object{"kind": "Secret", "metadata": object{"name": "git", "annotations": object{"note": "hunter2"}}, "stringData": object{"password": "hunter2"}}
	item := &state.Item{Key: state.Key{Kind: "Secret"}, Object: in}
	want := object{"kind": "Secret", "metadata": object{"name": "git", "annotations": object{"note": "(masked)"}}, "stringData": object{"password": "(masked)"}}
	if d := cmp.Diff(want, New().Object(item)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if got := New().Object(nil); len(got) > 0 {
		t.Errorf("of nothing: %v", got)
	}
	if !strings.Contains(in["stringData"].(object)["password"].(string), "hunter2") {
		t.Error("the object itself has changed")
	}
}
