// Package preview plans what merging a pull request would change: it loads both sides of the
// merge, merges them as Git will, plans the step between them and forecasts what that does
// to nodes.
//
// It changes nothing, and refuses to render what a pull request contains: a Renderer does, in
// a process of its own. Start reading at Previewer.Preview.
package preview

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/admission"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/unset"
	"github.com/poolwright/poolwright/reconciler/impact"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/pullrequest"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// Step is what lies between two revisions of a Sync's folder.
type Step struct {
	gitsource.Comparison
	// BaseName is what people call the revision that is merged into.
	BaseName string
	// Path is the folder, from the root of the repository.
	Path string
	// Sync is the one that would apply it.
	Sync *v1alpha1.Sync
	// values are those of its variables, for all revisions alike.
	values substitute.Values
}

// Previewer plans steps, those of pull requests and those of whoever plans by hand:
// it is the same code. It is for one call at a time.
type Previewer struct {
	Renderer rendercache.Renderer
	Cache    *rendercache.Cache
	// SyncKey is the Sync's, among the objects of the cluster.
	SyncKey   state.Key
	Variables *variables.Current
	// Refusals are what schemas refuse of a side, while the targets expand it.
	Refusals *admission.Refusals
	// Targets are what the step would change; offline, they expand the desired state
	// and observe nothing.
	Targets []reconciler.NamedTarget
	Offline bool
	// Forecast is what changes do to nodes, pods and costs.
	Forecast impact.ForecastFunc
	Now      func() time.Time
	// ObservedAt is when what the targets and the forecast returned was observed.
	ObservedAt *ObservedAt
	// MaxChanges is how many objects a step may change to be planned; 0 for any number.
	MaxChanges int
}

// Preview plans a step. It changes nothing.
func (p *Previewer) Preview(ctx context.Context, s Step) (pullrequest.Plan, error) {
	p.ObservedAt.reset(p.Now())
	if _, err := p.Variables.Refresh(ctx); err != nil {
		return pullrequest.Plan{}, err
	}
	s.values = p.Variables.Newest()
	p.Variables.SetLoaded(s.values)
	sides, err := p.load(ctx, s)
	if err != nil {
		return pullrequest.Plan{}, err
	}
	if err := p.checkSize(sides, s.BaseName); err != nil {
		return pullrequest.Plan{}, err
	}
	found, err := reconciler.Propose(ctx, sides.before, sides.after, p.Offline, p.Targets, syncpolicy.ForRun(s.Sync)...)
	if err != nil {
		return pullrequest.Plan{}, fmt.Errorf("comparing the revisions: %w", err)
	}
	found.Step.Notes = slices.Concat(found.Step.Notes, sides.notes, variables.Notes(p.SyncKey, s.Sync, s.values))
	slices.SortStableFunc(found.Step.Notes, func(a, b plan.Note) int { return a.Key.Compare(b.Key) })
	f, forecastErr := p.Forecast(ctx, impact.Change{Before: sides.before.Set, After: sides.after.Set, Changes: found.Step.Changes})
	guarded, guards := applyGuards(s.Sync, found, func(changes []plan.Change) plan.Disruption {
		if len(pendingPools(found)) == 0 {
			return impact.Disruption(f, forecastErr)
		}
		return impact.Disruption(p.Forecast(ctx, impact.Change{Changes: changes}))
	})
	found.Step = guarded
	if sides.empty {
		setNothingApplied(guards)
	}
	problems := unset.Variables{Parameters: variables.UnknownOf(s.Sync)}.LintableIn(sides.after.Set, s.Head.FS, newProblems(found, append(sides.refused, MovedClusters(found.Step.Changes)...)))
	r := report.NewProposal(found.Proposal, problems, impact.OrUnknown(f, forecastErr), append(guards, sides.warnings...)...)
	r.Provenance = &report.Provenance{
		Cluster: clusterIn(sides.after.Set), Base: s.BaseName, BaseCommit: s.Base.Commit, HeadCommit: s.Head.Commit, MergeBase: s.MergeBase.Commit,
	}
	if !p.Offline {
		r.Provenance.Observed = p.ObservedAt.Oldest()
	}
	return pullrequest.Plan{Report: r, Head: s.Head.Commit, Base: s.Base.Commit, Reviewed: reviewed(found.Step, f, forecastErr)}, nil
}

// checkSize refuses a step that changes too much to be planned for whoever proposes it.
func (p *Previewer) checkSize(s sides, base string) error {
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
	if p.MaxChanges == 0 || n <= p.MaxChanges {
		return nil
	}
	return state.Failf(state.Stalled, "TooLarge", "the change is too large to plan: it changes %d objects, and %d at most are planned for a pull request; "+
		"split it, or run `poolwright plan --base %s` with your own access to the cluster", n, p.MaxChanges, base)
}

// reviewed are the consequences of a step for status.pullRequests; nil where pools change
// and it is not known what becomes of their nodes.
func reviewed(p plan.Plan, f *provision.Forecast, forecastErr error) *v1alpha1.ReviewedDisruption {
	switch {
	case forecastErr == nil && f != nil:
	case len(impact.Change{Changes: p.Changes}.Pools()) > 0:
		return nil
	default:
		f = &provision.Forecast{} // Whatever became of pods, no node is replaced.
	}
	return new(impact.Reviewed(p, f))
}

// clusterIn is the name of the cluster that a revision declares; empty where it
// declares none, or several.
func clusterIn(set state.Set) string {
	var names []string
	for _, item := range set.Items() {
		if admission.IsCluster(item) {
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
