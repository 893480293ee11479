package demo

import (
	"testing"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/footer"
)

func TestTheHeadlineOfACommentIsWhatItHasLast(t *testing.T) {
	head := string(forge.NewMarker("plan", "a/b", "c")) + "\n"
	for name, tt := range map[string]struct{ comment, want string }{
		"a plan":      {head + "### 1 node replaced, \\$1 less\n\nmore", "1 node replaced, $1 less"},
		"what it did": {head + "### a plan\n\n" + footer.Marker + "\nApplied\nmore", "Applied"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := headline(tt.comment); got != tt.want {
				t.Errorf("%q", got)
			}
		})
	}
}
