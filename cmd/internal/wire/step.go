package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
	revision "github.com/poolwright/poolwright/reconciler/step"
)

// proposal is what lies between two revisions of a Sync's folder.
type proposal struct {
	gogit.Comparison
	// base is what people call the revision that is merged into.
	base string
	// path is the folder, from the root of the repository.
	path string
	// sync is the one that would apply it.
	sync *v1alpha1.Sync
}

// proposer tells what a step would do, to a pull request and to who plans by hand:
// it is the same code. It is for one call at a time.
type proposer struct {
	children *child.Runner
	renders  *renders
	// worlds are what the step would change; offline, they are asked what they want
	// and nothing else.
	worlds  []reconciler.World
	offline bool
	// foresee tells what changes do to nodes, pods and money.
	foresee foresight
	now     func() time.Time
}

// review is what there is to say of a step.
type review struct {
	report report.Report
	// reviewed is nil where nobody could tell what becomes of nodes.
	reviewed *v1alpha1.ReviewedConsequences
}

// tell makes the report of a step. It changes nothing.
func (p *proposer) tell(ctx context.Context, s proposal) (review, error) {
	sides, err := p.load(ctx, s)
	if err != nil {
		return review{}, err
	}
	found, err := reconciler.Propose(ctx, sides.before, sides.after, p.offline, p.worlds, controller.Policies(s.sync)...)
	if err != nil {
		return review{}, fmt.Errorf("comparing the revisions: %w", err)
	}
	seen := p.now()
	found.Step.Notes = append(found.Step.Notes, sides.notes...)
	slices.SortStableFunc(found.Step.Notes, func(a, b plan.Note) int { return a.Key.Compare(b.Key) })
	f, unforeseen := p.foresee(ctx, change{before: sides.before.Set, after: sides.after.Set, changes: found.Step.Changes})
	guarded, guards := guard(s.sync, found, func([]plan.Change) plan.Consequences { return consequences(f, unforeseen) })
	found.Step = guarded
	mistakes := slices.Compact(lint.Sorted(slices.DeleteFunc(slices.Clone(found.Problems), func(o state.Problem) bool { return slices.Contains(found.Old, o) })))
	r := report.NewProposal(found.Proposal, mistakes)
	r.Forecast, r.Guards = saying(f, unforeseen), guards
	r.Binding = &report.Binding{
		Cluster: clusterIn(sides.after.Set), Base: s.base, BaseCommit: s.Base.Commit, HeadCommit: s.Head.Commit, Parted: s.Parted.Commit,
	}
	if !p.offline {
		r.Binding.Observed = seen
	}
	return review{report: r, reviewed: telling(found.Step, f, unforeseen)}, nil
}

// telling are the consequences of a step that a review is told; nil where pools change
// and nobody can say what becomes of their nodes.
func telling(p plan.Plan, f *provision.Forecast, unforeseen error) *v1alpha1.ReviewedConsequences {
	switch {
	case unforeseen == nil && f != nil:
	case len(change{changes: p.Changes}.pools()) > 0:
		return nil
	default:
		f = &provision.Forecast{} // Whatever became of pods, no node is replaced.
	}
	return new(reviewedOf(p, f))
}

// sides are both ends of a step as they are declared.
type sides struct {
	before, after declared.Declared
	// notes are advice on what is declared after the step.
	notes []plan.Note
}

// load renders the three revisions, each in a child process, and merges them as Git
// will.
func (p *proposer) load(ctx context.Context, s proposal) (sides, error) {
	base, err := p.older(ctx, s.Base, s.path)
	if err != nil {
		return sides{}, fmt.Errorf("reading %s: %w", s.base, err)
	}
	parted, err := p.older(ctx, s.Parted, s.path)
	if err != nil {
		return sides{}, fmt.Errorf("reading the commit where %s and the head parted: %w", s.base, err)
	}
	head, err := p.renders.load(ctx, p.children, s.Head, s.path)
	if err != nil {
		return sides{}, err
	}
	declares := head.Set
	if len(head.Problems) > len(parted.Problems) {
		// What a mistake hides is not what is taken away.
		declares = state.NewSet(append(parted.Set.Items(), head.Set.Items()...)...)
	}
	merged, both := revision.Merge(parted.Set, base.Set, declares)
	out := sides{
		before: declared.Declared{Set: base.Set, Problems: base.Problems},
		after:  declared.Declared{Set: merged, Problems: head.Problems},
		notes:  slices.Clone(head.Notes),
	}
	for _, key := range both {
		item, _ := merged.Get(key)
		out.notes = append(out.notes, plan.Note{Key: key, Origin: item.Origin, Text: "Warning: " + s.base +
			" changed it as well since the two parted: Git may merge it otherwise, or ask; rebase to be sure"})
	}
	return out, nil
}

// older loads a revision that is not the one proposed. A folder that is not in it, or
// declares nothing, is one that the step brings.
func (p *proposer) older(ctx context.Context, at gitsource.Snapshot, path string) (child.Loaded, error) {
	out, err := p.renders.load(ctx, p.children, at, path)
	if err == nil {
		return out, nil
	}
	class, reason, _ := state.Classify(err)
	switch {
	case reason == "PathNotFound", reason == "NoManifests":
		return child.Loaded{}, nil
	case class == state.Fix:
		// Whoever proposes something else cannot mend it.
		return out, state.Fail(state.Retry, reason, errors.New(err.Error()))
	}
	return out, err
}

// clusterIn is the name of the cluster that a revision declares; empty where it
// declares none, or several.
func clusterIn(set state.Set) string {
	var names []string
	for _, item := range set.Items() {
		if isCluster(item) {
			spec, _ := item.Object["spec"].(map[string]any)
			name, _ := spec["name"].(string)
			names = append(names, name)
		}
	}
	if len(names) != 1 {
		return ""
	}
	return names[0]
}
