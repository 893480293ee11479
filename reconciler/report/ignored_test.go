package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// ignoring is a plan in which a Deployment has other replicas than are declared.
func ignoring(live int64) plan.Plan {
	of := func(replicas int64) state.Item {
		return item("kubernetes", "apps", "Deployment", "web", "web.yaml", 3, object{"spec": object{"replicas": replicas, "paused": true}})
	}
	return plan.Plan{Ignored: []plan.IgnoredFields{{Live: of(live), Declared: of(2)}}}
}

func TestIgnoredFieldsAreShown(t *testing.T) {
	r := New(ignoring(5), nil)
	want := []Ignored{{
		Object: Object{Target: "kubernetes", Group: "apps", Kind: "Deployment", Namespace: r.Ignored[0].Namespace, Name: "web"},
		File:   "web.yaml", Line: 3, Fields: []Field{{Path: "spec.replicas", Before: int64(5), After: int64(2)}},
	}}
	if d := cmp.Diff(want, r.Ignored); d != "" {
		t.Error(d)
	}
	if !r.Empty() {
		t.Error("what is ignored counts as a difference")
	}
	for name, text := range map[string]string{"text": render(t, func(b *bytes.Buffer) error { return r.Text(b, Options{}) }), "markdown": render(t, func(b *bytes.Buffer) error { return r.Markdown(b, Options{}) })} {
		if !strings.Contains(text, "spec.replicas: 5 → 2") || !strings.Contains(text, "web.yaml:3") {
			t.Errorf("%s lacks it:\n%s", name, text)
		}
	}
	if none := New(plan.Plan{}, nil); none.Ignored != nil || strings.Contains(render(t, func(b *bytes.Buffer) error { return none.Text(b, Options{}) }), "Ignored") {
		t.Error("a section of nothing")
	}
}

func TestALiveValueThatMovesIsNoOtherComment(t *testing.T) {
	content := func(live, declared int64) string {
		p := ignoring(live)
		p.Ignored[0].Declared.Object["spec"].(object)["replicas"] = declared
		return NewProposal(plan.Proposal{Proposed: p}, nil, nil).Content()
	}
	if content(5, 2) != content(6, 2) {
		t.Error("a live value makes another comment")
	}
	if content(5, 2) == content(5, 3) {
		t.Error("a declared value makes none")
	}
}

func TestATextThatQuotesASecretOfAnIgnoredFieldIsMasked(t *testing.T) {
	of := func(token string) state.Item {
		return item("kubernetes", "", "Custom", "web", "web.yaml", 3, object{"spec": object{"bearerToken": token}})
	}
	p := plan.Plan{Ignored: []plan.IgnoredFields{{Live: of("correct-horse"), Declared: of("battery-staple")}}}
	text := render(t, func(b *bytes.Buffer) error {
		return New(p, []state.Problem{{Message: "neither correct-horse nor battery-staple"}}).JSON(b)
	})
	if strings.Contains(text, "horse") || strings.Contains(text, "staple") || !strings.Contains(text, `"masked": "changed"`) {
		t.Error(text)
	}
}
