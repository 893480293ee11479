package plan_test

import (
	"fmt"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// A plan lists the changes by which the observed objects become the desired ones. A policy
// such as NoPrune leaves some of them out, or holds them.
func ExampleCompute() {
	pool := func(name string, weight int64) state.Item {
		return state.Item{
			Key:    state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: name},
			Object: map[string]any{"spec": map[string]any{"weight": weight}},
		}
	}
	desired := state.NewSet(pool("cpu", 1), pool("gpu", 20))
	observed := state.NewSet(pool("gpu", 10), pool("old", 1))
	for _, c := range plan.Compute(desired, observed, plan.NoPrune()).Changes {
		fmt.Println(c.Action, c.Key.Name)
		for _, f := range c.Fields {
			fmt.Println(" ", f.Path, f.Before, "→", f.After)
		}
	}
	// Output:
	// create cpu
	// update gpu
	//   spec.weight 10 → 20
}
