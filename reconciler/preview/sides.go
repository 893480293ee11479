package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/plan"
	revision "github.com/poolwright/poolwright/reconciler/proposal"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
)

// sides are both ends of a step as they are declared.
type sides struct {
	before, after declared.Declared
	// refused are the mistakes that only the API server will refuse, and that the step
	// brings: nothing else waits for them.
	refused []state.Problem
	// empty is true where the mistakes leave nothing of the head to be applied.
	empty bool
	// notes are advice on what is declared after the step.
	notes []plan.Note
	// warnings are why the merge is uncertain.
	warnings []report.Guard
}

// load renders the three revisions, each in a child process, and merges them as Git
// will.
func (p *Previewer) load(ctx context.Context, s Step) (sides, error) {
	base, err := p.loadOlder(ctx, s.Base, s)
	if err != nil {
		return sides{}, fmt.Errorf("reading %s: %w", s.BaseName, err)
	}
	parted, err := p.loadOlder(ctx, s.MergeBase, s)
	if err != nil {
		return sides{}, fmt.Errorf("reading the commit where %s and the head parted: %w", s.BaseName, err)
	}
	head, err := p.Cache.Load(ctx, p.Renderer, s.Head, s.Path, s.values)
	if err != nil {
		return sides{}, err
	}
	declares := head.Set
	if len(without(head.Problems, parted.Problems)) > 0 {
		// What a mistake hides is not what is taken away.
		declares = state.NewSet(append(parted.Set.Items(), head.Set.Items()...)...)
	}
	merged, both := revision.Merge(parted.Set, base.Set, declares)
	out := sides{
		before: p.declaredSide(base.Set, base.Problems, base),
		after:  p.declaredSide(merged, mergeProblems(parted.Problems, base.Problems, head.Problems), head, base, parted),
		empty:  head.Set.Len() == 0 && len(head.Problems) > 0,
		notes:  newNotes(head.Notes, base.Notes), refused: without(mergeProblems(parted.Refused, base.Refused, head.Refused), base.Refused),
	}
	tangled := p.mergeUncertain(ctx, s, parted.Set, base.Set, head.Set)
	if (tangled || len(both) > 0) && out.renderMerged(ctx, p, s, base) {
		return out, nil
	}
	for _, key := range both {
		item, _ := merged.Get(key)
		out.notes = append(out.notes, plan.Note{Key: key, Origin: item.Origin, Warning: true, Text: s.BaseName +
			" changed it as well since the two parted: Git may merge it otherwise, or report a conflict; rebase to be sure"})
	}
	if tangled {
		out.warnings = append(out.warnings, report.Guard{Rule: "merge", Result: "warning",
			Text: s.BaseName + " changed this folder as well since the two parted, and it has a kustomization. Files that both changed, or that may be renamed, are not merged here but object by object: what one side's kustomization makes of the other side's objects is not computed; rebase to be sure"})
	}
	return out, nil
}

// renderMerged takes what the merged files are rendered to for what is declared after the
// step, where it is certain what Git makes of them: nothing is to be put together object
// by object then. It reports whether it did.
func (s *sides) renderMerged(ctx context.Context, p *Previewer, of Step, base checked.Folder) bool {
	merged, known := of.Merged()
	if !known {
		return false
	}
	loaded, err := p.Cache.Load(ctx, p.Renderer, merged, of.Path, of.values)
	class, _, _ := state.Classify(err)
	switch {
	case err != nil && class == state.Stalled:
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

// declaredSide is a side of a step. What was refused of an object where a revision declares it
// so is refused of the side; the first of several has the lines.
func (p *Previewer) declaredSide(set state.Set, problems []state.Problem, from ...checked.Folder) declared.Declared {
	clusters := refusedIn(set, from, func(l checked.Folder) map[state.Key][]state.Problem { return l.Clusters })
	unknown := refusedIn(set, from, func(l checked.Folder) map[state.Key][]state.Problem { return l.Unknown })
	return declared.Declared{Set: set, Problems: problems, BeforeDesired: func() { p.Refusals.Set(clusters, unknown) }}
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

// mergeUncertain reports whether the merge of two renderings may be another than the rendering
// of the merge: both sides changed the folder, or what it is rendered to, and there is
// a kustomization in it, which reaches objects that it does not name.
func (p *Previewer) mergeUncertain(ctx context.Context, s Step, parted, base, head state.Set) bool {
	if s.Base.TreeID == s.MergeBase.TreeID || s.Head.TreeID == s.MergeBase.TreeID {
		return false
	}
	files := func(at gitsource.Snapshot) rendercache.Files { return p.Cache.Files(ctx, at, s.Path, s.values) }
	was, is, will := files(s.MergeBase), files(s.Base), files(s.Head)
	if !is.Kustomized && !will.Kustomized {
		return false
	}
	moved := func(to rendercache.Files, set state.Set) bool {
		return to.Digest != was.Digest || state.Hash(set.Items()) != state.Hash(parted.Items())
	}
	return moved(is, base) && moved(will, head)
}

// loadOlder loads a revision that is not the one proposed. A folder that is not in it, or
// declares nothing, is one that the step brings.
func (p *Previewer) loadOlder(ctx context.Context, at gitsource.Snapshot, s Step) (checked.Folder, error) {
	out, err := p.Cache.Load(ctx, p.Renderer, at, s.Path, s.values)
	if err == nil {
		return out, nil
	}
	class, reason, _ := state.Classify(err)
	switch {
	case reason == "PathNotFound", reason == "NoManifests":
		return checked.Folder{}, nil
	case class == state.Stalled:
		// Whoever proposes something else cannot mend it.
		return out, state.Fail(state.Retry, reason, errors.New(err.Error()))
	}
	return out, err
}

// mergeProblems are the mistakes that the merge will have: those that head brings, and
// those of base, unless head mended them. What base mended is no mistake any more.
func mergeProblems(parted, base, head []state.Problem) []state.Problem {
	atParting, inBase, inHead := identities(parted), identities(base), identities(head)
	var out []state.Problem
	for _, o := range head {
		if inBase[o.Identity()] || !atParting[o.Identity()] {
			out = append(out, o)
		}
	}
	for _, o := range base {
		if !inHead[o.Identity()] && !atParting[o.Identity()] {
			out = append(out, o)
		}
	}
	return out
}

// newNotes is the advice that the base was not given: the rest is nothing new of the
// step.
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
