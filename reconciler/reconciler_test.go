package reconciler_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// target is an in-memory Target that owns everything in it.
type fakeTarget struct {
	mu       sync.Mutex
	objects  map[string]string
	writes   []string
	problems []state.Problem
	observe  error
}

func key(name string) state.Key { return state.Key{Target: "memory", Kind: "Thing", Name: name} }

func item(name, value string) state.Item {
	return state.Item{Key: key(name), Object: map[string]any{"value": value}}
}

func (w *fakeTarget) Desired(_ context.Context, d state.Set) (state.Set, error) {
	if len(w.problems) > 0 {
		return d, &targets.ProblemsError{Problems: w.problems}
	}
	return d, nil
}

func (w *fakeTarget) Observe(context.Context, state.Set) (state.Set, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.observe != nil {
		return state.Set{}, w.observe
	}
	var items []state.Item
	for name, value := range w.objects {
		items = append(items, item(name, value))
	}
	return state.NewSet(items...), nil
}

func (w *fakeTarget) ObserveOnly(ctx context.Context, desired state.Set) (state.Set, error) {
	all, err := w.Observe(ctx, desired)
	var keys []state.Key
	for _, i := range desired.Items() {
		keys = append(keys, i.Key)
	}
	return all.Only(keys), err
}

func (w *fakeTarget) Apply(_ context.Context, c plan.Change) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, string(c.Action)+" "+c.Key.Name)
	if c.Action == plan.Delete {
		delete(w.objects, c.Key.Name)
		return nil
	}
	w.objects[c.Key.Name] = c.After.Object["value"].(string)
	return nil
}

// source serves revisions, or fails.
type source struct {
	revision string
	err      error
	last     string
}

func (s *source) Fetch(context.Context) (gitsource.Snapshot, error) {
	return gitsource.Snapshot{Revision: s.revision}, s.err
}

func (s *source) Last(context.Context) (gitsource.Snapshot, bool) {
	return gitsource.Snapshot{Revision: s.last}, s.last != ""
}

// revisions is what each revision declares.
type revisions map[string]declared.Declared

func (r revisions) load(_ context.Context, s gitsource.Snapshot) (declared.Declared, error) {
	d, ok := r[s.Revision]
	if !ok {
		return d, state.Failf(state.Stalled, "PathNotFound", "no such folder in %s", s.Revision)
	}
	return d, nil
}

func things(pairs ...string) declared.Declared {
	var items []state.Item
	for i := 0; i < len(pairs); i += 2 {
		items = append(items, item(pairs[i], pairs[i+1]))
	}
	return declared.Declared{Set: state.NewSet(items...)}
}

func broken(d declared.Declared) declared.Declared {
	d.Problems = []state.Problem{{Origin: state.Origin{File: "b.yaml", Line: 3}, Message: "not YAML"}}
	return d
}

