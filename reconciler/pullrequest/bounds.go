package pullrequest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// This file bounds what pull requests cost, however many are opened, pushed to and by
// whom: how many are planned, in which order, how often again, and what is kept of them.

const (
	// maxNotices is how many pull requests above those bounds are reported so in one pass.
	maxNotices = 5
	// maxCommentBytes is how many bytes of comments a Sync's session keeps, to be written again
	// should somebody delete one.
	maxCommentBytes = 8 << 20
	// maxHeadlineLength is the number of characters of a headline in the status.
	maxHeadlineLength = 1000
	// maxReplanInterval is the longest time after which a plan that stays the same is made
	// again.
	maxReplanInterval = 30 * time.Minute
	// replanBackoffFactor is how many times as long as a plan took it is not made again
	// only because time has passed.
	replanBackoffFactor = 10
)

// admitted are the open pull requests that are planned, and the limit that keeps each
// other one from it.
func (p *pass) admitted() (planned []forge.PullRequest, refused map[int]int) {
	return limits.Admit(slices.DeleteFunc(slices.Clone(p.s.listing.Open), func(pr forge.PullRequest) bool { return !p.isPlannable(pr) }))
}

// notify shows beside heads that they are not planned, a few in each pass.
func (p *pass) notify(ctx context.Context, refused map[int]int) {
	sent := 0
	for _, pr := range p.s.listing.Open {
		limit, is := refused[pr.Number]
		rec := p.s.records[int64(pr.Number)]
		if !is || rec != nil && (rec.announced == pr.Head.SHA || rec.item.Head == pr.Head.SHA) {
			continue
		}
		if sent++; sent > maxNotices || p.stopped(ctx) {
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
		err := p.status(ctx, pr.Head.SHA, forge.Status{Context: p.planContext(), State: forge.Broken, Description: why, URL: pr.URL})
		if err != nil {
			p.publishFailed(rec, err)
		}
		if err == nil || permanent(err) {
			rec.announced = pr.Head.SHA
		}
	}
}

// overBudget reports whether the author of a pull request, or it alone, has used what they may:
// others may be allowed to push to it, too, and its author has further ones. The record is
// nil for a new one.
func (p *pass) overBudget(pr forge.PullRequest, rec *entry) bool {
	return p.s.usage.Of(pr.Author, p.now) > limits.MaxAuthorUsage || rec != nil && rec.made.spent.Of(p.now) > limits.MaxPullRequestUsage
}

// replanInterval is how long a plan is taken to hold although nothing is known to have moved:
// ever longer while it stays the same, and longer where it takes long.
func (e *entry) replanInterval() time.Duration {
	return max(min(freshFor<<min(e.made.same, 10), maxReplanInterval), replanBackoffFactor*e.made.took)
}

// evictComments gives up the comments that were written longest ago, until the rest fits.
// Where one of those is deleted, a new plan replaces it.
func (s *session) evictComments() {
	kept := 0
	var all []*entry
	for _, rec := range s.records {
		if n := rec.commentBytes(); n > 0 {
			kept += n
			all = append(all, rec)
		}
	}
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(a.publishedAt.Compare(b.publishedAt), cmp.Compare(a.item.Number, b.item.Number))
	})
	for _, rec := range all {
		if kept <= maxCommentBytes {
			return
		}
		if rec.unpublished || rec.pending {
			continue // The forge is yet to get it.
		}
		kept -= rec.commentBytes()
		rec.publication, rec.good = nil, nil
	}
}

// commentBytes is how many bytes of comments the record holds.
func (e *entry) commentBytes() int {
	n := 0
	if e.publication != nil {
		n = len(e.publication.body)
	}
	if e.good != nil && e.good != e.publication {
		n += len(e.good.body)
	}
	return n
}

// workers is how many Syncs' pull requests are processed at a time.
const workers = 4
