package pullrequest

import (
	"context"
	"slices"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// follow reports what came of merges, the oldest first.
func (p *pullRequestRun) follow(ctx context.Context, merged []forge.PullRequest) {
	p.now = p.Clock.Now()
	found := p.drifted(ctx)
	driftComment := p.driftComment(merged, found)
	all := p.followed(merged, driftComment)
	p.s.containsCheck = containsCheck{backoff: p.s.containsCheck.backoff}
	for _, f := range failedChecksLast(all) {
		p.advance(ctx, f.pr, f.rec)
	}
	left := p.pendingReplacements(ctx)
	begun := p.Clock.Now()
	for i, f := range all {
		if p.stopped(ctx) {
			return
		}
		if i > 0 && p.Clock.Now().Sub(begun) >= planningTime {
			p.requeueAfter(soon)
			return
		}
		drifted := drift{known: found.known}
		if f.rec.item.Number == driftComment {
			drifted = found
		}
		p.finish(ctx, f.pr, f.rec, left, drifted)
	}
}

// followed is a merged pull request that something is reported of.
type followed struct {
	pr  forge.PullRequest
	rec *entry
}

// followed are those of the merged ones, in their order.
func (p *pullRequestRun) followed(merged []forge.PullRequest, driftComment int64) []followed {
	var all []followed
	for _, pr := range merged {
		number := int64(pr.Number)
		rec := p.s.records[number]
		switch {
		case rec != nil:
		case p.now.Sub(pr.Merged) < recent:
			rec = &entry{item: v1alpha1.PullRequestStatus{Number: number}}
		case number == driftComment:
			rec = &entry{item: v1alpha1.PullRequestStatus{Number: number, Phase: v1alpha1.PullRequestDone}}
			rec.mergedUnplanned()
		default:
			continue
		}
		p.s.records[number] = rec
		all = append(all, followed{pr, rec})
	}
	return all
}

// mergedUnplanned records that nothing was reported of the merged head.
func (e *entry) mergedUnplanned() {
	e.item.CommentKind, e.item.CommentEditOnly = v1alpha1.PullRequestCommentOutcome, true
}

// advance leads a pull request as far as the merge and its being applied have come.
func (p *pullRequestRun) advance(ctx context.Context, pr forge.PullRequest, rec *entry) {
	item := &rec.item
	if item.Phase == v1alpha1.PullRequestDone {
		return
	}
	if !rec.merged() {
		if !p.concluded(ctx, pr, rec) {
			return // The next pass tries again.
		}
		*rec = entry{item: *item, post: rec.post}
		item = &rec.item
		item.Phase = v1alpha1.PullRequestMerged
		switch {
		case item.CommentKind == "":
			item.Head = pr.Head.SHA
			rec.mergedUnplanned()
		case pr.Head.SHA != "" && item.Head != pr.Head.SHA:
			// What was reported is of an older head: nobody reviewed what was merged.
			*item = v1alpha1.PullRequestStatus{Number: item.Number, Phase: item.Phase, Head: pr.Head.SHA, MergedOtherHead: true}
			rec.mergedUnplanned()
		}
	}
	if item.MergeCommit == "" {
		item.MergeCommit = pr.MergeCommit
	}
	if item.MergedTime == nil && !pr.Merged.IsZero() {
		item.MergedTime = stamp(pr.Merged)
	}
	if item.Phase == v1alpha1.PullRequestMerged && p.applied(ctx, rec) {
		item.Phase = v1alpha1.PullRequestRollingOut
		item.AppliedTime = stamp(p.now)
		if t := p.sync.Status.LastAppliedTime; t != nil {
			item.AppliedTime = stamp(t.Time)
		}
	}
}

// applied reports whether the applied revision holds the merge. A result of no is
// checked again only for another revision.
func (p *pullRequestRun) applied(ctx context.Context, rec *entry) bool {
	revision := commit(p.sync.Status.LastAppliedRevision)
	if revision == "" || revision == rec.rollout.checkedApplied {
		return false
	}
	holds, ok := p.contains(ctx, revision, rec)
	if ok && !holds {
		rec.rollout.checkedApplied = revision
	}
	return holds
}

// contains reports whether the revision holds the merge. It is not checked after a check
// of this pass had no result, or when they have taken a planningTime; what has had no result
// before is checked again ever more slowly.
func (p *pullRequestRun) contains(ctx context.Context, revision string, rec *entry) (holds, ok bool) {
	h := &p.s.containsCheck
	began := p.Clock.Now()
	rest := h.backoff.Until.Sub(began)
	switch {
	case h.failed || ctx.Err() != nil:
		return false, false
	case h.duration >= planningTime:
		p.requeueAfter(soon)
		return false, false
	case !rec.rollout.checkFailedAt.IsZero() && rest > 0:
		p.requeueAfter(rest)
		return false, false
	}
	checking, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	holds, err := p.s.Planner.Contains(checking, revision, rec.merge())
	now := p.Clock.Now()
	h.duration += now.Sub(began)
	if err != nil {
		log(ctx).Info("Cannot find out whether a merge is applied", "revision", revision, "merge", rec.merge(), "why", failure.Text(err))
		h.failed, rec.rollout.checkFailedAt = true, now
		h.backoff.Failed(now, time.Time{})
		p.requeueAfter(h.backoff.Until.Sub(now))
		return false, false
	}
	h.backoff, rec.rollout.checkFailedAt = limits.Backoff{}, time.Time{}
	return holds, true
}

// failedChecksLast puts those of which a check failed behind all others, the longest ago
// first: one that can never be determined must not keep the others from being checked.
func failedChecksLast(all []followed) []followed {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b followed) int { return a.rec.rollout.checkFailedAt.Compare(b.rec.rollout.checkFailedAt) })
	return out
}
