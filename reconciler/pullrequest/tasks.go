package pullrequest

import (
	"cmp"
	"slices"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// reconcileReason is why a pull request is to be reconciled, the most urgent first.
type reconcileReason int

const (
	// headChanged: it is new, or was pushed to.
	headChanged reconcileReason = iota
	// baseChanged: what it would be merged into, or the Sync's rules, moved; or it could
	// not be planned before.
	baseChanged
	// publicationDue: it is planned and not published at the forge yet, or a person may
	// have deleted the comment.
	publicationDue
	// refreshDue: live objects moved, or nobody read them for a while.
	refreshDue
	// upToDate: what was reported still holds.
	upToDate
)

// task is an open pull request with the reason to reconcile it.
type task struct {
	pr     forge.PullRequest
	rec    *entry
	reason reconcileReason
}

// tasks are the open pull requests that are to be reconciled, in the order of work. Those of
// an author who has used more of the planner of late come after those of others.
func (p *pullRequestRun) tasks(planned []forge.PullRequest) []task {
	var out []task
	used := map[string]time.Duration{}
	for _, pr := range planned {
		used[pr.Author] = p.s.usage.Of(pr.Author, p.now)
		rec := p.s.records[int64(pr.Number)]
		if rec == nil || rec.merged() {
			rec = &entry{item: v1alpha1.PullRequestStatus{Number: int64(pr.Number)}}
			p.s.records[rec.item.Number] = rec
		}
		n := p.reconcileReason(pr, rec)
		if n != publicationDue && n != upToDate && p.overBudget(pr, rec) {
			p.requeueAfter(time.Minute)
			continue
		}
		if n != upToDate {
			out = append(out, task{pr, rec, n})
		}
	}
	slices.SortStableFunc(out, func(a, b task) int {
		// Among the new the newest is the one that somebody waits for.
		return cmp.Or(cmp.Compare(used[a.pr.Author]/limits.FairShare, used[b.pr.Author]/limits.FairShare), cmp.Compare(a.reason, b.reason), a.rec.made.at.Compare(b.rec.made.at), cmp.Compare(b.pr.Number, a.pr.Number))
	})
	return out
}

// hasNewHead reports whether the pull request has a head that nobody read.
func (e *entry) hasNewHead(pr forge.PullRequest) bool {
	return e.made.head != pr.Head.SHA && (e.item.Head != pr.Head.SHA || !e.made.at.IsZero())
}

// reconcileReason is why an open pull request is to be reconciled now.
func (p *pullRequestRun) reconcileReason(pr forge.PullRequest, rec *entry) reconcileReason {
	if rec.hasNewHead(pr) {
		return headChanged
	}
	if wait := max(rec.retry.Until.Sub(p.now), rec.post.Until.Sub(p.now)); wait > 0 {
		p.requeueAfter(wait)
		return upToDate
	}
	switch {
	case p.baseMoved(rec), rec.made.at.IsZero() && rec.item.Phase == v1alpha1.PullRequestFailed:
		return baseChanged
	case rec.unpublished:
		return publicationDue
	case rec.retry.Failures > 0, rec.pending:
		return baseChanged
	case !rec.made.at.IsZero() && !rec.unaffected() && pr.Updated.After(rec.verifiedAt):
		return publicationDue
	case p.stale(rec):
		return refreshDue
	}
	return upToDate
}

// stale reports whether live objects may have moved since they were read. To
// what only the author can mend they do not matter.
func (p *pullRequestRun) stale(rec *entry) bool {
	age := p.now.Sub(rec.made.at)
	switch {
	case rec.terminal(), age < replanBackoffFactor*rec.made.duration:
		return false
	case age >= rec.replanInterval():
		return true
	}
	return rec.made.driftHash != p.s.live.hash && p.stable()
}

// baseMoved reports whether the head would be merged into something else than what
// it was planned for, or under other rules.
func (p *pullRequestRun) baseMoved(rec *entry) bool {
	attempted := p.sync.Status.LastAttemptedRevision
	if !rec.made.at.IsZero() && rec.made.generation != p.sync.Generation {
		return true
	}
	if attempted == "" || commit(attempted) == rec.item.Base {
		return rec.item.Base == "" && rec.made.at.IsZero()
	}
	return rec.made.at.IsZero() || attempted != rec.made.attempted
}

// overtaken reports whether what was planned stands beside the head and holds for
// another base than the head would be merged into now.
func (p *pullRequestRun) overtaken(rec *entry) bool {
	return rec.item.Phase == v1alpha1.PullRequestPlanned && rec.item.Base != "" && !rec.pending &&
		commit(p.sync.Status.LastAttemptedRevision) != rec.item.Base && p.baseMoved(rec)
}

// terminal reports that only the author can mend what keeps the head from being
// planned.
func (e *entry) terminal() bool {
	phase := e.item.Phase
	if e.publication != nil {
		phase = e.publication.item.Phase
	}
	return phase == v1alpha1.PullRequestFailed && e.retry.Failures == 0
}
