package pullrequest

import (
	"context"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

// run reads what there is, plans what has moved, reports it, and follows what was
// merged.
func (p *pullRequestRun) run(ctx context.Context) {
	p.readDrift()
	listing, err := p.list(ctx)
	if err != nil {
		p.failed(err)
		return
	}
	name, err := p.cluster(ctx)
	if err != nil {
		p.withoutForge(failure.ClassifySetup(err))
		return
	}
	p.s.listing = listing
	p.suffix = "(" + name + ")"
	open, merged := p.scope()
	p.open = open
	planned, refused := p.withinLimits()
	p.review(ctx, p.tasks(planned))
	p.s.evictComments()
	p.notify(ctx, refused)
	if !p.stopped(ctx) {
		p.follow(ctx, merged)
	}
	if p.forgeFailure.Reason == "" {
		p.s.backoff = limits.Backoff{}
		p.keepFailure()
	}
	log(ctx).V(1).Info("Checked pull requests", "open", p.open, "after", p.after)
}

// readDrift records what the Sync reports of live objects, and since when.
func (p *pullRequestRun) readDrift() {
	c := conditionOf(p.sync, "Drifted")
	hash := state.Hash(struct {
		Status, Reason, Message string
		Pending                 []v1alpha1.PendingChange
	}{string(c.Status), c.Reason, c.Message, p.sync.Status.Pending})
	if hash != p.s.live.hash {
		p.s.live = driftStatus{hash, p.now}
	}
}

// list lists what there is at the forge.
func (p *pullRequestRun) list(ctx context.Context) (forge.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	listing, err := p.s.Forge.PullRequests(ctx, p.s.listing)
	p.listedAt = p.Clock.Now()
	return listing, err
}
