package randomwalk

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestACommitRemovesAtMostWhatNeedsNoConfirmation(t *testing.T) {
	var c commits
	if !c.accept(initial()) {
		t.Fatal("the first commit is refused")
	}
	removed := 0
	for _, key := range keys()[:2*maxDeletions] {
		if c.accept(c.changed(map[string]string{key: ""})) {
			removed++
		}
	}
	if removed != maxDeletions {
		t.Errorf("%d objects were removed before a check", removed)
	}
	// What was added and removed between two checks may have been created.
	if model := maps.Clone(c.newest); c.accept(c.changed(map[string]string{"ConfigMap/new": "v1"})) && c.accept(model) {
		t.Error("one more was removed that was new")
	}
	c.checked()
	if !c.accept(c.changed(map[string]string{keys()[30]: ""})) {
		t.Error("nothing can be removed after a check")
	}
}

func TestARevertDeclaresWhatTheCommitBeforeDid(t *testing.T) {
	var c commits
	for i := range 3 {
		if !c.accept(map[string]string{permanent: fmt.Sprintf("v%d", i)}) {
			t.Fatal("a commit is refused")
		}
		if c.accept(maps.Clone(c.newest)) {
			t.Error("a commit that changes nothing is accepted")
		}
		want := map[string]string{permanent: fmt.Sprintf("v%d", max(0, i-1))}
		if diff := cmp.Diff(want, c.before); diff != "" {
			t.Error(diff)
		}
	}
	if c.count != 3 {
		t.Errorf("%d commits", c.count)
	}
}
