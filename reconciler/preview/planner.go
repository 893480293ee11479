package preview

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/pullrequest"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/timeout"
)

// Planner implements pullrequest.Planner for the pull requests of one Sync. It is for one call
// at a time.
type Planner struct {
	*Previewer
	Revisions Revisions
	// Sync is the one whose pull requests they are, as it was when the Planner was made.
	Sync *v1alpha1.Sync
	// Live reads without a cache.
	Live  client.Reader
	Clock clock.WithDelayedExecution
	// Cluster is the one whose nodes PendingReplacement counts, and Drifted returns those of a snapshot
	// that Karpenter will replace, with why those of a pool are not known, by pool.
	Cluster forecasting.LiveCluster
	Drifted func(context.Context, v1alpha1.ClusterSpec, provision.ClusterSnapshot) ([]provision.Node, map[string][]string, error)
	// PoolCosts, where it is not nil, returns what the nodes of a snapshot cost an hour, by pool.
	PoolCosts func(context.Context, v1alpha1.ClusterSpec, provision.ClusterSnapshot) (map[string]provision.Amount, error)

	// compared are what was compared by numbers of pull requests, all with tip.
	compared map[int]compared
	tip      string
}

// Plan implements pullrequest.Planner.
func (p *Planner) Plan(ctx context.Context, pr forge.PullRequest) (report.Report, *v1alpha1.ReviewedDisruption, time.Duration, error) {
	working, limit := timeout.Start(ctx, p.Clock, pullrequest.PlanTime)
	out, reviewed, err := p.plan(working, pr)
	took := limit.Stop()
	if err == nil && ctx.Err() != nil {
		// It may lack what was not there in time, such as its forecast.
		err = fmt.Errorf("planning: %w", context.Cause(ctx))
	}
	return out, reviewed, took, err
}

func (p *Planner) plan(ctx context.Context, pr forge.PullRequest) (report.Report, *v1alpha1.ReviewedDisruption, error) {
	sync, err := p.current(ctx)
	if err != nil {
		return report.Report{}, nil, err
	}
	between, err := p.compare(ctx, pr, sync)
	if err != nil {
		return report.Report{}, nil, err
	}
	out, reviewed, err := p.Preview(ctx, RevisionRange{Comparison: between, BaseName: p.branch(), Path: sync.Spec.Path, Sync: sync})
	if err != nil {
		delete(p.compared, pr.Number) // It may be the cache's fault.
	}
	return out, reviewed, err
}

// Drift implements pullrequest.Planner: a merge of the followed branch into itself.
func (p *Planner) Drift(ctx context.Context) (report.Report, error) {
	ctx, limit := timeout.Start(ctx, p.Clock, pullrequest.PlanTime)
	defer limit.Stop()
	at, err := p.Revisions.Compare(ctx, p.base(), p.base())
	if err != nil {
		return report.Report{}, sourceFailure(err)
	}
	sync, err := p.current(ctx)
	if err != nil {
		return report.Report{}, err
	}
	out, _, err := p.Preview(ctx, RevisionRange{Comparison: at, BaseName: p.branch(), Path: sync.Spec.Path, Sync: sync})
	return out, err
}

// Contains implements pullrequest.Planner.
func (p *Planner) Contains(ctx context.Context, applied, merge string) (bool, error) {
	if applied == merge {
		return true, nil
	}
	return p.Revisions.Contains(ctx, p.base(), applied, merge)
}

// current is the Sync with the rules that hold now: guards and policies change more
// often than sources.
func (p *Planner) current(ctx context.Context) (*v1alpha1.Sync, error) {
	var sync v1alpha1.Sync
	if err := p.Live.Get(ctx, client.ObjectKeyFromObject(p.Sync), &sync); err != nil {
		return nil, fmt.Errorf("reading Sync %s: %w", p.Sync.Name, err)
	}
	return &sync, nil
}

func (p *Planner) branch() string {
	if b := p.Sync.Spec.Source.Git.Ref.Branch; b != "" {
		return b
	}
	return "main"
}

func (p *Planner) base() string { return "refs/heads/" + p.branch() }

// sourceFailure classifies a Git error by who can mend it. What the head's author can mend,
// such as a tree beyond a limit, is not tried again before the head moves.
func sourceFailure(err error) error {
	for _, fix := range []error{gitsource.ErrLimit, gitsource.ErrUnsafe} {
		if errors.Is(err, fix) {
			return state.Fail(state.Stalled, "UnusableTree", err)
		}
	}
	if errors.Is(err, gitsource.ErrStorage) {
		return state.Fail(state.Retry, "StorageOperationFailed", err)
	}
	return state.Fail(state.Retry, "SourceUnavailable", err)
}

// Revisions are those of a repository.
type Revisions interface {
	Compare(ctx context.Context, base, head string) (gitsource.Comparison, error)
	CompareCached(base, head gitsource.Revision) (gitsource.Comparison, bool)
	Contains(ctx context.Context, ref, commit, ancestor string) (bool, error)
}

// position is where the forge and the Sync have a head and its base.
type position struct{ head, base, attempted string }

// compared are the commits that were compared at that position. Their trees are not
// kept: who opens a pull request chooses how large they are.
type compared struct {
	position
	base, head gitsource.Revision
}

// comparisonsKept is how many are cached.
const comparisonsKept = 256

// compare is what lies between the followed branch and the pull request's head. Plans
// are made again now and then because live objects move; of a hundred idle pull requests
// none reads Git for that. A Sync that does not read its branch does not detect that it
// moved: then Git is read each time.
func (p *Planner) compare(ctx context.Context, pr forge.PullRequest, sync *v1alpha1.Sync) (gitsource.Comparison, error) {
	_, attempted, _ := strings.Cut(sync.Status.LastAttemptedRevision, "sha1:")
	now := position{head: pr.Head.SHA, base: pr.Base.SHA, attempted: attempted}
	if was, ok := p.compared[pr.Number]; ok && was.position == now && attempted != "" && !sync.Spec.Suspend {
		if between, ok := p.Revisions.CompareCached(was.base, was.head); ok {
			return between, nil
		}
	}
	between, err := p.Revisions.Compare(ctx, p.base(), pr.Ref())
	if err != nil {
		return between, sourceFailure(err)
	}
	if between.Head.Commit == between.MergeBase.Commit {
		// The forge still lists it as open: its status must not be lost.
		return between, state.Failf(state.Retry, "AlreadyMerged", "planning the merge: %s has the head already", p.branch())
	}
	if len(p.compared) >= comparisonsKept || between.Base.Commit != p.tip {
		p.compared = nil // The others are to be compared with the new tip as well.
	}
	if between.Head.Commit == pr.Head.SHA {
		if p.compared == nil {
			p.compared = map[int]compared{}
		}
		p.compared[pr.Number] = compared{now, gitsource.Revision{Ref: p.base(), Commit: between.Base.Commit}, gitsource.Revision{Ref: pr.Ref(), Commit: between.Head.Commit}}
		p.tip = between.Base.Commit
	}
	return between, nil
}
