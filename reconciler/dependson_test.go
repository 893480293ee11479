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
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// dependent is a Loop whose revisions wait while waits is not nil.
type dependent struct {
	*reconciler.Loop
	*recorded
	source *keeping
	waits  error
	// loaded are the revisions that were loaded.
	loaded []string
}

var errWaits = errors.New("waiting for Sync base")

// newDependent has the revisions r1, r2 and r3, of which the newest is r1, and a target in which
// an earlier process applied what applied has.
func newDependent(applied string, has map[string]string) *dependent {
	d := &dependent{recorded: &recorded{applied: map[string]string{}}, source: &keeping{source: source{revision: "r1"}, has: []string{"r1", "r2"}}}
	d.objects = map[string]string{}
	for name, value := range has {
		d.objects[name], d.recorded.applied[name] = value, value
	}
	revs := revisions{"r1": things("a", "1", "left", "1"), "r2": things("a", "2", "new", "2"), "r3": things("a", "3")}
	load := func(ctx context.Context, s gitsource.Snapshot) (declared.Declared, error) {
		d.loaded = append(d.loaded, s.Revision)
		return revs.load(ctx, s)
	}
	d.Loop = reconciler.NewLoop(d.source, load, reconciler.NamedTarget{Name: "memory", Target: d.recorded}).ResumesFrom(applied, "").
		WithDependencyCheck(func(context.Context, string, string) error { return d.waits })
	return d
}

// Apply records what it applies. A Loop calls it for several changes at once.
func (r *recorded) Apply(ctx context.Context, c plan.Change) error {
	if err := r.fakeTarget.Apply(ctx, c); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.applied, c.Key.Name); c.Action != plan.Delete {
		r.applied[c.Key.Name] = c.After.Object["value"].(string)
	}
	return nil
}

