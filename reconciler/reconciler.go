// Package reconciler is the order of the steps from a Git repository to the
// outside targets, and nothing else: fetch, load, expand, observe, compute, apply.
// Running once is the same function as running for ever.
//
// It refuses to depend on how any step works, and writes no status: who calls it does.
// Start reading at Loop.RunOnce.
package reconciler

import (
	"context"
	"fmt"
	"math"
	"sync"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// Loader turns a snapshot into what it declares. Problems in single objects
// come in the result; an error means that nothing can be concluded from the
// snapshot.
type Loader func(ctx context.Context, snapshot gitsource.Snapshot) (declared.Declared, error)

// NamedTarget is a Target under the name that its Items' keys carry.
type NamedTarget struct {
	Name   string
	Target targets.Target
}

// Loop leads one source to its targets. Its methods may be called from several
// goroutines; they run one at a time, except that a source or a Loader that keeps
// Fetch waiting holds up nobody else.
type Loop struct {
	source gitsource.Source
	load   Loader
	// inputs is what a load depends on beside the snapshot; may be nil.
	inputs  Inputs
	targets []NamedTarget
	// cache keeps revisions between runs.
	cache *RevisionCache
	// applied is the revision that an earlier process applied last, appliedTreeID that of its files; may be empty.
	applied, appliedTreeID string
	// dependencies is why a revision must not be applied yet; may be nil.
	dependencies func(ctx context.Context, revision, treeID string) error
	// record is called when a run begins to make changes, and what it returns with the result; may be nil.
	record func() (ended func(Result))

	// fetching is held while the source is read and what it gave is loaded, which may
	// take minutes; taken before mu. last is written under both.
	fetching sync.Mutex

	// mu is one lock for all targets. An Apply in the cluster therefore waits for
	// an Observe of AWS in a full run, which targets/aws bounds to half a minute.
	// A lock for each target alone would not help: what drifts is a reconciliation of the
	// Sync like the full run, reconciliations of one Sync never overlap, and what one
	// hands to the next (what package controller keeps of a Sync) relies on that.
	mu sync.Mutex
	// last is the newest revision, planned the newest that was compared with
	// the targets; active is what that declares with which a run works, or will, and which is in
	// no cache meanwhile; nil where none does.
	last, planned *revision
	active        *decodedRevision
	// waiting is true while a revision must not be applied yet, and plannedWaiting where that was
	// so when everything was planned last.
	waiting, plannedWaiting bool
}

// revision is the newest snapshot that could be loaded.
type revision struct {
	snapshot gitsource.Snapshot
	// inputsDigest is what else it was loaded with, load loads it again with just that.
	inputsDigest string
	load         Loader
	// size is what its contents take, in bytes; kept are those in the cache, which guards it.
	size int64
	kept *decodedRevision
	// resumed is true for what an earlier process applied, from which only drift is corrected.
	resumed bool
	// trim is that of its Loop.
	trim func()
	// problems are filled in by the first plan of the revision.
	problems []state.Problem
	// held is what was held for its nodes, losses or quotas when all was planned, with the reasons, dependents what
	// was held for what depends on it (plan.Change.HeldForDependent), and provisions what the
	// revision declares of what nodes are made from.
	held              map[state.Key]hold.Reasons
	dependents        map[state.Key]hold.Reasons
	nodeConfiguration []plan.Fingerprint
}

// NewLoop makes a Loop over the targets, which are changed in the given order.
func NewLoop(source gitsource.Source, load Loader, targets ...NamedTarget) *Loop {
	return &Loop{source: source, load: load, targets: targets, cache: NewRevisionCache(math.MaxInt64, math.MaxInt64)}
}

// Inputs finds out what a load depends on beside the snapshot: its digest, and the Loader
// that loads with just that whenever it is called. A nil Loader is that of NewLoop.
type Inputs func(ctx context.Context) (digest string, load Loader, err error)

// WithInputs makes loads depend on something beside the snapshot, such as variables'
// values: inputs is called at each Fetch, just before a load, and where its digest is
// another than at the last one, the same snapshot is loaded again, and is a change. It
// returns the Loop, and is called before any other method.
func (l *Loop) WithInputs(inputs Inputs) *Loop {
	l.inputs = inputs
	return l
}

// WithRevisionCache makes the Loop share a RevisionCache with others; without one it keeps what it
// works with. Its Loader then loads the same revision any number of times. It returns the
// Loop, and is called before any other method.
func (l *Loop) WithRevisionCache(shared *RevisionCache) *Loop {
	l.cache = shared
	return l
}

// WithRecord has record called when a run begins to make changes, and what that returns with the result of each run that
// had any to make, made or not. Both must return at once. It returns the Loop, and is called before any other method.
func (l *Loop) WithRecord(record func() (ended func(Result))) *Loop {
	l.record = record
	return l
}

// Options is how careful a run must be.
type Options struct {
	// Policies are applied to the plan in their order.
	Policies []plan.Policy
	// Guard is called after them with what the plan's consequences allow, and holds
	// what they do not. It may take its time and read the targets, so it is called only
	// where a revision changes what nodes are made from: see [plan.Plan.Guarded]. Nil lets
	// everything pass. Finalize does not call it.
	Guard func(ctx context.Context, p plan.Plan) plan.Plan
	// Apply configures how the plan is carried out.
	Apply apply.Options
}

// Result is what a run found and did.
type Result struct {
	// Revision is what was loaded, branch@sha1:commit.
	Revision string
	// TreeID identifies the files of Revision, as [gitsource.Snapshot] has it; may be empty.
	TreeID string
	// Changed is true where Fetch found another Revision than that which was compared with the
	// targets last.
	Changed bool
	// Problems are those of the repository. While there are any, nothing is
	// deleted.
	Problems []state.Problem
	// Plan is what separates the targets from the revision.
	Plan plan.Plan
	// Outcome is what became of the plan; zero where nothing was applied.
	Outcome apply.Outcome
	// SourceError is why the source could not be read, or its newest
	// revision not be loaded, when the run used the last good revision instead.
	SourceError error
	// AttemptedRevision is the newest revision that was read, where it could not be loaded and
	// Revision is an earlier one, or where it must not be applied yet; else empty.
	AttemptedRevision string
	// OriginRevision is the [gitsource.Snapshot]'s of AttemptedRevision or, where that is empty, of Revision; may be empty.
	OriginRevision string
	// OnlyDrift is true where only drift from Revision is put back, and no other change is planned: it
	// is what an earlier process applied last, or no revision must be applied yet.
	OnlyDrift bool
}

// withSnapshot returns the Result of the snapshot that is planned, which may be of an earlier revision than AttemptedRevision.
func (r Result) withSnapshot(s gitsource.Snapshot) Result {
	r.Revision, r.TreeID = s.Revision, s.TreeID
	if r.AttemptedRevision == "" {
		r.OriginRevision = s.OriginRevision
	}
	return r
}

// OriginOfRevision is the OriginRevision of Revision; empty where that is of AttemptedRevision.
func (r Result) OriginOfRevision() string {
	if r.AttemptedRevision != "" {
		return ""
	}
	return r.OriginRevision
}

// Fetch reads the source and reports the revision to use: the newest, or the
// last good one with the reason in Result.SourceError. An error means that there is no revision to
// work with.
func (l *Loop) Fetch(ctx context.Context) (Result, error) {
	l.fetching.Lock()
	defer l.fetching.Unlock()
	snapshot, stale := l.source.Fetch(ctx)
	return l.loadSnapshot(ctx, snapshot, stale)
}

// Plan fetches the source and is what a run would do.
func (l *Loop) Plan(ctx context.Context, opts Options) (Result, error) {
	fetched, err := l.Fetch(ctx)
	if err != nil {
		return fetched, err
	}
	if err := l.acquire(ctx, false); err != nil {
		return fetched, err
	}
	defer l.release()
	return l.plan(ctx, fetched, opts, false)
}

// RunOnce leads the targets to the source's newest revision.
func (l *Loop) RunOnce(ctx context.Context, opts Options) (Result, error) {
	fetched, err := l.Fetch(ctx)
	if err != nil {
		return fetched, err
	}
	return l.RunFetched(ctx, fetched, opts)
}

// RunFetched is RunOnce for a caller that has just called Fetch.
func (l *Loop) RunFetched(ctx context.Context, fetched Result, opts Options) (Result, error) {
	if err := l.acquire(ctx, false); err != nil {
		return fetched, err
	}
	defer l.release()
	result, err := l.plan(ctx, fetched, opts, true)
	if err != nil {
		return result, err
	}
	return l.apply(ctx, result, opts)
}

// CorrectDrift puts back the given things, and no others, to the revision that was
// planned last. It never deletes and does not read the source.
func (l *Loop) CorrectDrift(ctx context.Context, keys []state.Key, opts Options) (Result, error) {
	if err := l.acquire(ctx, true); err != nil {
		return Result{}, err
	}
	defer l.release()
	if l.planned == nil {
		return Result{}, state.Failf(state.Retry, fluxmeta.ProgressingReason, "correcting drift: no revision has been planned yet")
	}
	result := Result{Revision: l.planned.snapshot.Revision, TreeID: l.planned.snapshot.TreeID, OriginRevision: l.planned.snapshot.OriginRevision, Problems: l.planned.problems}
	all, err := l.desired(ctx)
	if err != nil {
		return result, err
	}
	desired, observed := state.Set{}, state.Set{}
	for _, w := range l.targets {
		some := all[w.Name].Only(keys)
		found, err := observeOnly(ctx, w.Target, some)
		if err != nil {
			return result, fmt.Errorf("observing %s: %w", w.Name, err)
		}
		desired, observed = desired.Union(some), observed.Union(found)
	}
	policies := append([]plan.Policy{plan.MarkPartial()}, l.planPolicies(l.planned, true, opts.Policies)...)
	result.Plan = plan.Compute(desired, observed, policies...)
	return l.apply(ctx, l.planned.applyGuardToPart(ctx, result, opts), opts)
}

// WithDependencyCheck makes revisions wait: check is called at each Fetch, before anything is loaded, and
// returns why the newest revision must not be applied yet, or nil where it may. While it must not,
// only drift from what is applied is put back. It returns the Loop, and is called before any other
// method.
func (l *Loop) WithDependencyCheck(check func(ctx context.Context, revision, treeID string) error) *Loop {
	l.dependencies = check
	return l
}

// Finalize deletes everything that is ours, for a source that is given up with
// its things. Policies and options count as in RunOnce. What is unknown is not
// deleted and may still be there: see Plan.Unknown of the result.
func (l *Loop) Finalize(ctx context.Context, opts Options) (Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	observed := state.Set{}
	for _, w := range l.targets {
		found, err := w.Target.Observe(ctx, state.Set{})
		if err != nil {
			return Result{}, fmt.Errorf("observing %s: %w", w.Name, err)
		}
		observed = observed.Union(found)
	}
	result := Result{Plan: plan.Compute(state.Set{}, observed, opts.Policies...)}
	return l.apply(ctx, result, opts)
}

// ResumesFrom is which revision an earlier process applied last, and the id of its files; where that is
// empty, any of the revision are. Where nothing newer can be
// loaded and the source still has it, drift from it is corrected, and nothing else is done. It
// returns the Loop, and is called before any other method.
func (l *Loop) ResumesFrom(revision, treeID string) *Loop {
	l.applied, l.appliedTreeID = revision, treeID
	return l
}
