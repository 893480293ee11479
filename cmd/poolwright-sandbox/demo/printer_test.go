package demo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestACommentIsShownBelowItsEventWithoutBlanksAtTheEnds(t *testing.T) {
	got := indented("### A\n\n\n| a | b |\n\n- c \n")
	want := "\n    | ### A\n    |\n    |\n    | | a | b |\n    |\n    | - c\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
