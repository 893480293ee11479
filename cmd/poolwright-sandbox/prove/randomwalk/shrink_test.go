package randomwalk

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// planted is a violation by three operations in this order, with anything between them.
func planted(operations []Operation) (bool, error) {
	want := []Action{Suspend, Kill, Revert}
	for _, o := range operations {
		if len(want) > 0 && o.Do == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0, nil
}

func TestAFailureShrinksToTheOperationsThatItNeeds(t *testing.T) {
	operations := sequence(5, true, 400)
	if failed, _ := planted(operations); !failed {
		t.Fatal("the violation is not in the sequence")
	}
	tries := 0
	got, err := Shrink(operations, func(o []Operation) (bool, error) {
		tries++
		return planted(o)
	})
	if err != nil {
		t.Fatal(err)
	}
	var actions []Action
	for _, o := range got {
		actions = append(actions, o.Do)
	}
	if diff := cmp.Diff([]Action{Suspend, Kill, Revert}, actions); diff != "" {
		t.Error(diff)
	}
	if tries > 100 {
		t.Errorf("it took %d runs", tries)
	}
}

func TestShrinkingEndsWithTheShortestSoFar(t *testing.T) {
	broken, tries := errors.New("no sandbox"), 0
	got, err := Shrink(sequence(5, true, 400), func(o []Operation) (bool, error) {
		if tries++; tries > 5 {
			return false, broken
		}
		return planted(o)
	})
	if failed, _ := planted(got); !errors.Is(err, broken) || !failed || len(got) == 400 {
		t.Errorf("%d operations are left, which fail: %v; %v", len(got), failed, err)
	}
}

func TestWhatCannotBeShorterStays(t *testing.T) {
	operations := []Operation{{Do: Suspend}, {Do: Kill}, {Do: Revert}}
	got, err := Shrink(slices.Clone(operations), planted)
	if diff := cmp.Diff(operations, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