func (d *dependent) run(t *testing.T) reconciler.Result {
	t.Helper()
	result, err := d.RunOnce(t.Context(), reconciler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func (d *dependent) has(t *testing.T, pairs ...string) {
	t.Helper()
	want := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	if diff := cmp.Diff(want, d.objects); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestARevisionThatWaitsIsNeitherLoadedNorApplied(t *testing.T) {
	d := newDependent("", nil)
	d.waits = errWaits
	if result, err := d.RunOnce(t.Context(), reconciler.Options{}); !errors.Is(err, errWaits) || result.Revision != "r1" || len(d.loaded) > 0 {
		t.Fatalf("RunOnce = %q, %v after loading %q", result.Revision, err, d.loaded)
	}
	d.waits = nil
	d.run(t)
	d.has(t, "a", "1", "left", "1")

	d.waits, d.source.revision, d.loaded = errWaits, "r2", nil
	result := d.run(t)
	if !errors.Is(result.SourceError, errWaits) || result.Revision != "r1" || result.AttemptedRevision != "r2" || !result.OnlyDrift || len(d.loaded) > 0 {
		t.Errorf("%q waits after %q for %v, after loading %q", result.AttemptedRevision, result.Revision, result.SourceError, d.loaded)
	}
	d.has(t, "a", "1", "left", "1")
	d.waits = nil
	if result = d.run(t); result.SourceError != nil || result.Revision != "r2" || result.OnlyDrift {
		t.Errorf("it is %q, %v", result.Revision, result.SourceError)
	}
	d.has(t, "a", "2", "new", "2")
}

// While a revision waits, all that is put back is what somebody changed by hand of what is applied.
func TestWhileARevisionWaitsDriftIsCorrected(t *testing.T) {
	for name, correct := range map[string]func(*testing.T, *dependent){
		"in a full run": func(t *testing.T, d *dependent) { d.run(t) },
		"alone": func(t *testing.T, d *dependent) {
			if _, err := d.Fetch(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Loop.CorrectDrift(t.Context(), []state.Key{key("a"), key("left"), key("new")}, reconciler.Options{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDependent("", nil)
			d.run(t)
			d.waits, d.source.revision = errWaits, "r2"
			d.objects["a"], d.objects["strange"] = "by hand", "1"
			delete(d.objects, "left")
			correct(t, d)
			d.has(t, "a", "1", "left", "1", "strange", "1")
		})
	}
}

// What began to be applied before a dependency stopped being ready goes on once it is again.
func TestARevisionThatIsAppliedInPartWaitsWithTheRest(t *testing.T) {
	d := newDependent("", nil)
	d.run(t)
	d.source.revision = "r2"
	d.observe = errors.New("connection refused")
	if _, err := d.RunOnce(t.Context(), reconciler.Options{}); err == nil {
		t.Fatal("it is planned without reading anything")
	}
	d.waits, d.observe = errWaits, nil
	if result := d.run(t); result.Revision != "r1" || result.AttemptedRevision != "r2" {
		t.Errorf("it goes on with %q", result.Revision)
	}
	d.has(t, "a", "1", "left", "1")

	d.waits = nil
	d.run(t)
	// Somebody else took things away, of which one was never applied.
	delete(d.objects, "new")
	delete(d.recorded.applied, "new")
	d.objects["left"], d.recorded.applied["left"] = "1", "1"
	d.waits = errWaits
	if result := d.run(t); result.Revision != "r2" || result.AttemptedRevision != "r2" || !result.OnlyDrift {
		t.Errorf("it waits with %q", result.Revision)
	}
	d.has(t, "a", "2", "left", "1")
	d.waits = nil
	fetched, err := d.Fetch(t.Context())
	if err != nil || !fetched.Changed {
		t.Errorf("what waited is no change: %+v, %v", fetched, err)
	}
	d.run(t)
	d.has(t, "a", "2", "new", "2")
	if fetched, err = d.Fetch(t.Context()); err != nil || fetched.Changed {
		t.Errorf("it is a change once more: %+v, %v", fetched, err)
	}
}

func TestAfterARestartDriftIsCorrectedWhileARevisionWaits(t *testing.T) {
	for _, tt := range []struct {
		name, newest string
		want         map[string]string
	}{
		{"the newest is what was applied", "r1", map[string]string{"a": "1", "left": "1"}},
		// What is gone may have been deleted as the newest declares.
		{"a newer one waits", "r2", map[string]string{"a": "1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDependent("r1", map[string]string{"a": "1", "left": "1"})
			d.waits, d.source.revision = errWaits, tt.newest
			d.objects["a"] = "by hand"
			delete(d.objects, "left")
			if result := d.run(t); result.Revision != "r1" || result.AttemptedRevision != tt.newest || !result.OnlyDrift || !slices.Equal(d.loaded, []string{"r1"}) {
				t.Errorf("it is %q after %q, after loading %q", result.AttemptedRevision, result.Revision, d.loaded)
			}
			if diff := cmp.Diff(tt.want, d.objects); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			d.run(t)
			if len(d.loaded) != 1 {
				t.Errorf("loaded %q", d.loaded)
			}
			d.waits, d.source.revision = nil, "r2"
			if result := d.run(t); result.Revision != "r2" || result.SourceError != nil {
				t.Errorf("it is %q, %v", result.Revision, result.SourceError)
			}
			d.has(t, "a", "2", "new", "2")
		})
	}
}

// A source that cannot be read is what a person has to mend.
func TestASourceThatCannotBeReadIsTheReasonBeforeADependency(t *testing.T) {
	d := newDependent("", nil)
	d.run(t)
	down := errors.New("connection refused")
	d.waits, d.source.err = errWaits, down
	if result := d.run(t); !errors.Is(result.SourceError, down) || result.Revision != "r1" || result.AttemptedRevision != "" || !result.OnlyDrift {
		t.Errorf("got %+v", result)
	}
}

// Variables' values are not read while nothing may be applied: what is applied stays as it is.
func TestOtherVariablesWaitLikeARevision(t *testing.T) {
	value, read := "1", 0
	d := newDependent("", nil)
	d.Loop.WithInputs(func(context.Context) (string, reconciler.Loader, error) {
		read++
		return value, func(context.Context, gitsource.Snapshot) (declared.Declared, error) { return things("a", value), nil }, nil
	})
	d.run(t)
	d.waits, value, read = errWaits, "2", 0
	d.objects["a"] = "by hand"
	if result := d.run(t); result.Revision != "r1" || read > 0 {
		t.Errorf("it is %q after %d reads", result.Revision, read)
	}
	d.has(t, "a", "1")
	d.waits = nil
	d.run(t)
	d.has(t, "a", "2")
}
