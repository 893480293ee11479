package plan_test

import (
	"testing"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestAChangeThatMakesLessOfSomethingHasAnotherPlaceInTheOrder(t *testing.T) {
	capacity := func(pairs ...any) *state.Item {
		numbers := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			numbers[pairs[i].(string)] = pairs[i+1]
		}
		return &state.Item{Wave: 2, CorrectionPolicy: state.CorrectionPolicy{OnDecrease: &state.WaveOnDecrease{Field: []string{"spec", "capacity"}, Wave: 1}},
			Object: map[string]any{"spec": map[string]any{"capacity": numbers}}}
	}
	for name, c := range map[string]struct {
		before, after *state.Item
		want          int
	}{
		"a number grows":                    {capacity("a", "4"), capacity("a", "40"), 2},
		"a number shrinks":                  {capacity("a", "40"), capacity("a", "4"), 1},
		"one grows and another shrinks":     {capacity("a", "4", "b", int64(8)), capacity("a", "5", "b", int64(7)), 1},
		"nothing changes there":             {capacity("a", "4"), capacity("a", "4"), 2},
		"a number comes":                    {capacity(), capacity("a", "4"), 2},
		"a number goes":                     {capacity("a", "4"), capacity(), 2},
		"it was no number":                  {capacity("a", "many"), capacity("a", "4"), 2},
		"it is created":                     {nil, capacity("a", "4"), 2},
		"it was no map":                     {&state.Item{Object: map[string]any{"spec": "x"}}, capacity("a", "4"), 2},
		"it is deleted":                     {capacity("a", "4"), nil, 2},
		"it has no other place":             {capacity("a", "40"), &state.Item{Wave: 3, Object: capacity("a", "4").Object}, 3},
		"a field that is not declared goes": {capacity("a", "4", "b", "1"), capacity("a", "4"), 2},
	} {
		if got := (plan.Change{Before: c.before, After: c.after}).Wave(); got != c.want {
			t.Errorf("%s: wave %d, want %d", name, got, c.want)
		}
	}
}
