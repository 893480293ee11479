package pullrequest

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/report/forge"
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
	// was rendered until then is cached for the next try.
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
	// forgeFailure is what kept the pass from publishing something.
	forgeFailure failure.Failure
	// open counts the pull requests into the branch.
	open int
	// heard is when the forge last listed what there is.
	heard time.Time
	// over is set once the Sync is another one than the pass began with.
	over bool
}

// stopped reports that the pass must not send the forge any more requests.
func (p *pass) stopped(ctx context.Context) bool {
	return ctx.Err() != nil || p.over || p.forgeFailure.Transient || p.refused > 1
}

// ours reports whether the pull request may be commented on.
func (p *pass) ours(pr forge.PullRequest) bool {
	return !pr.Fork || p.sync.Spec.PullRequests.Forks
}

// branch is the one that the Sync follows.
func (p *pass) branch() string {
	return cmp.Or(p.sync.Spec.Source.Git.Ref.FollowedBranch(), "main")
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

// cluster is how statuses name this cluster. Where several of its Syncs comment on the
// pull requests of one repository, all but the oldest add their own names: that the
// others cannot be listed is an error, for it would write over their statuses.
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

// short is a commit's name as people write it. Only hexadecimal digits are one.
func short(sha string) string {
	if strings.Trim(sha, "0123456789abcdef") != "" {
		return "?"
	}
	return sha[:min(len(sha), 7)]
}

// conditionOf is a condition, without when.
func conditionOf(sync *v1alpha1.Sync, kind string) metav1.Condition {
	c := meta.FindStatusCondition(sync.Status.Conditions, kind)
	if c == nil {
		return metav1.Condition{}
	}
	return metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
}

// freshFor is how long a new plan is taken to hold although nothing is known to have
// moved: not all that it depends on, such as nodes and quotas, is reported when it
// does. See [entry.lasts] for one that stays the same.
const freshFor = 5 * time.Minute

// list lists what there is at the forge.
func (p *pass) list(ctx context.Context) (forge.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	listing, err := p.s.Forge.PullRequests(ctx, p.s.listing)
	p.heard = p.Clock.Now()
	return listing, err
}

// isPlannable reports whether an open pull request is one to plan.
func (p *pass) isPlannable(pr forge.PullRequest) bool {
	return pr.Base.Name == p.branch() && p.ours(pr) && pr.Head.SHA != ""
}
