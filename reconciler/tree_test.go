package reconciler_test

import (
	"context"
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
