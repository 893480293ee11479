package preview

import (
	"context"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// countingTarget counts what a world is asked.
type countingTarget struct {
	fixedTarget
	count *int
}

func (a countingTarget) Desired(ctx context.Context, declared state.Set) (state.Set, error) {
	*a.count++
	return a.fixedTarget.Desired(ctx, declared)
}

func TestAStepThatChangesTooMuchIsRefusedBeforeAnyTargetIsRead(t *testing.T) {
	was := loaded(poolItem("a", 1), poolItem("b", 1), poolItem("stays", 1))
	is := loaded(poolItem("a", 2), poolItem("c", 1), poolItem("d", 1), poolItem("stays", 1)) // 1 changed, 2 new, 1 gone
	for most, refused := range map[int]bool{0: false, 3: true, 4: false} {
		p, count := steps{mergeBase: was, base: was, head: is, live: liveItems(was.Set.Items()...)}.proposer(), 0
		p.MaxChanges, p.Targets = most, []reconciler.NamedTarget{{Name: "kubernetes", Target: countingTarget{fixedTarget{liveItems(was.Set.Items()...)}, &count}}}
		sync := &v1alpha1.Sync{}
		sync.Spec.Prune = new(true)
		_, _, err := p.Preview(t.Context(), RevisionRange{Comparison: between(), BaseName: "main", Path: "p", Sync: sync})
		class, reason, _ := state.Classify(err)
		switch {
		case !refused && err != nil:
			t.Errorf("at most %d: %v", most, err)
		case refused && (class != state.Stalled || reason != "TooLarge" || count > 0):
			t.Errorf("at most %d: %v, after %d questions", most, err, count)
		}
	}
}

func TestOfWhatManyHeadsNeedLittleIsCached(t *testing.T) {
	g := &cachedTarget{Target: fixedTarget{}, maxAge: 1 << 40, observedAt: &ObservedAt{}, now: time.Now}
	for n := range int64(100) {
		if _, err := g.Observe(t.Context(), state.NewSet(poolItem("a", n))); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.observations) != maxObservations {
		t.Errorf("%d observations are remembered", len(g.observations))
	}
}
