package targets_test

import (
	"context"
	"fmt"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// inMemoryTarget is a Target of objects in memory.
type inMemoryTarget struct{ objects state.Set }

// Desired implements targets.Target: it wants what is declared.
func (m *inMemoryTarget) Desired(_ context.Context, declared state.Set) (state.Set, error) {
	return declared, nil
}

// Observe implements targets.Target.
func (m *inMemoryTarget) Observe(context.Context, state.Set) (state.Set, error) {
	return m.objects, nil
}

// Apply implements targets.Target.
func (m *inMemoryTarget) Apply(_ context.Context, c plan.Change) error {
	var rest []state.Item
	for _, item := range m.objects.Items() {
		if item.Key != c.Key {
			rest = append(rest, item)
		}
	}
	if c.After != nil {
		rest = append(rest, *c.After)
	}
	m.objects = state.NewSet(rest...)
	return nil
}

// A target is asked what it should hold and what it holds, and then makes the changes.
func ExampleTarget() {
	ctx := context.Background()
	var target targets.Target = &inMemoryTarget{}
	declared := state.NewSet(state.Item{Key: state.Key{Target: "memory", Kind: "ConfigMap", Name: "a"}, Object: map[string]any{"data": "x"}})
	for range 2 {
		desired, _ := target.Desired(ctx, declared)
		observed, _ := target.Observe(ctx, desired)
		p := plan.Compute(desired, observed)
		fmt.Println(len(p.Changes), "changes,", p.Unchanged, "unchanged")
		for _, c := range p.Changes {
			fmt.Println(c.Action, c.Key, target.Apply(ctx, c))
		}
	}
	// Output:
	// 1 changes, 0 unchanged
	// create ConfigMap/a <nil>
	// 0 changes, 1 unchanged
}
