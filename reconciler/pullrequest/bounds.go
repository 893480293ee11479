package pullrequest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	gosync "sync"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// This file bounds what pull requests cost, however many are opened, pushed to and by
// whom: how many are planned, in which order, how often again, and what is kept of them.

const (
	// maxPlanned is how many open pull requests of a Sync are planned, maxPlannedPerAuthor
	// how many of those may be of one author.
	maxPlanned          = 200
	maxPlannedPerAuthor = 100
	// maxNotices is how many pull requests above those bounds are reported so in one pass.
	maxNotices = 5
	// maxCommentBytes is how many bytes of comments a Sync's session keeps, to be written again
	// should somebody delete one.
	maxCommentBytes = 8 << 20
	// maxReviewedBytes is how many bytes of reviewed consequences a Sync's status keeps,
	// maxReviewedBytesPerPullRequest how many of one pull request: etcd takes 1.5 MiB for
	// an object, and managed fields repeat them.
	maxReviewedBytes               = 128 << 10
	maxReviewedBytesPerPullRequest = 32 << 10
	// maxHeadlineLength is the number of characters of a verdict in the status.
	maxHeadlineLength = 1000
	// maxReplanInterval is the longest time after which a plan that stays the same is made
	// again.
	maxReplanInterval = 30 * time.Minute
	// replanBackoffFactor is how many times as long as a plan took it is not made again
	// only because time has passed.
	replanBackoffFactor = 10
)

// admitted are the open pull requests that are planned, and why each other is not. Authors
// take turns with their oldest ones first, so that none takes the place of all others.
func (p *pass) admitted() (planned []forge.PullRequest, refused map[int]string) {
	turn, of := map[int]int{}, map[string]int{}
	refused = map[int]string{}
	for _, pr := range p.s.listing.Open { // In the order of their numbers.
		if !p.plans(pr) {
			continue
		}
		turn[pr.Number] = of[pr.Author]
		if of[pr.Author]++; of[pr.Author] > maxPlannedPerAuthor {
			refused[pr.Number] = fmt.Sprintf("not planned: %d open pull requests of its author are planned already; close some of those", maxPlannedPerAuthor)
			continue
		}
		planned = append(planned, pr)
	}
	slices.SortStableFunc(planned, func(a, b forge.PullRequest) int { return cmp.Compare(turn[a.Number], turn[b.Number]) })
	for _, pr := range planned[min(len(planned), maxPlanned):] {
		refused[pr.Number] = fmt.Sprintf("not planned: %d open pull requests are planned already; close those that are not needed", maxPlanned)
	}
	return planned[:min(len(planned), maxPlanned)], refused
}

// notify shows beside heads that they are not planned, a few in each pass.
func (p *pass) notify(ctx context.Context, refused map[int]string) {
	sent := 0
	for _, pr := range p.s.listing.Open {
		why, is := refused[pr.Number]
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
		err := p.status(ctx, pr.Head.SHA, forge.Status{Context: p.planContext(), State: forge.Broken, Description: why, URL: pr.URL})
		if err != nil {
			p.publishFailed(rec, err)
		}
		if err == nil || permanent(err) {
			rec.announced = pr.Head.SHA
		}
	}
}

// usage is how long plans of each author were worked on of late: half of it is forgotten
// every ten minutes.
type usage map[string]spending

type spending struct {
	took time.Duration
	at   time.Time
}

const (
	halfLife = 10 * time.Minute
	// fairShare is how much more an author may have used of the planner than another
	// before the other comes first whatever it is about.
	fairShare = 30 * time.Second
	// maxAuthorUsage is what an author may have used before plans of theirs wait: with that
	// half-life a planner that never rests reaches a little more than 14 minutes.
	maxAuthorUsage = 10 * time.Minute
	// maxPullRequestUsage is the same for one pull request.
	maxPullRequestUsage = 5 * time.Minute
)

// of is what is not forgotten yet.
func (s spending) of(now time.Time) time.Duration {
	took := s.took
	for age := now.Sub(s.at); age >= halfLife && took > 0; age -= halfLife {
		took /= 2
	}
	return took
}

// plus counts a plan.
func (s spending) plus(now time.Time, took time.Duration) spending {
	return spending{took: s.of(now) + took, at: now}
}

func (u usage) of(author string, now time.Time) time.Duration { return u[author].of(now) }

// add counts a plan, and forgets authors who have not used anything of late.
func (u usage) add(author string, now time.Time, took time.Duration) {
	u[author] = u[author].plus(now, took)
	for other := range u {
		if u.of(other, now) < time.Second {
			delete(u, other)
		}
	}
}

// overBudget reports whether the author of a pull request, or it alone, has used what they may:
// others may be allowed to push to it, too, and its author has further ones. The record is
// nil for a new one.
func (p *pass) overBudget(pr forge.PullRequest, rec *entry) bool {
	return p.s.usage.of(pr.Author, p.now) > maxAuthorUsage || rec != nil && rec.made.spent.of(p.now) > maxPullRequestUsage
}

// replanInterval is how long a plan is taken to hold although nothing is known to have moved:
// ever longer while it stays the same, and longer where it takes long.
func (e *entry) replanInterval() time.Duration {
	return max(min(freshFor<<min(e.made.same, 10), maxReplanInterval), replanBackoffFactor*e.made.took)
}

// evictComments gives up the comments that were written longest ago, until the rest fits. Who
// deletes one of those is answered by another plan.
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

// dropReviewed drops the reviewed consequences that a status has no room for: nobody counts as
// having reviewed them then, which lets fewer nodes be replaced unasked.
func dropReviewed(items []v1alpha1.PullRequestStatus) {
	left := maxReviewedBytes
	for i := range items {
		n := sizeOf(items[i].Reviewed)
		if n > left {
			items[i].Reviewed = nil
			continue
		}
		left -= n
	}
}

func sizeOf(r *v1alpha1.ReviewedConsequences) int {
	if r == nil {
		return 0
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return maxReviewedBytes + 1
	}
	return len(raw)
}

// workers is how many Syncs' pull requests are looked after at a time,
// maxPassesPerRepository how many of those may be of one repository: where several Syncs
// follow it, those of others have their turn all the same.
const (
	workers                = 4
	maxPassesPerRepository = 2
)

// repositoryLimiter counts the passes under way, by repository, and bounds them.
type repositoryLimiter struct {
	mu     gosync.Mutex
	passes map[string]int
}

// tryAcquire reports whether another pass over a repository may begin; release ends it.
func (l *repositoryLimiter) tryAcquire(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.passes[address] >= maxPassesPerRepository {
		return false
	}
	if l.passes == nil {
		l.passes = map[string]int{}
	}
	l.passes[address]++
	return true
}

func (l *repositoryLimiter) release(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.passes[address]--; l.passes[address] <= 0 {
		delete(l.passes, address)
	}
}
