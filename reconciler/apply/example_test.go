package apply_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// refusing is a Target that takes every object but one.
type refusing struct{ name string }

// Desired implements targets.Target.
func (r refusing) Desired(_ context.Context, declared state.Set) (state.Set, error) {
	return declared, nil
}

// Observe implements targets.Target.
func (r refusing) Observe(context.Context, state.Set) (state.Set, error) { return state.Set{}, nil }

// Apply implements targets.Target.
func (r refusing) Apply(_ context.Context, c plan.Change) error {
	if c.Key.Name == r.name {
		return errors.New("admission webhook denied the request")
	}
	return nil
}

// An object that is refused does not stop the others.
func ExampleRun() {
	item := func(name string) state.Item {
		return state.Item{Key: state.Key{Target: "kubernetes", Kind: "ConfigMap", Name: name}, Object: map[string]any{}}
	}
	p := plan.Compute(state.NewSet(item("a"), item("b"), item("c")), state.Set{})
	outcome := apply.Run(context.Background(), p, map[string]targets.Target{"kubernetes": refusing{"b"}}, apply.Options{})
	for _, r := range outcome.Results {
		fmt.Println(r.Change.Key.Name, r.Status)
	}
	// Output:
	// a applied
	// b failed
	// c applied
}
