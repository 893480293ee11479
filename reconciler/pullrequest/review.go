package pullrequest

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

// slow is how long a plan may take before it is checked again whether the plan is still
// needed.
const slow = 2 * time.Second

// long is how long anything may take before another plan is begun.
const long = time.Second

// review plans and comments on the open pull requests that need it, for one planningTime.
func (p *pullRequestRun) review(ctx context.Context, tasks []task) {
	refreshed := 0
	for i, t := range tasks {
		p.now = p.Clock.Now()
		if p.stopped(ctx) {
			return
		}
		if i > 0 && p.now.Sub(p.started) >= planningTime {
			if t.reason != refreshDue {
				p.requeueAfter(soon)
			}
			p.markOutdated(ctx, tasks[i:])
			return
		}
		if t.reason == refreshDue {
			if refreshed++; refreshed > maxRefreshes {
				return
			}
		}
		if i > 0 && t.reason != headChanged && p.preempted(ctx) {
			return
		}
		if p.current(t.pr) {
			p.reconcileOne(ctx, t)
		}
	}
}

// preempted reports whether somebody waits for something more urgent than a head that was
// planned before: a webhook came, or, after what took its time, there is a new head.
func (p *pullRequestRun) preempted(ctx context.Context) bool {
	var now v1alpha1.Sync
	err := p.Client.Get(ctx, types.NamespacedName{Namespace: p.sync.Namespace, Name: p.sync.Name}, &now)
	if err == nil && now.Annotations[v1alpha1.WebhookAnnotation] != p.sync.Annotations[v1alpha1.WebhookAnnotation] {
		p.requeueAfter(soon)
		return true
	}
	if p.now.Sub(p.listedAt) <= long {
		return false
	}
	listing, err := p.list(ctx)
	if err != nil {
		p.failed(err)
		return true
	}
	p.s.listing = listing
	planned, _ := p.withinLimits()
	fresh := slices.ContainsFunc(planned, func(pr forge.PullRequest) bool {
		rec := p.s.records[int64(pr.Number)]
		return (rec == nil || rec.hasNewHead(pr)) && !p.overBudget(pr, rec)
	})
	if fresh {
		p.requeueAfter(soon)
	}
	return fresh
}

// markOutdated lets no status for another base stand beside the heads whose turn is yet to
// come, for one more stint, and not before somebody who is new.
func (p *pullRequestRun) markOutdated(ctx context.Context, tasks []task) {
	for _, t := range tasks {
		if t.reason != baseChanged || !p.overtaken(t.rec) || !p.current(t.pr) {
			continue
		}
		p.now = p.Clock.Now()
		if p.stopped(ctx) || p.now.Sub(p.started) >= 2*planningTime || p.preempted(ctx) || p.announce(ctx, t) != nil {
			return
		}
	}
}

// reconcileOne does what one pull request needs.
func (p *pullRequestRun) reconcileOne(ctx context.Context, t task) {
	if t.reason == publicationDue && t.rec.publication != nil {
		p.publish(ctx, t.pr, t.rec)
		return
	}
	// Who may set no status may still comment; that it is missing is noted at the end.
	if err := p.announce(ctx, t); err != nil && !permanent(err) {
		return
	}
	began := p.Clock.Now()
	planning, cancel := context.WithTimeout(ctx, PlanTime+maxWait)
	planned, reviewed, took, err := p.s.Planner.Plan(planning, t.pr)
	cancel()
	p.now = p.Clock.Now()
	if ctx.Err() != nil {
		return
	}
	result := "planned"
	if err != nil {
		result = "failed"
		if class, _, _ := state.Classify(err); class == state.Stalled {
			result = "refused"
		}
	}
	desired := p.now.Sub(began) < slow || p.reread(ctx, t.pr)
	if !desired {
		result = "outdated"
	}
	p.Metrics.planned(p.sync.Name, result, p.now.Sub(began))
	p.s.usage.Add(t.pr.Author, p.now, took)
	t.rec.made.spent = t.rec.made.spent.Plus(p.now, took)
	if !desired {
		// The next pass reads what has become of it.
		p.requeueAfter(soon)
		return
	}
	t.rec.made.duration = took
	p.recordPlan(ctx, t, planned, reviewed, err)
	if t.rec.unpublished {
		p.publish(ctx, t.pr, t.rec)
	}
}

// reread reads once more, after a plan that took its time, whether the pull request is
// as it was planned. A Sync that is another one by now ends the pass.
func (p *pullRequestRun) reread(ctx context.Context, pr forge.PullRequest) bool {
	var now v1alpha1.Sync
	if err := p.Client.Get(ctx, types.NamespacedName{Namespace: p.sync.Namespace, Name: p.sync.Name}, &now); err != nil {
		p.over = true
		return false
	}
	if !now.DeletionTimestamp.IsZero() || now.UID != p.sync.UID || now.Generation != p.sync.Generation {
		p.over = true
		return false
	}
	listing, err := p.list(ctx)
	if err != nil {
		p.failed(err)
		return false
	}
	p.s.listing = listing
	return p.current(pr)
}

// current reports whether the pull request is as it was, as far as the forge has reported.
func (p *pullRequestRun) current(pr forge.PullRequest) bool {
	return slices.ContainsFunc(p.s.listing.Open, func(o forge.PullRequest) bool {
		return o.Number == pr.Number && o.Head.SHA == pr.Head.SHA && o.Base.Name == pr.Base.Name
	})
}
