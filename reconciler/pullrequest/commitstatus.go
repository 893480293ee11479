package pullrequest

import (
	"context"
	"fmt"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

func (p *pullRequestRun) planContext() string    { return "poolwright/plan " + p.suffix }
func (p *pullRequestRun) rolloutContext() string { return "poolwright/rollout " + p.suffix }

// announce shows beside the head that it is being planned, where what stands there is
// of another head or another base. To be read again is nothing to announce.
func (p *pullRequestRun) announce(ctx context.Context, t task) error {
	s := forge.Status{Context: p.planContext(), State: forge.Pending, URL: t.pr.URL}
	moved := false
	switch {
	case t.rec.item.Head != t.pr.Head.SHA:
		s.Description = "planning " + short(t.pr.Head.SHA)
	case t.reason == baseChanged && p.overtaken(t.rec):
		moved = true
		s.Description = "planning for " + p.branch() + " at " + short(commit(p.sync.Status.LastAttemptedRevision))
	default:
		return nil
	}
	// A check that is concluded would be followed by another with all annotations again, each time that the base moves.
	err := p.setCheck(ctx, t.pr.Head.SHA, forge.Check{Status: s, KeepCompleted: moved})
	switch {
	case err == nil:
		t.rec.pending = moved
		if !moved {
			t.rec.announced = t.pr.Head.SHA
		}
	case !permanent(err):
		p.publishFailed(t.rec, err)
	}
	return err
}

// maxOverLimitStatuses is how many pull requests beyond the limits are reported so in one pass.
const maxOverLimitStatuses = 5

// notify shows beside heads that they are not planned, a few in each pass.
func (p *pullRequestRun) notify(ctx context.Context, refused map[int]int) {
	sent := 0
	for _, pr := range p.s.listing.Open {
		limit, is := refused[pr.Number]
		rec := p.s.records[int64(pr.Number)]
		if !is || rec != nil && (rec.announced == pr.Head.SHA || rec.item.Head == pr.Head.SHA) {
			continue
		}
		if sent++; sent > maxOverLimitStatuses || p.stopped(ctx) {
			return
		}
		if rec == nil {
			rec = &entry{item: v1alpha1.PullRequestStatus{Number: int64(pr.Number)}}
			p.s.records[rec.item.Number] = rec
		}
		why := fmt.Sprintf("not planned: %d open pull requests are planned already; close those that are not needed", limit)
		if limit == limits.MaxPlannedPerAuthor {
			why = fmt.Sprintf("not planned: %d open pull requests of its author are planned already; close some of those", limit)
		}
		err := p.setStatus(ctx, pr.Head.SHA, forge.Status{Context: p.planContext(), State: forge.Errored, Description: why, URL: pr.URL})
		if err != nil {
			p.publishFailed(rec, err)
		}
		if err == nil || permanent(err) {
			rec.announced = pr.Head.SHA
		}
	}
}

func (p *pullRequestRun) setStatus(ctx context.Context, sha string, s forge.Status) error {
	return p.setCheck(ctx, sha, forge.Check{Status: s})
}

// setCheck sets a check where the forge has such, and else a status.
func (p *pullRequestRun) setCheck(ctx context.Context, sha string, c forge.Check) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	c.Description = sanitize.Text(c.Description)
	if w, ok := p.s.Forge.(forge.CheckWriter); ok {
		return w.Check(ctx, sha, c)
	}
	return p.s.Forge.Status(ctx, sha, c.Status)
}