func TestRunOnce(t *testing.T) {
	down := errors.New("connection refused")
	for name, c := range map[string]struct {
		live     map[string]string
		source   source
		revs     revisions
		problems []state.Problem
		observe  error
		want     map[string]string
		wantErr  bool
		stale    bool
	}{
		"a first revision creates, updates and deletes": {
			live:   map[string]string{"old": "1", "kept": "1"},
			source: source{revision: "r1"},
			revs:   revisions{"r1": things("kept", "2", "new", "1")},
			want:   map[string]string{"kept": "2", "new": "1"},
		},
		"a broken file stops deletions and nothing else": {
			live:   map[string]string{"old": "1"},
			source: source{revision: "r1"},
			revs:   revisions{"r1": broken(things("new", "1"))},
			want:   map[string]string{"old": "1", "new": "1"},
		},
		"a problem that only the target finds stops deletions too": {
			live:     map[string]string{"old": "1"},
			source:   source{revision: "r1"},
			revs:     revisions{"r1": things("new", "1")},
			problems: []state.Problem{{Message: "unknown kind"}},
			want:     map[string]string{"old": "1", "new": "1"},
		},
		"a revision whose folder is gone changes nothing": {
			live:    map[string]string{"old": "1"},
			source:  source{revision: "r2"},
			revs:    revisions{"r1": things("new", "1")},
			want:    map[string]string{"old": "1"},
			wantErr: true,
		},
		"an unreachable source with nothing recorded changes nothing": {
			live:    map[string]string{"old": "1"},
			source:  source{err: down},
			want:    map[string]string{"old": "1"},
			wantErr: true,
		},
		"an unreachable source after a restart applies what was recorded, without deleting": {
			live:   map[string]string{"old": "1", "kept": "drifted"},
			source: source{err: down, last: "r1"},
			revs:   revisions{"r1": things("kept", "1")},
			want:   map[string]string{"old": "1", "kept": "1"},
			stale:  true,
		},
		"a target that cannot be observed is not changed": {
			live:    map[string]string{"old": "1"},
			source:  source{revision: "r1"},
			revs:    revisions{"r1": things("new", "1")},
			observe: errors.New("list failed"),
			want:    map[string]string{"old": "1"},
			wantErr: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &fakeTarget{objects: c.live, problems: c.problems, observe: c.observe}
			loop := reconciler.NewLoop(&c.source, c.revs.load, reconciler.NamedTarget{Name: "memory", Target: w})
			result, err := loop.RunOnce(t.Context(), reconciler.Options{})
			if (err != nil) != c.wantErr {
				t.Fatalf("RunOnce: %v", err)
			}
			if (result.SourceError != nil) != c.stale {
				t.Errorf("Stale = %v, want stale: %v", result.SourceError, c.stale)
			}
			if diff := cmp.Diff(c.want, w.objects); diff != "" {
				t.Errorf("the world afterwards (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASourceThatFailsLaterLeavesTheLastRevisionInForce(t *testing.T) {
	w := &fakeTarget{objects: map[string]string{}}
	s := &source{revision: "r1"}
	loop := reconciler.NewLoop(s, revisions{"r1": things("a", "1")}.load, reconciler.NamedTarget{Name: "memory", Target: w})
	if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
		t.Fatal(err)
	}
	w.objects["a"] = "edited"
	s.err = errors.New("down")
	result, err := loop.RunOnce(t.Context(), reconciler.Options{})
	if err != nil || result.SourceError == nil || result.Revision != "r1" {
		t.Fatalf("RunOnce = %q, stale %v, %v; want r1, stale, no error", result.Revision, result.SourceError, err)
	}
	if w.objects["a"] != "1" {
		t.Errorf("a = %q, want the last revision's 1", w.objects["a"])
	}
}

func TestASourceThatCannotBeReadPrunesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(*source)
	}{
		{"it is down", func(s *source) { s.err = errors.New("down") }},
		{"its newest revision cannot be loaded", func(s *source) { s.revision = "r2" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &fakeTarget{objects: map[string]string{}}
			s := &source{revision: "r1"}
			loop := reconciler.NewLoop(s, revisions{"r1": things("a", "1")}.load, reconciler.NamedTarget{Name: "memory", Target: w})
			if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
				t.Fatal(err)
			}
			w.objects["left"] = "1"
			c.fail(s)
			result, err := loop.RunOnce(t.Context(), reconciler.Options{})
			if err != nil || result.SourceError == nil {
				t.Fatalf("stale %v, %v", result.SourceError, err)
			}
			if len(result.Plan.Changes) > 0 || w.objects["left"] != "1" {
				t.Errorf("planned %v, and has %v", result.Plan.Changes, w.objects)
			}
		})
	}
}

