package preview

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// objectInFile is an object, as a file declares it.
type objectInFile struct {
	file   string
	object state.Key
}

// newProblems are those that the merge brings. What a target reports of an object is
// not reported once more by its schema.
func newProblems(found plan.Proposal, refused []state.Problem) []state.Problem {
	out := without(found.Problems, found.ExistingProblems)
	reported := make(map[objectInFile]bool, len(found.Problems))
	for _, p := range found.Problems {
		reported[objectInFile{p.Origin.File, p.Object}] = p.Object != (state.Key{})
	}
	for _, p := range refused {
		if !reported[objectInFile{p.Origin.File, p.Object}] {
			out = append(out, p)
		}
	}
	return slices.Compact(lint.Sorted(out))
}
