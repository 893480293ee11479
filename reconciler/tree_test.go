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

// treeSource has one revision, whose files change: a source of Flux that begins to ignore some.
type treeSource struct{ tree string }

func (s *treeSource) Fetch(context.Context) (gitsource.Snapshot, error) {
	return gitsource.Snapshot{Revision: "r1", TreeID: s.tree}, nil
}

func TestOtherFilesOfTheSameRevisionAreApplied(t *testing.T) {
	target, s, loads := &fakeTarget{objects: map[string]string{}}, &treeSource{tree: "1"}, 0
	load := func(_ context.Context, snapshot gitsource.Snapshot) (declared.Declared, error) {
		loads++
		return things("a", snapshot.TreeID), nil
	}
	loop := reconciler.NewLoop(s, load, reconciler.NamedTarget{Name: "memory", Target: target})
	for i, tree := range []string{"1", "1", "2"} {
		s.tree = tree
		if _, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"a": tree}, target.objects); diff != "" || loads > i+1 {
			t.Errorf("after %d loads:\n%s", loads, diff)
		}
	}
	if loads != 2 {
		t.Errorf("%d loads", loads)
	}
}

// Earlier has the first files of the revision, as well as the newest.
func (s *treeSource) Earlier(_ context.Context, revision, treeID string) (gitsource.Snapshot, bool) {
	if treeID == "" {
		treeID = s.tree
	}
	return gitsource.Snapshot{Revision: revision, TreeID: treeID}, revision == "r1"
}

// The newest files cannot be loaded, or have to wait: what was applied under the same revision is kept, and the newest
// are not taken for it.
func TestOtherFilesOfTheAppliedRevisionAreNotTakenForIt(t *testing.T) {
	waits := errors.New("waiting for Sync base")
	for name, tt := range map[string]struct {
		unloadable string
		waits      error
		treeID     string
		loaded     []string
	}{
		"the newest cannot be loaded":     {"2", nil, "1", []string{"1"}},
		"the newest have to wait":         {"", waits, "1", []string{"1"}},
		"a status of before has no files": {"", waits, "", []string{"2"}},
	} {
		t.Run(name, func(t *testing.T) {
			target, s, loaded := &fakeTarget{objects: map[string]string{"a": "edited"}}, &treeSource{tree: "2"}, []string(nil)
			load := func(_ context.Context, snapshot gitsource.Snapshot) (declared.Declared, error) {
				if snapshot.TreeID == tt.unloadable {
					return declared.Declared{}, errors.New("cannot be loaded")
				}
				loaded = append(loaded, snapshot.TreeID)
				return things("a", snapshot.TreeID), nil
			}
			loop := reconciler.NewLoop(s, load, reconciler.NamedTarget{Name: "memory", Target: target}).ResumesFrom("r1", tt.treeID).
				WithDependencyCheck(func(_ context.Context, _, treeID string) error {
					if treeID != "2" {
						t.Errorf("checked are the files %q", treeID)
					}
					return tt.waits
				})
			result, err := loop.Fetch(t.Context())
			if err != nil || result.SourceError == nil || !result.OnlyDrift || result.TreeID != tt.loaded[0] {
				t.Errorf("fetched is %+v, %v", result, err)
			}
			if diff := cmp.Diff(tt.loaded, loaded); diff != "" {
				t.Errorf("loaded (-want +got):\n%s", diff)
			}
		})
	}
}

// badSource has nothing but the newest files.
type badSource struct{ treeSource }

func (s *badSource) Earlier(_ context.Context, revision, _ string) (gitsource.Snapshot, bool) {
	return gitsource.Snapshot{Revision: revision, TreeID: "2"}, true
}

func TestASourceThatHasOtherFilesThanWereAppliedResumesNothing(t *testing.T) {
	load := func(_ context.Context, snapshot gitsource.Snapshot) (declared.Declared, error) {
		return things("a", snapshot.TreeID), nil
	}
	loop := reconciler.NewLoop(&badSource{treeSource{tree: "2"}}, load, reconciler.NamedTarget{Name: "memory", Target: &fakeTarget{objects: map[string]string{}}}).ResumesFrom("r1", "1").
		WithDependencyCheck(func(context.Context, string, string) error { return errors.New("waits") })
	if result, err := loop.Fetch(t.Context()); err == nil {
		t.Errorf("it goes on with %+v", result)
	}
}