func TestANewRevisionThatCannotBeLoadedKeepsTheOldOneForDrift(t *testing.T) {
	w := &fakeTarget{objects: map[string]string{}}
	s := &source{revision: "r1"}
	loop := reconciler.NewLoop(s, revisions{"r1": things("a", "1")}.load, reconciler.NamedTarget{Name: "memory", Target: w})
	if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
		t.Fatal(err)
	}
	s.revision = "r2"
	w.objects["a"] = "edited"
	result, err := loop.RunOnce(t.Context(), reconciler.Options{})
	if err != nil || result.SourceError == nil || result.Revision != "r1" || result.AttemptedRevision != "r2" {
		t.Fatalf("RunOnce = %q after %q, stale %v, %v; want r1 after r2, stale, no error", result.Revision, result.AttemptedRevision, result.SourceError, err)
	}
	if w.objects["a"] != "1" {
		t.Errorf("a = %q, want the last revision's 1", w.objects["a"])
	}
	w.objects["a"] = "edited"
	if _, err := loop.CorrectDrift(t.Context(), []state.Key{key("a")}, reconciler.Options{}); err != nil {
		t.Fatal(err)
	}
	if w.objects["a"] != "1" {
		t.Errorf("a = %q, want 1", w.objects["a"])
	}
}

func TestCorrectChangesOnlyTheGivenKeys(t *testing.T) {
	w := &fakeTarget{objects: map[string]string{}}
	loop := reconciler.NewLoop(&source{revision: "r1"}, revisions{"r1": things("a", "1", "b", "1")}.load, reconciler.NamedTarget{Name: "memory", Target: w})
	if _, err := loop.CorrectDrift(t.Context(), []state.Key{key("a")}, reconciler.Options{}); err == nil {
		t.Fatal("Apply worked before any revision was planned")
	}
	if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
		t.Fatal(err)
	}
	w.objects["a"], w.objects["b"], w.objects["foreign"] = "x", "x", "x"
	w.writes = nil
	if _, err := loop.CorrectDrift(t.Context(), []state.Key{key("a"), key("foreign")}, reconciler.Options{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"update a"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// hangingSource is a source that answers once, then keeps everybody waiting.
type hangingSource struct {
	requested int
	waits     chan struct{}
}

func (s *hangingSource) Fetch(ctx context.Context) (gitsource.Snapshot, error) {
	s.requested++
	if s.requested == 1 {
		return gitsource.Snapshot{Revision: "r1"}, nil
	}
	close(s.waits)
	<-ctx.Done()
	return gitsource.Snapshot{}, ctx.Err()
}

func TestASourceThatKeepsFetchWaitingDoesNotHoldUpCorrect(t *testing.T) {
	w := &fakeTarget{objects: map[string]string{}}
	source := &hangingSource{waits: make(chan struct{})}
	loop := reconciler.NewLoop(source, revisions{"r1": things("a", "1")}.load, reconciler.NamedTarget{Name: "memory", Target: w})
	if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	fetched := make(chan struct{})
	go func() {
		defer close(fetched)
		_, _ = loop.Fetch(ctx)
	}()
	<-source.waits
	w.objects["a"] = "x"
	if _, err := loop.CorrectDrift(t.Context(), []state.Key{key("a")}, reconciler.Options{}); err != nil || w.objects["a"] != "1" {
		t.Errorf("a is %q, %v", w.objects["a"], err)
	}
	cancel()
	<-fetched
}

func TestALoaderThatKeepsFetchWaitingDoesNotHoldUpCorrect(t *testing.T) {
	w := &fakeTarget{objects: map[string]string{}}
	source := &source{revision: "r1"}
	known := revisions{"r1": things("a", "1"), "r2": things("a", "2")}
	loading, release := make(chan struct{}), make(chan struct{})
	loop := reconciler.NewLoop(source, func(ctx context.Context, s gitsource.Snapshot) (declared.Declared, error) {
		if s.Revision == "r2" {
			close(loading)
			<-release
		}
		return known.load(ctx, s)
	}, reconciler.NamedTarget{Name: "memory", Target: w})
	if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
		t.Fatal(err)
	}
	source.revision = "r2"
	fetched := make(chan bool)
	go func() {
		found, _ := loop.Fetch(t.Context())
		fetched <- found.Changed
	}()
	<-loading
	w.objects["a"] = "x"
	if _, err := loop.CorrectDrift(t.Context(), []state.Key{key("a")}, reconciler.Options{}); err != nil || w.objects["a"] != "1" {
		t.Errorf("a is %q, %v", w.objects["a"], err)
	}
	close(release)
	if !<-fetched {
		t.Error("the new revision is no change")
	}
	if result, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil || result.Revision != "r2" || w.objects["a"] != "2" {
		t.Errorf("a is %q at %s, %v", w.objects["a"], result.Revision, err)
	}
}

func TestWhatWasFetchedAndNotComparedYetDoesNotStopCorrect(t *testing.T) {
	w := &fakeTarget{objects: map[string]string{}}
	source := &source{revision: "r1"}
	loop := reconciler.NewLoop(source, revisions{"r1": things("a", "1"), "r2": things("a", "2")}.load, reconciler.NamedTarget{Name: "memory", Target: w})
	if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
		t.Fatal(err)
	}
	source.revision = "r2"
	if found, err := loop.Fetch(t.Context()); !found.Changed || err != nil {
		t.Fatal(found.Changed, err)
	}
	w.objects["a"] = "x"
	result, err := loop.CorrectDrift(t.Context(), []state.Key{key("a")}, reconciler.Options{})
	if err != nil || w.objects["a"] != "1" || result.Revision != "r1" {
		t.Errorf("a is %q in %s, %v", w.objects["a"], result.Revision, err)
	}
}

