// Package preview plans what merging a pull request would change: it loads both sides of the
// merge, merges them as Git will, plans what that changes and forecasts what it does
// to nodes.
//
// It changes nothing, and refuses to render what a pull request contains: a Renderer does, in
// a process of its own. Start reading at Previewer.Preview.
package preview

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/unset"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// RevisionRange is what lies between two revisions of a Sync's folder.
type RevisionRange struct {
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

// Previewer plans merges, those of pull requests and those of whoever plans by hand:
// it is the same code. It is for one call at a time.
type Previewer struct {
	Renderer rendercache.Renderer
	Cache    *rendercache.Cache
	// SyncKey is the Sync's, among the objects of the cluster.
	SyncKey   state.Key
	Variables *variables.Current
	// SchemaErrors are what schemas refuse of a revision, while the targets expand it.
	SchemaErrors *validation.Errors
	// Targets are what the merge would change; offline, they expand the desired state
	// and observe nothing.
	Targets []reconciler.NamedTarget
	Offline bool
	// Forecast is what changes do to nodes, pods and costs.
	Forecast forecasting.ForecastFunc
	Now      func() time.Time
	// ObservedAt is when what the targets and the forecast returned was observed.
	ObservedAt *ObservedAt
	// MaxChanges is how many objects a merge may change to be planned; 0 for any number.
	MaxChanges int
}

// Preview plans a merge. It changes nothing. Reviewed are the consequences that the report
// shows; nil where they could not be computed.
func (p *Previewer) Preview(ctx context.Context, s RevisionRange) (_ report.Report, reviewed *v1alpha1.ReviewedDisruption, _ error) {
	p.ObservedAt.reset(p.Now())
	if _, err := p.Variables.Refresh(ctx); err != nil {
		return report.Report{}, nil, err
	}
	s.values = p.Variables.Newest()
	p.Variables.SetLoaded(s.values)
	revisions, err := p.load(ctx, s)
	if err != nil {
		return report.Report{}, nil, err
	}
	if err := revisions.checkSize(p.MaxChanges, s.BaseName); err != nil {
		return report.Report{}, nil, err
	}
	found, err := reconciler.Propose(ctx, revisions.before, revisions.after, p.Offline, p.Targets, syncpolicy.ForRun(s.Sync, p.Now())...)
	if err != nil {
		return report.Report{}, nil, fmt.Errorf("comparing the revisions: %w", err)
	}
	found.Proposed.Notes = slices.Concat(found.Proposed.Notes, revisions.notes, variables.Notes(p.SyncKey, s.Sync, s.values))
	slices.SortStableFunc(found.Proposed.Notes, func(a, b plan.Note) int { return a.Key.Compare(b.Key) })
	f, forecastErr := p.Forecast(ctx, revisions.before.Set, revisions.after.Set, found.Proposed.Changes)
	guarded, guards := applyGuards(s.Sync, found, func(changes []plan.Change) hold.Nodes {
		if len(pendingPools(found)) == 0 {
			return forecasting.Nodes(f, forecastErr)
		}
		return forecasting.Nodes(p.Forecast(ctx, state.Set{}, state.Set{}, changes))
	})
	found.Proposed = guarded
	if revisions.empty {
		setNothingApplied(guards)
	}
	reviewed = forecasting.Reviewed(found.Proposed, f, forecastErr)
	provenance := &report.Provenance{
		Cluster: clusterIn(revisions.after.Set), Base: s.BaseName, BaseCommit: s.Base.Commit, HeadCommit: s.Head.Commit, MergeBase: s.MergeBase.Commit,
	}
	if !p.Offline {
		provenance.Observed = p.ObservedAt.Oldest()
	}
	problems := newProblems(found, append(revisions.refused, ClusterIdentityProblems(found.Proposed.Changes)...))
	problems = unset.Variables{Parameters: variables.UnknownOf(s.Sync)}.LintableIn(revisions.after.Set, s.Head.FS, problems)
	r := report.NewProposal(found, problems, forecasting.OrUnknown(f, forecastErr), append(guards, revisions.warnings...)...)
	r.Provenance = provenance
	return r, reviewed, nil
}

// ObservedAt is when the oldest of what one report states was observed. It is safe for
// concurrent use.
type ObservedAt struct {
	mu sync.Mutex
	at time.Time
}

// reset starts a new report.
func (s *ObservedAt) reset(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = now
}

// Add adds something that was observed then.
func (s *ObservedAt) Add(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Before(s.at) {
		s.at = at
	}
}

// Oldest returns the time; that of the report where nothing older was used.
func (s *ObservedAt) Oldest() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}
