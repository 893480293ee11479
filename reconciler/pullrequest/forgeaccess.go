package pullrequest

import (
	"context"
	"strings"
	gosync "sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Planner computes what pull requests would do. Its errors have a class
// ([state.Classify]): Stalled is the author's to mend, anything else may pass by itself.
type Planner interface {
	// Plan is what merging the pull request would do; the report's Provenance has the commits
	// that were compared. Reviewed is the disruption that it shows; nil means that it could
	// not be computed. It ends what works longer than PlanTime, waiting not included; ctx
	// bounds that and the waiting. Took is how long was worked on it, without the time that
	// was waited for what the plans of others hold, also beside an error: it is charged to
	// the author.
	Plan(ctx context.Context, pr forge.PullRequest) (r report.Report, reviewed *v1alpha1.ReviewedDisruption, took time.Duration, err error)
	// PendingReplacement reads the nodes of the cluster, with those created before the moment that Karpenter is
	// yet to replace, or whose pool went. An error reports that there may be more; the nodes
	// beside it are known all the same.
	PendingReplacement(ctx context.Context, since time.Time) (NodeReplacements, error)
	// Drift is what the live targets differ in from the applied revision now: the
	// Drift of the report where it has one, else its changes.
	Drift(ctx context.Context) (report.Report, error)
	// Contains reports whether the commit applied has the commit merge in its
	// history, or is it.
	Contains(ctx context.Context, applied, merge string) (bool, error)
}

// NodeReplacements is what is read of the live nodes for the roll-outs under way.
type NodeReplacements struct {
	// Pending are the nodes that are yet to be replaced, or to go with their pools.
	Pending []provision.Node
	// PoolCosts are what the nodes of each pool cost an hour, those that are not pending included; nil
	// where they are not known.
	PoolCosts map[string]provision.Amount
}

// ForgeAccess is what a Sync needs to comment on its pull requests.
type ForgeAccess struct {
	Forge   forge.Forge
	Planner Planner
	// Cluster is the name that commit statuses show: "poolwright/plan (prod)". The
	// Sync's name stands for an empty one.
	Cluster string
	// Identity distinguishes this cluster from all others that may comment on the same pull
	// requests, and must stay for as long as the cluster lives: by it comments are
	// found again. Such is the UID of the namespace kube-system. The Sync's UID
	// stands for an empty one.
	Identity string
	// Outdated reports that what the ForgeAccess was built from, such as the
	// credential in a Secret, has changed since. It is called before each pass; nil means
	// never. Where it cannot determine that, nothing has changed.
	Outdated func(ctx context.Context) bool
	// Close gives up what the ForgeAccess holds; may be nil.
	Close func()
}

// Builder makes the ForgeAccess of a Sync. ctx lives as long as that. It is
// called anew when spec.source, spec.path or spec.pullRequests change, and when
// the ForgeAccess is Outdated.
type Builder func(ctx context.Context, sync *v1alpha1.Sync) (ForgeAccess, error)

// pullRequestStates holds what lives between two reconciliations of a Sync.
type pullRequestStates struct {
	mu   gosync.Mutex
	open map[types.NamespacedName]*pullRequestState
}

// pullRequestState is what is kept of one Sync. Reconciliations of one Sync never overlap.
type pullRequestState struct {
	ForgeAccess
	fingerprint string
	// address is that of the repository whose pull requests these are.
	address string
	cancel  context.CancelFunc

	listing forge.Listing
	records map[int64]*entry
	// live is what the Sync reports of live objects that are not as applied, drift what a comparison found.
	live  driftStatus
	drift drift
	usage limits.ByAuthor
	// containsCheck is the state of checking it.
	containsCheck containsCheck
	backoff       limits.Backoff
	// forgeFailure is the one that was reported last.
	forgeFailure failure.Failure
	// written is the status as it was written last, nil before.
	written *v1alpha1.PullRequestsStatus
}

// driftStatus is what a Sync reports of live objects, and since when.
type driftStatus struct {
	hash  string
	since time.Time
}

// get returns the Sync's review state, anew when what it is built from has changed. A
// state that could not be built is returned with the error, so that it can wait
// before the next try.
func (s *pullRequestStates) get(ctx context.Context, sync *v1alpha1.Sync, now time.Time, build Builder) (*pullRequestState, error) {
	name := types.NamespacedName{Namespace: sync.Namespace, Name: sync.Name}
	fingerprint := state.Hash(struct {
		UID          types.UID
		Source       v1alpha1.Source
		Path         string
		PullRequests *v1alpha1.PullRequests
		Ignore       []v1alpha1.IgnoreRule
	}{sync.UID, sync.Spec.Source, sync.Spec.Path, sync.Spec.PullRequests, sync.Spec.Ignore})
	s.mu.Lock()
	old := s.open[name]
	s.mu.Unlock()
	same := old != nil && old.fingerprint == fingerprint
	if same && old.built() && (old.Outdated == nil || !old.Outdated(ctx)) {
		return old, nil
	}
	if same && !old.built() && now.Before(old.backoff.Until) {
		return old, nil
	}
	s.stop(name)
	fresh := &pullRequestState{fingerprint: fingerprint, address: Address(sync), records: recordedEntries(sync), usage: limits.ByAuthor{}}
	if old != nil {
		fresh.carryOver(old, same)
	}
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	fresh.cancel = cancel
	built, err := build(live, sync)
	if err == nil {
		fresh.ForgeAccess = built
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[types.NamespacedName]*pullRequestState{}
	}
	s.open[name] = fresh
	return fresh, err
}

// carryOver takes over what still holds of a state that was there before.
func (s *pullRequestState) carryOver(old *pullRequestState, same bool) {
	s.written, s.forgeFailure, s.usage = old.written, old.forgeFailure, old.usage
	switch {
	case same:
		s.records = old.records
		if !old.built() {
			s.backoff = old.backoff
		}
	case s.address != old.address:
		s.records = map[int64]*entry{}
	default:
		// What was reported may have been reported for another path.
		s.records = unplanned(old.records)
	}
}

// Address is where the Sync's pull requests are made, in one way of writing: the same for
// all Syncs of a repository.
func Address(sync *v1alpha1.Sync) string {
	url := sync.Spec.Source.Git.URL
	if p := sync.Spec.PullRequests; p != nil && p.URL != "" {
		url = p.URL
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimRight(url, "/"), ".git"))
}

