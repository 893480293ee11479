package randomwalk

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

// sequence is the beginning of what a seed determines.
func sequence(seed uint64, kills bool, n int) []Operation {
	g := NewGenerator(seed, kills)
	out := make([]Operation, n)
	for i := range out {
		out[i] = g.Next()
	}
	return out
}

func TestASeedDeterminesTheOperations(t *testing.T) {
	if diff := cmp.Diff(sequence(7, true, 500), sequence(7, true, 500)); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(sequence(7, true, 20), sequence(8, true, 20)) {
		t.Error("two seeds have the same operations")
	}
	var text strings.Builder
	for _, o := range sequence(1, true, 60) {
		fmt.Fprintf(&text, "%s (%s)\n", o, o.Pause)
	}
	// A sequence that was reported by its seed must be the same in the next release.
	golden.Compare(t, "testdata/seed-1.txt", text.String())
}

func TestEveryActionIsDrawnAndKillsOnlyOnRequest(t *testing.T) {
	all := []Action{Commit, Revert, Edit, Delete, Suspend, Resume, Reconcile, Inject, Check}
	for kills, want := range map[bool][]Action{false: all, true: append(slices.Clone(all), Kill, Restart)} {
		var got []Action
		for _, o := range sequence(1, kills, 2000) {
			got = append(got, o.Do)
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
			t.Errorf("with kills %v: %s", kills, diff)
		}
	}
}

func TestAnObjectIsNotEditedAgainBeforeOthersAre(t *testing.T) {
	last := map[string]int{}
	edits := 0
	for _, o := range sequence(3, false, 5000) {
		if o.Object == "" {
			continue
		}
		edits++
		if before := last[o.Object]; before != 0 && edits-before <= apart {
			t.Fatalf("%s is edit %d and edit %d", o.Object, before, edits)
		}
		last[o.Object] = edits
	}
	if edits == 0 {
		t.Error("nothing is edited")
	}
}

func TestChecksAreAFewOperationsApart(t *testing.T) {
	most := 8 * 3 // each of which may be a kill with a commit and its revert
	since := 0
	for i, o := range sequence(2, true, 5000) {
		if since++; o.Do == Check {
			since = 0
		}
		if since > most {
			t.Fatalf("operation %d is the %dth without a check", i, since)
		}
	}
}

func TestKillsAreAtWritesAndOfNewObjectsInCommitsThatAreReverted(t *testing.T) {
	reverted, kills := 0, 0
	operations := sequence(4, true, 5000)
	for i, o := range operations[:len(operations)-2] {
		if o.Fault == nil || o.Fault.Do != wiretap.Kill {
			continue
		}
		if kills++; !writes(o.Fault.At) {
			t.Errorf("the controller is killed at %s", o.Fault.At)
		}
		if operations[i+1].Do == Commit && operations[i+2].Do == Revert {
			reverted++
		}
	}
	if kills == 0 || reverted < kills/3 {
		t.Errorf("of %d kills, %d are followed by a commit that is reverted", kills, reverted)
	}
}
