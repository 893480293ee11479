package reconciler_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/state"
)

// keeping is a source that has earlier revisions.
type keeping struct {
	source
	has []string
}

func (k *keeping) Earlier(_ context.Context, revision string) (gitsource.Snapshot, bool) {
	for _, r := range k.has {
		if r == revision {
			return gitsource.Snapshot{Revision: r}, true
		}
	}
	return gitsource.Snapshot{}, false
}

// recorded is a world that knows what was applied, over restarts.
type recorded struct {
	world
	applied map[string]string
}

func (r *recorded) Observe(ctx context.Context, wanted state.Set) (state.Set, error) {
	all, err := r.world.Observe(ctx, wanted)
	seen := map[string]bool{}
	items := all.Items()
	for i := range items {
		seen[items[i].Key.Name] = true
		if value, ok := r.applied[items[i].Key.Name]; ok {
			items[i].Applied = state.Hash(item("", value).Object)
		}
	}
	for name, value := range r.applied {
		if !seen[name] {
			items = append(items, state.Item{Key: key(name), Applied: state.Hash(item("", value).Object)})
		}
	}
	return state.NewSet(items...), err
}

func (r *recorded) ObserveOnly(ctx context.Context, wanted state.Set) (state.Set, error) {
	all, err := r.Observe(ctx, wanted)
	var keys []state.Key
	for _, i := range wanted.Items() {
		keys = append(keys, i.Key)
	}
	return all.Only(keys), err
}

// A new process that cannot load the newest revision puts back what the one before had applied,
// and does nothing else: what is gone may have been deleted as a later revision wants it.
func TestDriftOfTheLastAppliedRevisionIsCorrectedAfterARestart(t *testing.T) {
	w := &recorded{applied: map[string]string{"a": "1", "gone": "1", "partly": "2"}}
	w.objects = map[string]string{"a": "edited", "partly": "2", "old": "1"}
	s := &keeping{source: source{revision: "r2"}, has: []string{"r1"}}
	revs := revisions{"r1": things("a", "1", "gone", "1", "partly", "1", "never", "1")}
	start := func(applied string) *reconciler.Loop {
		return reconciler.NewLoop(s, revs.load, reconciler.World{Name: "memory", Target: w}).ResumesFrom(applied)
	}
	for _, applied := range []string{"", "r0", "r2"} {
		if _, err := start(applied).RunOnce(t.Context(), reconciler.Options{}); err == nil || len(w.writes) > 0 {
			t.Fatalf("applied %q: %v, %v", applied, err, w.writes)
		}
	}
	loop := start("r1")
	result, err := loop.RunOnce(t.Context(), reconciler.Options{})
	if err != nil || result.Stale == nil || result.Revision != "r1" || result.Attempted != "r2" {
		t.Fatalf("RunOnce = %q after %q, stale %v, %v; want r1 after r2, stale, no error", result.Revision, result.Attempted, result.Stale, err)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "partly": "2", "old": "1"}, w.objects); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	w.objects["a"], w.writes = "edited", nil
	delete(w.objects, "never")
	if _, err := loop.Correct(t.Context(), []state.Key{key("a"), key("never"), key("partly")}, reconciler.Options{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"update a"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	// Somebody takes the change back: now it is applied as a whole.
	s.revision = "r1"
	if result, err = loop.RunOnce(t.Context(), reconciler.Options{}); err != nil || result.Stale != nil {
		t.Fatal(result.Stale, err)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "gone": "1", "partly": "1", "never": "1"}, w.objects); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// What the revision of an earlier process declares is not wanted again: a later one may have
// deleted it, and how far that was allowed stays recorded.
func TestARunFromTheLastAppliedRevisionWithdrawsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		head string
		want []string
	}{
		"the newest cannot be loaded":   {"r2", []string{"observe"}},
		"the newest is what it applied": {"r1", []string{"observe", "withdraw"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &allowing{world: world{objects: map[string]string{"a": "1"}}}
			s := &keeping{source: source{revision: c.head}, has: []string{"r1"}}
			loop := reconciler.NewLoop(s, revisions{"r1": things("a", "1")}.load, reconciler.World{Name: "memory", Target: w}).ResumesFrom("r1")
			if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, w.order); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
