package wire

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// stillWorld wants what is declared, and shows always the same.
type stillWorld struct{ live state.Set }

func (w stillWorld) Want(_ context.Context, declared state.Set) (state.Set, error) {
	return declared, nil
}
func (w stillWorld) Observe(context.Context, state.Set) (state.Set, error) { return w.live, nil }
func (w stillWorld) Correct(context.Context, plan.Change) error            { return nil }

// poolItem is a pool as a revision declares it.
func poolItem(name string, weight int64) state.Item {
	return state.Item{
		Key: state.Key{Target: "cluster", Group: "karpenter.sh", Kind: "NodePool", Name: name}, Version: "v1",
		Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": name}, "spec": map[string]any{"weight": weight}},
	}
}

// seen are items as a world shows what we applied, with nodes that would go with them.
func seen(items ...state.Item) state.Set {
	items = slices.Clone(items)
	for i := range items {
		items[i].Applied = state.Hash(items[i].Object)
		items[i].Live = state.Identity{UID: "u" + items[i].Key.Name}
		items[i].Grave = "3 nodes, 7 pods"
	}
	return state.NewSet(items...)
}

// steps are three revisions that children rendered already, and the world that they
// are told for.
type steps struct {
	parted, base, head child.Loaded
	live               state.Set
	foresee            foresight
	sync               v1alpha1.SyncSpec
	// folders are the files of base, parted and head.
	folders [3]contents
}

func loaded(items ...state.Item) child.Loaded { return child.Loaded{Set: state.NewSet(items...)} }

func (s steps) proposer() *proposer {
	if s.foresee == nil {
		s.foresee = func(context.Context, change) (*provision.Forecast, error) { return &provision.Forecast{}, nil }
	}
	return &proposer{
		seen: &sighting{}, children: &child.Runner{}, now: time.Now, foresee: s.foresee, worlds: []reconciler.World{{Name: "cluster", Target: stillWorld{s.live}}},
		renders: &renders{kept: []rendered{
			{tree: "base", path: "p", loaded: s.base, folder: s.folders[0]}, {tree: "parted", path: "p", loaded: s.parted, folder: s.folders[1]}, {tree: "head", path: "p", loaded: s.head, folder: s.folders[2]},
		}},
	}
}

// between is what Git knows of the three revisions.
func between() gogit.Comparison {
	return gogit.Comparison{
		Base: gitsource.Snapshot{TreeID: "base", Commit: "b"}, Head: gitsource.Snapshot{TreeID: "head", Commit: "h"}, Parted: gitsource.Snapshot{TreeID: "parted", Commit: "p"},
	}
}

func (s steps) tell(t *testing.T) review {
	t.Helper()
	sync := &v1alpha1.Sync{Spec: s.sync}
	if sync.Spec.Prune == nil {
		sync.Spec.Prune = new(true)
	}
	if sync.Spec.Guard.MaxPrunePercent == nil {
		sync.Spec.Guard.MaxPrunePercent = new(int32(50))
	}
	out, err := s.proposer().tell(t.Context(), proposal{Comparison: between(), base: "main", path: "p", sync: sync})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatAReviewIsToldOfNodes(t *testing.T) {
	lost := &provision.Forecast{Replaced: []provision.Node{{NodeClaim: "a-1", Pool: "a"}}}
	always := func(f *provision.Forecast, err error) foresight {
		return func(context.Context, change) (*provision.Forecast, error) { return f, err }
	}
	tests := map[string]struct {
		head    child.Loaded
		foresee foresight
		want    *v1alpha1.ReviewedConsequences
	}{
		"is nothing where a pool changes and the forecast failed": {loaded(poolItem("a", 2)), always(nil, errors.New("the child died")), nil},
		"is nothing where a pool changes and no Cluster is known": {loaded(poolItem("a", 2)), always(nil, nil), nil},
		"is that no pool changes where none does, whatever the forecast says": {
			loaded(poolItem("a", 1)), always(nil, errors.New("the child died")), &v1alpha1.ReviewedConsequences{},
		},
		"is what the forecast says": {loaded(poolItem("a", 2)), always(lost, nil), &v1alpha1.ReviewedConsequences{
			Changes: []string{plan.Change{Key: poolItem("a", 2).Key, After: new(poolItem("a", 2))}.Fingerprint()}, NodesReplaced: 1,
			Pools: []v1alpha1.ReviewedPool{{Name: "a", Nodes: 1}},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			was := loaded(poolItem("a", 1))
			out := steps{parted: was, base: was, head: tt.head, live: seen(poolItem("a", 1)), foresee: tt.foresee}.tell(t)
			if diff := cmp.Diff(tt.want, out.reviewed); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
