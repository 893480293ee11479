package manifest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/state"
)

func TestAMarkIsReadFromTheAnnotationsOfAnObject(t *testing.T) {
	const until, reason = "poolwright.dev/hold-until", "poolwright.dev/hold-reason"
	for name, tt := range map[string]struct {
		annotations map[string]any
		want        state.CorrectionPolicy
	}{
		"none":            {nil, state.CorrectionPolicy{}},
		"others":          {map[string]any{"a": "b"}, state.CorrectionPolicy{}},
		"a reason alone":  {map[string]any{reason: "INC-7"}, state.CorrectionPolicy{}},
		"an empty time":   {map[string]any{until: "", reason: "INC-7"}, state.CorrectionPolicy{HoldUntil: "(empty)", HoldReason: "INC-7"}},
		"a time":          {map[string]any{until: "2026-11-28T18:00:00Z"}, state.CorrectionPolicy{HoldUntil: "2026-11-28T18:00:00Z"}},
		"with its reason": {map[string]any{until: "soon", reason: "INC-7"}, state.CorrectionPolicy{HoldUntil: "soon", HoldReason: "INC-7"}},
	} {
		live := map[string]string{}
		for k, v := range tt.annotations {
			live[k] = v.(string)
		}
		if diff := cmp.Diff(tt.want, Hold(live)); diff != "" {
			t.Errorf("%s, live: %s", name, diff)
		}
		var declared state.CorrectionPolicy
		declared.HoldUntil, declared.HoldReason = DeclaredHold(map[string]any{"metadata": map[string]any{"annotations": tt.annotations}})
		if diff := cmp.Diff(tt.want, declared); diff != "" {
			t.Errorf("%s, declared: %s", name, diff)
		}
	}
	if u, r := DeclaredHold(map[string]any{"metadata": map[string]any{"annotations": map[string]any{until: 7}}}); u != "" || r != "" {
		t.Errorf("a number is a mark: %q, %q", u, r)
	}
}
