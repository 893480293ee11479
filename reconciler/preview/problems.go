package preview

import (
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// objectInFile is a file, and the text that begins what is wrong with an object in it.
type objectInFile struct{ file, object string }

// newProblems are those that the step brings. What a target reports of an object is
// not reported once more by its schema.
func newProblems(found plan.Proposal, refused []state.Problem) []state.Problem {
	out := without(found.Problems, found.Old)
	// A mistake in an object begins with its key.
	object := func(o state.Problem) (of objectInFile, named bool) {
		key, _, named := strings.Cut(o.Message, ": ")
		return objectInFile{o.Origin.File, key}, named
	}
	reported := make(map[objectInFile]bool, len(found.Problems))
	for _, p := range found.Problems {
		if of, named := object(p); named {
			reported[of] = true
		}
	}
	for _, o := range refused {
		if of, _ := object(o); !reported[of] {
			out = append(out, o)
		}
	}
	return slices.Compact(lint.Sorted(out))
}
