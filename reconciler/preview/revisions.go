package preview

import (
	"context"
	"slices"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
)

// declaredRevisions are both ends of a range as they are declared.
type declaredRevisions struct {
	before, after declared.Declared
	// refused are the problems that only the API server will refuse, and that the merge
	// brings: nothing else waits for them.
	refused []state.Problem
	// empty is true where the problems leave nothing of the head to be applied.
	empty bool
	// notes are advice on what is declared after the merge.
	notes []plan.Note
	// warnings are why the merge is uncertain.
	warnings []report.GuardResult
}

// declaredRevision is one of the two. What was refused of an object where a revision declares it
// so is refused of it; the first of several has the lines.
func (p *Previewer) declaredRevision(set state.Set, problems []state.Problem, from ...checked.Folder) declared.Declared {
	clusters := refusedIn(set, from, func(l checked.Folder) map[state.Key][]state.Problem { return l.Clusters })
	unknown := refusedIn(set, from, func(l checked.Folder) map[state.Key][]state.Problem { return l.UnknownFields })
	return declared.Declared{Set: set, Problems: problems, BeforeDesired: func() { p.SchemaErrors.Set(clusters, unknown) }}
}

// refusedIn is what is refused of the objects of a set that a revision declares like this.
func refusedIn(set state.Set, from []checked.Folder, in func(checked.Folder) map[state.Key][]state.Problem) map[state.Key][]state.Problem {
	refused := map[state.Key][]state.Problem{}
	for _, l := range slices.Backward(from) {
		for key, of := range in(l) {
			was, _ := l.Set.Get(key)
			if is, ok := set.Get(key); ok && was.Version == is.Version && state.Equal(was.Object, is.Object) {
				refused[key] = of
			}
		}
	}
	return refused
}

// mergeProblems are the problems that the merge will have: those that head brings, and
// those of base, unless head mended them. What base mended is no problem any more.
func mergeProblems(mergeBase, base, head []state.Problem) []state.Problem {
	inMergeBase, inBase, inHead := identities(mergeBase), identities(base), identities(head)
	var out []state.Problem
	for _, o := range head {
		if inBase[o.Identity()] || !inMergeBase[o.Identity()] {
			out = append(out, o)
		}
	}
	for _, o := range base {
		if !inHead[o.Identity()] && !inMergeBase[o.Identity()] {
			out = append(out, o)
		}
	}
	return out
}

// newNotes is the advice that the base was not given: the rest is nothing new of the
// merge.
func newNotes(notes, known []plan.Note) []plan.Note {
	// Lines move.
	withoutLine := func(n plan.Note) plan.Note {
		n.Origin.Line = 0
		return n
	}
	inBase := make(map[plan.Note]bool, len(known))
	for _, n := range known {
		inBase[withoutLine(n)] = true
	}
	return slices.DeleteFunc(slices.Clone(notes), func(n plan.Note) bool { return inBase[withoutLine(n)] })
}

// without are the problems of a list that are not among the known ones.
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

// mergeUncertain reports whether the merge of two renderings may be another than the rendering
// of the merge: both sides changed the folder, or what it is rendered to, and there is
// a kustomization in it, which reaches objects that it does not name.
func (p *Previewer) mergeUncertain(ctx context.Context, s RevisionRange, mergeBase, base, head state.Set) bool {
	if s.Base.TreeID == s.MergeBase.TreeID || s.Head.TreeID == s.MergeBase.TreeID {
		return false
	}
	files := func(at gitsource.Snapshot) rendercache.Files { return p.Cache.Files(ctx, at, s.Path, s.values) }
	was, is, will := files(s.MergeBase), files(s.Base), files(s.Head)
	if !is.Kustomized && !will.Kustomized {
		return false
	}
	moved := func(to rendercache.Files, set state.Set) bool {
		return to.Digest != was.Digest || state.Hash(set.Items()) != state.Hash(mergeBase.Items())
	}
	return moved(is, base) && moved(will, head)
}

// renderMerged takes what the merged files are rendered to for what is declared after the
// merge, where it is certain what Git makes of them: nothing is to be put together object
// by object then. It reports whether it did.
func (s *declaredRevisions) renderMerged(ctx context.Context, p *Previewer, of RevisionRange, merged gitsource.Snapshot, base checked.Folder) bool {
	loaded, err := p.Cache.Load(ctx, p.Renderer, merged, of.Path, of.values)
	class, _, _ := state.Classify(err)
	switch {
	case err != nil && class == state.Stalled:
		s.warnings = append(s.warnings, report.GuardResult{Rule: "merge", Result: report.GuardWarning,
			Text: "what " + of.BaseName + " and this make together cannot be rendered, so that nothing of it would be applied: " + err.Error() + "; rebase to mend it"})
		return false
	case err != nil:
		return false
	}
	set := loaded.Set
	if len(without(loaded.Problems, base.Problems)) > 0 {
		// What a problem hides is not what is taken away.
		set = state.NewSet(append(base.Set.Items(), set.Items()...)...)
	}
	s.after = p.declaredRevision(set, loaded.Problems, loaded, base)
	s.empty = loaded.Set.Len() == 0 && len(loaded.Problems) > 0
	s.notes, s.refused = newNotes(loaded.Notes, base.Notes), without(loaded.Refused, base.Refused)
	return true
}

// checkSize refuses a merge that changes too much to be planned for whoever proposes it.
func (s declaredRevisions) checkSize(most int, base string) error {
	n := 0
	for item := range s.after.Set.All() {
		was, there := s.before.Set.Get(item.Key)
		if !there || was.Version != item.Version || !state.Equal(was.Object, item.Object) {
			n++
		}
	}
	for item := range s.before.Set.All() {
		if _, stays := s.after.Set.Get(item.Key); !stays {
			n++
		}
	}
	if most == 0 || n <= most {
		return nil
	}
	return state.Failf(state.Stalled, "TooLarge", "the change is too large to plan: it changes %d objects, and %d at most are planned for a pull request; "+
		"split it, or run `poolwright plan --base %s` with your own access to the cluster", n, most, base)
}
