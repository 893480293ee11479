package wire

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/impact"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// proposal is what lies between two revisions of a Sync's folder.
type proposal struct {
	gitsource.Comparison
	// base is what people call the revision that is merged into.
	base string
	// path is the folder, from the root of the repository.
	path string
	// sync is the one that would apply it.
	sync *v1alpha1.Sync
	// values are those of its variables, for all revisions alike; told by tell.
	values substitute.Values
}

// proposer tells what a step would do, to a pull request and to who plans by hand:
// it is the same code. It is for one call at a time.
type proposer struct {
	children *child.Runner
	renders  *renders
	vars     *variables.Current
	// said is what children refuse of the Clusters of a side, while worlds are asked about it.
	said *verdicts
	// worlds are what the step would change; offline, they are asked what they want
	// and nothing else.
	worlds  []reconciler.World
	offline bool
	// forecast is what changes do to nodes, pods and costs.
	forecast impact.Forecaster
	now      func() time.Time
	// seen is when what the worlds and the forecast tell was looked at.
	seen *sighting
	// most is how many objects a step may change to be planned; 0 for any number.
	most int
}

// review is what there is to say of a step.
type review struct {
	report report.Report
	// reviewed is nil where nobody could tell what becomes of nodes.
	reviewed *v1alpha1.ReviewedConsequences
}

// tell makes the report of a step. It changes nothing.
func (p *proposer) tell(ctx context.Context, s proposal) (review, error) {
	p.seen.begin(p.now())
	if _, err := p.vars.Refresh(ctx); err != nil {
		return review{}, err
	}
	s.values = p.vars.Newest()
	p.vars.SetLoaded(s.values)
	sides, err := p.load(ctx, s)
	if err != nil {
		return review{}, err
	}
	if err := p.bounded(sides, s.base); err != nil {
		return review{}, err
	}
	found, err := reconciler.Propose(ctx, sides.before, sides.after, p.offline, p.worlds, syncpolicy.ForRun(s.sync)...)
	if err != nil {
		return review{}, fmt.Errorf("comparing the revisions: %w", err)
	}
	found.Step.Notes = slices.Concat(found.Step.Notes, sides.notes, variables.Notes(syncKey(s.sync), s.sync, s.values))
	slices.SortStableFunc(found.Step.Notes, func(a, b plan.Note) int { return a.Key.Compare(b.Key) })
	f, unforeseen := p.forecast(ctx, impact.Change{Before: sides.before.Set, After: sides.after.Set, Changes: found.Step.Changes})
	guarded, guards := guard(s.sync, found, func(changes []plan.Change) plan.Consequences {
		if len(waiting(found)) == 0 {
			return impact.Consequences(f, unforeseen)
		}
		return impact.Consequences(p.forecast(ctx, impact.Change{Changes: changes}))
	})
	found.Step = guarded
	if sides.blank {
		stopped(guards)
	}
	problems := draft{unread: variables.UnknownOf(s.sync)}.judgeableIn(sides.after.Set, s.Head.FS, mistakes(found, append(sides.refused, relocated(found.Step.Changes)...)))
	r := report.NewProposal(found.Proposal, problems)
	r.Forecast, r.Guards = impact.OrUnknown(f, unforeseen), append(guards, sides.doubts...)
	veil(found.Proposal, &r)
	r.Binding = &report.Binding{
		Cluster: clusterIn(sides.after.Set), Base: s.base, BaseCommit: s.Base.Commit, HeadCommit: s.Head.Commit, MergeBase: s.MergeBase.Commit,
	}
	if !p.offline {
		r.Binding.Observed = p.seen.oldest()
	}
	return review{report: r, reviewed: telling(found.Step, f, unforeseen)}, nil
}

// bounded refuses a step that changes too much to be planned for whoever proposes it.
func (p *proposer) bounded(s sides, base string) error {
	n := 0
	for _, item := range s.after.Set.Items() {
		was, there := s.before.Set.Get(item.Key)
		if !there || was.Version != item.Version || !state.Equal(was.Object, item.Object) {
			n++
		}
	}
	for _, item := range s.before.Set.Items() {
		if _, stays := s.after.Set.Get(item.Key); !stays {
			n++
		}
	}
	if p.most == 0 || n <= p.most {
		return nil
	}
	return state.Failf(state.Fix, "TooLarge", "the change is too large to plan: it changes %d objects, and %d at most are planned for a pull request; "+
		"split it, or run `poolwright plan --base %s` with your own access to the cluster", n, p.most, base)
}

// inObject is a file, and the words that begin what is wrong with an object in it.
type inObject struct{ file, object string }

// mistakes are those that the step brings. What the worlds say of an object already is
// not said once more in the words of its schema.
func mistakes(found reconciler.Proposal, refused []state.Problem) []state.Problem {
	out := without(found.Problems, found.Old)
	// A mistake in an object begins with its key.
	object := func(o state.Problem) (of inObject, said bool) {
		key, _, said := strings.Cut(o.Message, ": ")
		return inObject{o.Origin.File, key}, said
	}
	told := make(map[inObject]bool, len(found.Problems))
	for _, p := range found.Problems {
		if of, said := object(p); said {
			told[of] = true
		}
	}
	for _, o := range refused {
		if of, _ := object(o); !told[of] {
			out = append(out, o)
		}
	}
	return slices.Compact(lint.Sorted(out))
}

// veil takes what the step's objects keep secret out of those texts of the report that
// were added to it: they may quote errors, which may quote objects. A report masks the
// words of problems so, and one of nothing else is made for that.
func veil(p plan.Proposal, r *report.Report) {
	var texts []*string
	r.Guards = slices.Clone(r.Guards)
	for i := range r.Guards {
		texts = append(texts, &r.Guards[i].Text)
	}
	if r.Forecast != nil && len(r.Forecast.Unknown) > 0 {
		told := *r.Forecast
		told.Unknown = slices.Clone(told.Unknown)
		for i := range told.Unknown {
			texts = append(texts, &told.Unknown[i].Text)
		}
		r.Forecast = &told
	}
	if len(texts) == 0 {
		return
	}
	said := make([]state.Problem, len(texts))
	for i, text := range texts {
		said[i].Message = *text
	}
	for i, problem := range report.NewProposal(p, said).Problems {
		*texts[i] = problem.Message
	}
}

// telling are the consequences of a step that a review is told; nil where pools change
// and nobody can say what becomes of their nodes.
func telling(p plan.Plan, f *provision.Forecast, unforeseen error) *v1alpha1.ReviewedConsequences {
	switch {
	case unforeseen == nil && f != nil:
	case len(impact.Change{Changes: p.Changes}.Pools()) > 0:
		return nil
	default:
		f = &provision.Forecast{} // Whatever became of pods, no node is replaced.
	}
	return new(impact.Reviewed(p, f))
}
