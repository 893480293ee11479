package pullrequest

import (
	"cmp"
	"slices"
	"time"

	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// The bounds of what pull requests cost, however often they are pushed to and by whom.
const (
	// maxCommentBytes is how many bytes of comments a Sync's review keeps, to be written again
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

// overBudget reports whether the author of a pull request, or it alone, has used what they may:
// others may be allowed to push to it, too, and its author has further ones. The record is
// nil for a new one.
func (p *pullRequestRun) overBudget(pr forge.PullRequest, rec *entry) bool {
	return p.s.usage.Of(pr.Author, p.now) > limits.MaxAuthorUsage || rec != nil && rec.made.spent.Of(p.now) > limits.MaxPullRequestUsage
}

// planValidity is how long a new plan is taken to hold although nothing is known to have
// moved: not all that it depends on, such as nodes and quotas, is reported when it
// does. See [entry.replanInterval] for one that stays the same.
const planValidity = 5 * time.Minute

// replanInterval is how long a plan is taken to hold although nothing is known to have moved:
// ever longer while it stays the same, and longer where it takes long.
func (e *entry) replanInterval() time.Duration {
	return max(min(planValidity<<min(e.made.same, 10), maxReplanInterval), replanBackoffFactor*e.made.duration)
}

// evictComments gives up the comments that were written longest ago, until the rest fits.
// Where one of those is deleted, a new plan replaces it.
func (s *pullRequestState) evictComments() {
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
		n = len(e.publication.Body)
	}
	if e.good != nil && e.good != e.publication {
		n += len(e.good.Body)
	}
	return n
}
