package state_test

import (
	"fmt"

	"github.com/poolwright/poolwright/reconciler/state"
)

// Of two items with one key a set holds the last.
func ExampleNewSet() {
	key := state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: "gpu"}
	set := state.NewSet(
		state.Item{Key: key, Origin: state.Origin{File: "base/gpu.yaml", Line: 3}},
		state.Item{Key: key, Origin: state.Origin{File: "dev/gpu.yaml", Line: 9}},
	)
	for _, item := range set.Items() {
		fmt.Println(item.Key, item.Origin)
	}
	// Output: NodePool.karpenter.sh/gpu dev/gpu.yaml:9
}
