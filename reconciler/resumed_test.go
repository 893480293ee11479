package reconciler_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/state"
)

// keeping is a source that has earlier revisions.
type keeping struct {
	source
	has []string
}

func (k *keeping) Earlier(_ context.Context, revision, _ string) (gitsource.Snapshot, bool) {
	for _, r := range k.has {
		if r == revision {
			return gitsource.Snapshot{Revision: r}, true
		}
	}
	return gitsource.Snapshot{}, false
}

// recorded is a target that knows what was applied, over restarts.
type recorded struct {
	fakeTarget
	applied map[string]string
}

func (r *recorded) Observe(ctx context.Context, desired state.Set) (state.Set, error) {
	all, err := r.fakeTarget.Observe(ctx, desired)
	r.mu.Lock()
	defer r.mu.Unlock()
	observed := map[string]bool{}
	items := all.Items()
	for i := range items {
		observed[items[i].Key.Name] = true
		if value, ok := r.applied[items[i].Key.Name]; ok {
			items[i].Applied = state.Hash(item("", value).Object)
		}
	}
	for name, value := range r.applied {
		if !observed[name] {
			items = append(items, state.Item{Key: key(name), Applied: state.Hash(item("", value).Object)})
		}
	}
	return state.NewSet(items...), err
}

func (r *recorded) ObserveOnly(ctx context.Context, desired state.Set) (state.Set, error) {
	all, err := r.Observe(ctx, desired)
	var keys []state.Key
	for _, i := range desired.Items() {
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
		return reconciler.NewLoop(s, revs.load, reconciler.NamedTarget{Name: "memory", Target: w}).ResumesFrom(applied, "")
	}
	for _, applied := range []string{"", "r0", "r2"} {
		if _, err := start(applied).RunOnce(t.Context(), reconciler.Options{}); err == nil || len(w.writes) > 0 {
			t.Fatalf("applied %q: %v, %v", applied, err, w.writes)
		}
	}
	loop := start("r1")
	result, err := loop.RunOnce(t.Context(), reconciler.Options{})
	if err != nil || result.SourceError == nil || result.Revision != "r1" || result.AttemptedRevision != "r2" || !result.OnlyDrift {
		t.Fatalf("RunOnce = %q after %q, stale %v, %v; want r1 after r2, stale, no error", result.Revision, result.AttemptedRevision, result.SourceError, err)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "partly": "2", "old": "1"}, w.objects); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	w.objects["a"], w.writes = "edited", nil
	delete(w.objects, "never")
	if _, err := loop.CorrectDrift(t.Context(), []state.Key{key("a"), key("never"), key("partly")}, reconciler.Options{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"update a"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	// Somebody takes the change back: now it is applied as a whole.
	s.revision = "r1"
	if result, err = loop.RunOnce(t.Context(), reconciler.Options{}); err != nil || result.SourceError != nil || result.OnlyDrift {
		t.Fatal(result.SourceError, result.OnlyDrift, err)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "gone": "1", "partly": "1", "never": "1"}, w.objects); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// What the revision of an earlier process declares, and a later one asked to delete, is not
// desired again: how far its deletion was allowed stays recorded. A revision that is too large to
// be kept between runs is asked for anew.
func TestWhatALaterRevisionBeganToDeleteIsNotDesiredAgainAfterARestart(t *testing.T) {
	for name, c := range map[string]struct {
		head string
		err  error
		kept int64
		want []string
	}{
		"the newest cannot be loaded":                   {"r2", nil, 1 << 30, []string{"b"}},
		"nor is the last applied one kept between runs": {"r2", nil, 0, []string{"b"}},
		"the newest is what it applied":                 {"r1", nil, 1 << 30, []string{"a", "b"}},
		"it is unknown what it began to delete":         {"r2", errors.New("forbidden"), 1 << 30, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := &allowing{fakeTarget: fakeTarget{objects: map[string]string{"a": "1", "b": "1"}}, deleting: []string{"a"}, err: c.err}
			s := &keeping{source: source{revision: c.head}, has: []string{"r1"}}
			loop := reconciler.NewLoop(s, revisions{"r1": things("a", "1", "b", "1")}.load, reconciler.NamedTarget{Name: "memory", Target: w}).
				WithRevisionCache(reconciler.NewRevisionCache(c.kept, 1<<30)).ResumesFrom("r1", "")
			if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, w.desired); diff != "" {
				t.Errorf("a run (-want +got):\n%s", diff)
			}
			if c.err != nil {
				return
			}
			w.desired = nil
			if _, err := loop.CorrectDrift(t.Context(), []state.Key{key("a"), key("b")}, reconciler.Options{}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, w.desired); diff != "" {
				t.Errorf("a correction (-want +got):\n%s", diff)
			}
		})
	}
}

// What an earlier process applied last is loaded with the variables' values of now, as often as
// they change. A revision that this process has loaded is no such thing: what was applied before
// it is not gone back to.
func TestOtherVariablesLoadTheLastAppliedRevisionAgain(t *testing.T) {
	for name, c := range map[string]struct {
		// loadable is the head that this process loads first; none where it is empty.
		loadable string
		want     map[string]string
	}{
		"while no newer one could be loaded": {"", map[string]string{"fixed": "r1", "variable": "by hand"}},
		"after a newer one was loaded":       {"r2", map[string]string{"fixed": "by hand", "variable": "by hand"}},
	} {
		t.Run(name, func(t *testing.T) {
			value, loaded := "1", []string{}
			load := func(_ context.Context, s gitsource.Snapshot) (declared.Declared, error) {
				if s.Revision != "r1" && s.Revision != c.loadable {
					return declared.Declared{}, state.Failf(state.Stalled, "PathNotFound", "no such folder in %s", s.Revision)
				}
				loaded = append(loaded, s.Revision+" with "+value)
				return things("fixed", s.Revision, "variable", s.Revision+" with "+value), nil
			}
			w := &recorded{applied: map[string]string{"fixed": "r1", "variable": "r1 with 1"}}
			w.objects = map[string]string{"fixed": "r1", "variable": "r1 with 1"}
			s := &keeping{source: source{revision: "r2"}, has: []string{"r1"}}
			loop := reconciler.NewLoop(s, load, reconciler.NamedTarget{Name: "memory", Target: w}).ResumesFrom("r1", "").
				WithInputs(func(context.Context) (string, reconciler.Loader, error) { return value, nil, nil })
			if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
				t.Fatal(err)
			}
			value, s.revision, loaded = "2", "r3", nil
			w.objects["fixed"], w.objects["variable"] = "by hand", "by hand"
			result, err := loop.RunOnce(t.Context(), reconciler.Options{})
			if c.loadable != "" {
				if err == nil || len(loaded) > 0 {
					t.Errorf("RunOnce = %+v, %v after loading %q; want an error and nothing loaded", result, err, loaded)
				}
			} else if err != nil || result.Revision != "r1" || result.SourceError == nil || !slices.Equal(loaded, []string{"r1 with 2"}) {
				t.Errorf("RunOnce = %q, stale %v, %v after loading %q; want r1, stale, loaded with 2", result.Revision, result.SourceError, err, loaded)
			}
			if diff := cmp.Diff(c.want, w.objects); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			loaded = nil
			if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); (err == nil) != (c.loadable == "") || len(loaded) > 0 {
				t.Errorf("with the same variables %q are loaded again, %v", loaded, err)
			}
		})
	}
}