func (s *pullRequestState) built() bool { return s.Forge != nil && s.Planner != nil }

func (s *pullRequestState) end() {
	s.cancel()
	if s.Close != nil {
		s.Close()
	}
}

// has reports whether the Sync has a review state.
func (s *pullRequestStates) has(name types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[name] != nil
}

// stop ends the Sync's review, if there is one. Closing it calls the API server and
// removes files, and is done without the lock: other Syncs do not wait for it.
func (s *pullRequestStates) stop(name types.NamespacedName) {
	s.mu.Lock()
	old := s.open[name]
	delete(s.open, name)
	s.mu.Unlock()
	if old != nil {
		old.end()
	}
}

// close ends all sessions.
func (s *pullRequestStates) close() {
	s.mu.Lock()
	all := s.open
	s.open = nil
	s.mu.Unlock()
	for _, old := range all {
		old.end()
	}
}

// drift is what the newest merged pull request reports of live objects, while the Sync
// only reports what differs.
type drift struct {
	// known is false while nobody could read it.
	known bool
	// text is Markdown, empty where nothing differs; content what identifies it.
	text, content string
	// driftHash is a hash of the Sync's status when drift was read, and at when that was.
	driftHash string
	at        time.Time
}

// containsCheck is the state of the checks whether a revision holds a merge. Each may have to
// wait for Git, and all open pull requests wait with it.
type containsCheck struct {
	// backoff is that of checking again what had no result.
	backoff limits.Backoff
	// duration is how long the checks of this pass took; failed is set once one of them had no
	// result.
	duration time.Duration
	failed   bool
}
