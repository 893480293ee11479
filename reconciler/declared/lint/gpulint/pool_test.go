package gpulint

import (
	"fmt"
	"testing"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/state"
)

// A type has hundreds of bytes, and there are a thousand types: thousands of pools of which each
// has its own copy of all are gigabytes.
func TestPoolsShareTheTypesThatTheyMayHave(t *testing.T) {
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	var items []state.Item
	for i := range 2 {
		items = append(items, state.Item{Key: state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: fmt.Sprint(i)}, Version: "v1",
			Object: map[string]any{"spec": map[string]any{}}})
	}
	c := readRepository(declared.Declared{Set: state.NewSet(items...)}, types)
	if len(c.pools) != 2 || len(c.pools[0].types) == 0 || len(c.pools[0].gpus) == 0 {
		t.Fatalf("there are %d pools", len(c.pools))
	}
	for i, one := range c.pools[0].types {
		if other := c.pools[1].types[i]; one.InstanceType != other.InstanceType {
			t.Fatalf("%s is there twice", one.Name)
		}
	}
}
