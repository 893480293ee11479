package preview

import (
	"context"
	"slices"

	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
)

// renderMerged takes what the merged files are rendered to for what is declared after the
// step, where it is beyond doubt what Git makes of them: nothing is to be put together
// object by object then. It reports whether it did.
func (s *sides) renderMerged(ctx context.Context, p *Previewer, of Step, base checked.Folder) bool {
	merged, known := of.Merged()
	if !known {
		return false
	}
	loaded, err := p.Cache.Load(ctx, p.Renderer, merged, of.Path, of.values)
	class, _, _ := state.Classify(err)
	switch {
	case err != nil && class == state.Fix:
		s.warnings = append(s.warnings, report.Guard{Rule: "merge", Result: "warning",
			Text: "what " + of.BaseName + " and this make together cannot be rendered, so that nothing of it would be applied: " + err.Error() + "; rebase to mend it"})
		return false
	case err != nil:
		return false
	}
	set := loaded.Set
	if len(without(loaded.Problems, base.Problems)) > 0 {
		// What a mistake hides is not what is taken away.
		set = state.NewSet(append(base.Set.Items(), set.Items()...)...)
	}
	s.after = p.declaredSide(set, loaded.Problems, loaded, base)
	s.empty = loaded.Set.Len() == 0 && len(loaded.Problems) > 0
	s.notes, s.refused = newNotes(loaded.Notes, base.Notes), without(loaded.Refused, base.Refused)
	return true
}

// newNotes is the advice that the base was not given: the rest is no news of the step.
func newNotes(notes, known []plan.Note) []plan.Note {
	// Lines move.
	placeless := func(n plan.Note) plan.Note {
		n.Origin.Line = 0
		return n
	}
	given := make(map[plan.Note]bool, len(known))
	for _, n := range known {
		given[placeless(n)] = true
	}
	return slices.DeleteFunc(slices.Clone(notes), func(n plan.Note) bool { return given[placeless(n)] })
}

// without are the mistakes of a list that are not among the known ones.
func without(list, known []state.Problem) []state.Problem {
	in := identities(known)
	return slices.DeleteFunc(slices.Clone(list), func(o state.Problem) bool { return in[o.Identity()] })
}

// identities are those of a list.
func identities(list []state.Problem) map[state.Problem]bool {
	out := make(map[state.Problem]bool, len(list))
	for _, o := range list {
		out[o.Identity()] = true
	}
	return out
}
