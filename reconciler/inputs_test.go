package reconciler_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/declared"
)

// variable is what a load depends on beside the snapshot.
type variable struct {
	value string
	err   error
	// unloadable is what loads fail with; may be nil.
	unloadable error
	loads      int
}

func (v *variable) digest(context.Context) (string, reconciler.Loader, error) {
	return v.value, nil, v.err
}

func (v *variable) load(_ context.Context, s gitsource.Snapshot) (declared.Declared, error) {
	v.loads++
	return things("a", s.Revision+" with "+v.value), v.unloadable
}

func TestAChangedVariableIsLoadedWithTheSameRevision(t *testing.T) {
	w, v, s := &fakeTarget{objects: map[string]string{}}, &variable{value: "1"}, &source{revision: "r1"}
	loop := reconciler.NewLoop(s, v.load, reconciler.NamedTarget{Name: "memory", Target: w}).WithInputs(v.digest)
	step := func(want string, loads int) {
		t.Helper()
		if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"a": want}, w.objects); diff != "" || v.loads != loads {
			t.Fatalf("after %d loads:\n%s", v.loads, diff)
		}
	}
	step("r1 with 1", 1)
	step("r1 with 1", 1)
	v.value = "2"
	if found, err := loop.Fetch(t.Context()); err != nil || !found.Changed {
		t.Fatal(found.Changed, err)
	}
	step("r1 with 2", 2)
	s.err = errors.New("down")
	v.value = "3"
	step("r1 with 3", 3)
}

func TestWithoutItsVariablesARevisionIsNotLoaded(t *testing.T) {
	w, v := &fakeTarget{objects: map[string]string{"a": "old", "b": "old"}}, &variable{err: errors.New("no such ConfigMap")}
	loop := reconciler.NewLoop(&source{revision: "r1"}, v.load, reconciler.NamedTarget{Name: "memory", Target: w}).WithInputs(v.digest)
	result, err := loop.RunOnce(t.Context(), reconciler.Options{})
	if !errors.Is(err, v.err) || result.Revision != "r1" || v.loads != 0 || len(w.writes) != 0 {
		t.Errorf("%v, revision %q, %d loads, %v written", err, result.Revision, v.loads, w.writes)
	}
}

// The revision before is no substitute where variables' values changed: what it declared
// with the old ones nobody wants any more.
func TestWithOtherVariablesTheRevisionBeforeIsNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		kept  bool
	}{
		"the revision alone is new": {"1", true},
		"the variables are new too": {"2", false},
	} {
		t.Run(name, func(t *testing.T) {
			w, v, s := &fakeTarget{objects: map[string]string{}}, &variable{value: "1"}, &source{revision: "r1"}
			loop := reconciler.NewLoop(s, v.load, reconciler.NamedTarget{Name: "memory", Target: w}).WithInputs(v.digest)
			if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
				t.Fatal(err)
			}
			s.revision, v.value, v.unloadable = "r2", c.value, errors.New("a patch matches nothing")
			w.objects["a"] = "by hand"
			want := map[string]string{"a": "by hand"}
			if c.kept {
				want["a"] = "r1 with 1"
			}
			result, err := loop.RunOnce(t.Context(), reconciler.Options{})
			failed := err
			if c.kept {
				failed = result.SourceError
			}
			if !errors.Is(failed, v.unloadable) || c.kept != (err == nil) {
				t.Errorf("error %v, stale %v", err, result.SourceError)
			}
			if diff := cmp.Diff(want, w.objects); diff != "" {
				t.Error(diff)
			}
		})
	}
}
