package pullrequest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

const (
	// passTime is how long a pass goes on planning. What is left waits for the next one,
	// which first reads what has become of it.
	passTime = 10 * time.Second
	// maxRefreshes is how many plans a pass makes again at most only because time has
	// passed or live objects have moved.
	maxRefreshes = 8
	// soon is when a pass that did not get through comes back.
	soon = time.Second
	// callTime bounds one call of a forge.
	callTime = time.Minute
	// maxWait bounds how long a Planner waits for others in one call. With four workers
	// three others at most are before a child, each of which ends after 90 seconds; what
	// was rendered until then is remembered for the next try.
	maxWait = 5 * time.Minute
)

// PlanTime is how long a Planner may work in one call, without the time that it waits for
// others.
const PlanTime = 3 * time.Minute

// pass is one visit to a Sync's pull requests.
type pass struct {
	*Reconciler
	sync *v1alpha1.Sync
	s    *session
	// started is when the pass began, now when it last read the clock.
	started, now time.Time
	// after is when the next pass is due.
	after time.Duration
	// suffix is "(cluster)", as statuses show it.
	suffix string
	// refused counts the calls that a forge refused for good in this pass.
	refused int
	// forgeFailure is what kept the pass from telling something.
	forgeFailure forgeFailure
	// open counts the pull requests into the branch.
	open int
	// heard is when the forge last listed what there is.
	heard time.Time
	// over is set once the Sync is another one than the pass began with.
	over bool
}

// run reads what there is, plans what has moved, reports it, and follows what was
// merged.
func (p *pass) run(ctx context.Context) {
	p.readDrift()
	listing, err := p.list(ctx)
	if err != nil {
		p.failed(err)
		return
	}
	name, err := p.cluster(ctx)
	if err != nil {
		p.noSession(classifySetup(err))
		return
	}
	p.s.listing = listing
	p.suffix = "(" + name + ")"
	open, merged := p.scope()
	p.open = open
	p.review(ctx)
	if !p.stopped(ctx) {
		p.follow(ctx, merged)
	}
	if p.forgeFailure.reason == "" {
		p.s.backoff = limits.Backoff{}
		p.owe()
	}
	log(ctx).V(1).Info("Checked pull requests", "open", p.open, "after", p.after)
}

// list asks the forge what there is.
func (p *pass) list(ctx context.Context) (forge.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	listing, err := p.s.Forge.PullRequests(ctx, p.s.listing)
	p.heard = p.Clock.Now()
	return listing, err
}

// stopped reports that the pass must not ask the forge for anything more.
func (p *pass) stopped(ctx context.Context) bool {
	return ctx.Err() != nil || p.over || p.forgeFailure.passing || p.refused > 1
}

// scope forgets the pull requests that are none of the Sync's any more. It counts
// those that are open into its branch, and returns those that were merged into it,
// the oldest merge first.
func (p *pass) scope() (open int, merged []forge.PullRequest) {
	listed, ours := map[int64]bool{}, map[int64]bool{}
	for _, pr := range p.s.listing.Open {
		listed[int64(pr.Number)] = true
		if pr.Base.Name == p.branch() {
			open++
			ours[int64(pr.Number)] = p.ours(pr)
		}
	}
	for _, pr := range p.s.listing.Merged {
		listed[int64(pr.Number)] = true
		if pr.Base.Name == p.branch() && p.ours(pr) {
			ours[int64(pr.Number)] = true
			merged = append(merged, pr)
		}
	}
	for number, rec := range p.s.records {
		switch {
		case ours[number]:
		case !listed[number] && rec.unfinished(p.now):
			merged = append(merged, rec.unlisted())
		default:
			delete(p.s.records, number)
		}
	}
	slices.SortFunc(merged, func(a, b forge.PullRequest) int {
		return cmp.Or(a.Merged.Compare(b.Merged), cmp.Compare(a.Number, b.Number))
	})
	return open, merged
}

// ours reports whether the pull request may be commented on.
func (p *pass) ours(pr forge.PullRequest) bool {
	return !pr.Fork || p.sync.Spec.PullRequests.Forks
}

// branch is the one that the Sync follows.
func (p *pass) branch() string {
	return cmp.Or(p.sync.Spec.Source.Git.Ref.FollowedBranch(), "main")
}

// readDrift records what the Sync reports of live objects, and since when.
func (p *pass) readDrift() {
	c := conditionOf(p.sync, "Drifted")
	hash := state.Hash(struct {
		Status, Reason, Message string
		Pending                 []v1alpha1.PendingChange
	}{string(c.Status), c.Reason, c.Message, p.sync.Status.Pending})
	if hash != p.s.live.hash {
		p.s.live = driftStatus{hash, p.now}
	}
}

// stabilizationWindow is how long live objects must have stayed as they are before a plan
// is computed again: what drifts and is corrected at once changes no comment.
const stabilizationWindow = 10 * time.Second

// stable reports whether the Sync has reported the same drift for the stabilization
// window, and otherwise requeues the pull requests at its end.
func (p *pass) stable() bool {
	left := p.s.live.since.Add(stabilizationWindow).Sub(p.now)
	if left > 0 {
		p.requeueAfter(left)
	}
	return left <= 0
}

// requeueAfter lets the next pass come no later than that.
func (p *pass) requeueAfter(after time.Duration) { p.after = min(p.after, max(after, soon)) }

// marker is by what the comments of this Sync are found again.
func (p *pass) marker() forge.Marker {
	identity := p.s.Identity
	if identity == "" {
		identity = string(p.sync.UID)
	}
	return forge.NewMarker("plan", p.sync.Namespace+"/"+p.sync.Name, identity)
}

// cluster is how statuses name this cluster. Where several of its Syncs tell the
// pull requests of one repository, all but the oldest add their own names: that it
// does not know the others is an error, for it would write over what they say.
func (p *pass) cluster(ctx context.Context) (string, error) {
	name := p.s.Cluster
	if name == "" {
		return p.sync.Name, nil
	}
	var list v1alpha1.SyncList
	if err := p.Client.List(ctx, &list, client.InNamespace(p.sync.Namespace)); err != nil {
		return "", fmt.Errorf("listing Syncs: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Spec.PullRequests != nil && Address(other) == p.s.address && older(other, p.sync) {
			return name + "/" + p.sync.Name, nil
		}
	}
	return name, nil
}

// older orders Syncs by their age, and those of one second by their names.
func older(a, b *v1alpha1.Sync) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// commit is that of a revision, written branch@sha1:commit.
func commit(revision string) string { return revision[strings.LastIndex(revision, ":")+1:] }

// short is a commit's name as people know it. Only hexadecimal digits are one.
func short(sha string) string {
	if strings.Trim(sha, "0123456789abcdef") != "" {
		return "?"
	}
	return sha[:min(len(sha), 7)]
}
