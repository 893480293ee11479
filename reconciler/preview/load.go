package preview

import (
	"context"
	"errors"
	"fmt"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/proposal"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// load renders the three revisions, each in a child process, and merges them as Git
// will.
func (p *Previewer) load(ctx context.Context, s RevisionRange) (declaredRevisions, error) {
	base, err := p.loadBase(ctx, s.Base, s)
	if err != nil {
		return declaredRevisions{}, fmt.Errorf("reading %s: %w", s.BaseName, err)
	}
	mergeBase, err := p.loadBase(ctx, s.MergeBase, s)
	if err != nil {
		return declaredRevisions{}, fmt.Errorf("reading the merge base of %s and the head: %w", s.BaseName, err)
	}
	head, err := p.Cache.Load(ctx, p.Renderer, s.Head, s.Path, s.values)
	if err != nil {
		return declaredRevisions{}, err
	}
	declares := head.Set
	if len(without(head.Problems, mergeBase.Problems)) > 0 {
		// What a problem hides is not what is taken away.
		declares = state.NewSet(append(mergeBase.Set.Items(), head.Set.Items()...)...)
	}
	merged, both := proposal.Merge(mergeBase.Set, base.Set, declares)
	out := declaredRevisions{
		before: p.declaredRevision(base.Set, base.Problems, base),
		after:  p.declaredRevision(merged, mergeProblems(mergeBase.Problems, base.Problems, head.Problems), head, base, mergeBase),
		empty:  head.Set.Len() == 0 && len(head.Problems) > 0,
		notes:  newNotes(head.Notes, base.Notes), refused: without(mergeProblems(mergeBase.Refused, base.Refused, head.Refused), base.Refused),
	}
	tangled := p.mergeUncertain(ctx, s, mergeBase.Set, base.Set, head.Set)
	if tangled || len(both) > 0 {
		if files, known := s.Merged(); known && out.renderMerged(ctx, p, s, files, base) {
			return out, nil
		}
	}
	for _, key := range both {
		item, _ := merged.Get(key)
		n := plan.NewNote(key, item.Origin, finding.New(codeChangedOnBothSides,
			"%s changed it as well since the merge base: Git may merge it otherwise, or report a conflict; rebase to be sure", finding.NewFact("base", s.BaseName)))
		n.Severity = finding.Warning
		out.notes = append(out.notes, n)
	}
	if tangled {
		out.warnings = append(out.warnings, report.GuardResult{Rule: "merge", Result: report.GuardWarning,
			Text: s.BaseName + " changed this folder as well since the merge base, and it has a kustomization. Files that both changed, or that may be renamed, are not merged here but object by object: what one side's kustomization makes of the other side's objects is not computed; rebase to be sure"})
	}
	return out, nil
}

// loadBase loads a revision that is not the one proposed. A folder that is not in it, or
// declares nothing, is one that the merge brings.
func (p *Previewer) loadBase(ctx context.Context, at gitsource.Snapshot, s RevisionRange) (checked.Folder, error) {
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