func TestASecondRunWritesNothing(t *testing.T) {
	w := &fakeTarget{objects: map[string]string{}}
	loop := reconciler.NewLoop(&source{revision: "r1"}, revisions{"r1": things("a", "1", "b", "2")}.load, reconciler.NamedTarget{Name: "memory", Target: w})
	for range 2 {
		if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.writes) != 2 {
		t.Errorf("writes = %v, want the two of the first run", w.writes)
	}
}

func TestRunsThatHadSomethingToChangeAreRecorded(t *testing.T) {
	w := &fakeTarget{objects: map[string]string{}}
	var recorded []string
	loop := reconciler.NewLoop(&source{revision: "r1"}, revisions{"r1": things("a", "1", "b", "2")}.load, reconciler.NamedTarget{Name: "memory", Target: w}).
		WithRecord(func() func(reconciler.Result) {
			before := len(w.writes)
			return func(result reconciler.Result) {
				if len(w.writes) == before {
					t.Error("it did not begin before the first change")
				}
				for _, r := range result.Outcome.Results {
					recorded = append(recorded, result.Revision+" "+string(r.Change.Action)+" "+r.Change.Key.Name+" "+string(r.Status))
				}
			}
		})
	for range 2 {
		if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	w.objects["a"] = "by hand"
	if _, err := loop.CorrectDrift(t.Context(), []state.Key{key("a")}, reconciler.Options{}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"r1 create a applied", "r1 create b applied", "r1 update a applied"}, recorded); d != "" {
		t.Errorf("recorded (-want +got):\n%s", d)
	}
	if _, err := loop.Plan(t.Context(), reconciler.Options{}); err != nil || len(recorded) != 3 {
		t.Errorf("a plan is recorded as %v, %v", recorded, err)
	}
}

func TestPlanWritesNothingAndAgreesWithTheRun(t *testing.T) {
	w := &fakeTarget{objects: map[string]string{"old": "1"}}
	loop := reconciler.NewLoop(&source{revision: "r1"}, revisions{"r1": things("a", "1")}.load, reconciler.NamedTarget{Name: "memory", Target: w})
	planned, err := loop.Plan(t.Context(), reconciler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.writes) != 0 {
		t.Fatalf("Plan wrote %v", w.writes)
	}
	ran, err := loop.RunOnce(t.Context(), reconciler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if planned.Plan.Hash() != ran.Plan.Hash() {
		t.Error("the plan that was shown is not the plan that ran")
	}
}

func TestReleaseDeletesWhatIsOurs(t *testing.T) {
	w := &fakeTarget{objects: map[string]string{"a": "1"}}
	loop := reconciler.NewLoop(&source{}, nil, reconciler.NamedTarget{Name: "memory", Target: w})
	result, err := loop.Finalize(t.Context(), reconciler.Options{})
	if err != nil || result.Outcome.Err() != nil {
		t.Fatal(err, result.Outcome.Err())
	}
	if len(w.objects) != 0 {
		t.Errorf("left: %v", w.objects)
	}
}
