package pullrequest

import (
	"context"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

const (
	// planningTime is how long a pass goes on planning. What is left waits for the next one,
	// which first reads what has become of it.
	planningTime = 10 * time.Second
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

// pullRequestRun is one reconciliation of a Sync's pull requests.
type pullRequestRun struct {
	*Reconciler
	sync *v1alpha1.Sync
	s    *pullRequestState
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
	// listedAt is when the forge last listed what there is.
	listedAt time.Time
	// over is set once the Sync is another one than the pass began with.
	over bool
}

// stabilizationWindow is how long live objects must have stayed as they are before a plan
// is computed again: what drifts and is corrected at once changes no comment.
const stabilizationWindow = 10 * time.Second

// stable reports whether the Sync has reported the same drift for the stabilization
// window, and otherwise requeues the pull requests at its end.
func (p *pullRequestRun) stable() bool {
	left := p.s.live.since.Add(stabilizationWindow).Sub(p.now)
	if left > 0 {
		p.requeueAfter(left)
	}
	return left <= 0
}

// requeueAfter lets the next pass come no later than that.
func (p *pullRequestRun) requeueAfter(after time.Duration) { p.after = min(p.after, max(after, soon)) }

// stopped reports that the pass must not send the forge any more requests.
func (p *pullRequestRun) stopped(ctx context.Context) bool {
	return ctx.Err() != nil || p.over || p.forgeFailure.Transient || p.refused > 1
}

// marker is by what the comments of this Sync are found again.
func (p *pullRequestRun) marker() forge.Marker {
	identity := p.s.Identity
	if identity == "" {
		identity = string(p.sync.UID)
	}
	return forge.NewMarker("plan", p.sync.Namespace+"/"+p.sync.Name, identity)
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
	c := conditions.Get(sync, kind)
	if c == nil {
		return metav1.Condition{}
	}
	return metav1.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
}
