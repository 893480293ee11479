package preview

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/validation"
)

// What is refused of each side is refused while the targets expand that side, also of one that
// is merged.
func TestTheClustersOfAStepAreRefusedSideBySide(t *testing.T) {
	cluster := func(retention string) state.Item {
		return state.Item{Key: state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Cluster", Name: "a"}, Version: "v1alpha1",
			Object: map[string]any{"spec": map[string]any{"retention": retention}}}
	}
	refusing := func(item state.Item, message string) checked.Folder {
		l := loaded(item)
		if message != "" {
			l.Clusters = map[state.Key][]state.Problem{item.Key: {{Message: message}}}
		}
		return l
	}
	for name, c := range map[string]struct {
		mergeBase, base, head checked.Folder
		want                  []string
	}{
		"the head brings it":  {refusing(cluster("1h"), ""), refusing(cluster("1h"), ""), refusing(cluster("5s"), "head"), []string{"", "head"}},
		"the head mends it":   {refusing(cluster("5s"), "old"), refusing(cluster("5s"), "old"), refusing(cluster("1h"), ""), []string{"old", ""}},
		"the base brought it": {refusing(cluster("1h"), ""), refusing(cluster("5s"), "base"), refusing(cluster("1h"), ""), []string{"base", "base"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := steps{mergeBase: c.mergeBase, base: c.base, head: c.head}.proposer()
			requested := &refusals{admitted: p.SchemaErrors}
			p.Targets = []reconciler.NamedTarget{{Name: "aws", Target: requested}}
			sync := &v1alpha1.Sync{}
			sync.Spec.Prune = new(true)
			if _, _, err := p.Preview(t.Context(), RevisionRange{Comparison: between(), BaseName: "main", Path: "p", Sync: sync}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, requested.got); diff != "" {
				t.Errorf("the worlds were told (-want +got):\n%s", diff)
			}
		})
	}
}

// refusals is a world that asks what is refused of the Cluster it is given.
type refusals struct {
	fixedTarget
	admitted *validation.Errors
	got      []string
}

func (r *refusals) Desired(_ context.Context, declared state.Set) (state.Set, error) {
	for _, item := range declared.Items() {
		message := ""
		for _, o := range r.admitted.Of(item) {
			message += o.Message
		}
		r.got = append(r.got, message)
	}
	return declared, nil
}
