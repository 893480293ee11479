package proposal_test

import (
	"fmt"
	"testing"

	"github.com/poolwright/poolwright/reconciler/proposal"
	"github.com/poolwright/poolwright/reconciler/state"
)

// BenchmarkPropose is a pull request that changes a tenth of 2,000 things, merged and
// told.
func BenchmarkPropose(b *testing.B) {
	object := func(image string) m {
		var containers []any
		for i := range 5 {
			containers = append(containers, m{"name": fmt.Sprint("c", i), "image": image, "env": []any{m{"name": "A", "value": "1"}, m{"name": "B", "value": "2"}}})
		}
		return m{"apiVersion": "v1", "metadata": m{"labels": m{"a": "b", "c": "d"}}, "spec": m{"template": m{"spec": m{"containers": containers}}}}
	}
	var mergeBase, head []state.Item
	live := liveTarget{}
	for i := range 2000 {
		name, image := fmt.Sprintf("t%04d", i), "one"
		mergeBase = append(mergeBase, thing(name, object("one")))
		live[name] = ours(object("one"))
		if i%10 == 0 {
			image = "two"
		}
		head = append(head, thing(name, object(image)))
	}
	from, to := set(mergeBase...), set(head...)
	reads := live.sides(from, to)
	for b.Loop() {
		reads.After.Desired, _ = proposal.Merge(from, from, to)
		if p := proposal.Propose(reads); len(p.Proposed.Changes) != 200 {
			b.Fatal(len(p.Proposed.Changes))
		}
	}
}
