package pullrequest

import (
	"cmp"
	"context"
	"slices"
	"strings"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// mergePhaseOf is the phase that a merge has reached. Each is reported as soon as it comes: what a
// reader takes for the state of things must not be older than it need be.
func mergePhaseOf(a report.MergeOutcome) mergePhase {
	switch {
	case !a.Applied.IsZero():
		return "applied"
	case a.Held != "":
		return "held"
	case a.Failed != "":
		return "failed"
	}
	return "merged"
}

// blockedReasons is why changes of a Sync are held; empty where none of those that its status
// lists is.
func blockedReasons(pending []v1alpha1.PendingChange) string {
	var out []string
	for _, c := range pending {
		if len(c.HeldBy) > 0 && !slices.Contains(out, c.Reason) {
			out = append(out, c.Reason)
		}
	}
	return strings.Join(out, "; ")
}

// blocked fills in what keeps a merge from being applied: what is held until a confirmation, or
// the reason for which the last try failed.
func (p *pullRequestRun) blocked(ctx context.Context, rec *entry, a *report.MergeOutcome) {
	ready := conditionOf(p.sync, fluxmeta.ReadyCondition)
	if ready.Status != metav1.ConditionFalse || !p.lastAttemptedRevisionContains(ctx, rec) {
		rec.rollout.failing = ""
		return
	}
	if slices.Contains([]string{"NodeReplacementHeld", "QuotaHeld", "PruneHeld", "SyncChangeHeld", string(hold.HoldUntil)}, ready.Reason) {
		rec.rollout.failing, a.ConfirmationToken = "", p.sync.Status.ConfirmationToken
		a.Held = cmp.Or(blockedReasons(p.sync.Status.Pending), ready.Message)
		return
	}
	stalled := conditionOf(p.sync, fluxmeta.StalledCondition).Status == metav1.ConditionTrue
	if rec.rollout.failing != ready.Reason {
		rec.rollout.failing, rec.rollout.since = ready.Reason, p.now
	}
	// What is not ready yet, or was changed by somebody else meanwhile, mostly is the
	// next moment.
	left := rec.rollout.since.Add(failureGrace).Sub(p.now)
	if left > 0 && !stalled && !slices.Contains([]string{"ApplyFailed", "InvalidManifests"}, ready.Reason) {
		p.requeueAfter(left)
		return
	}
	if ready.Reason == fluxmeta.DependencyNotReadyReason {
		a.Held = ready.Message // It names the Syncs that come first, and nothing has failed.
		return
	}
	a.Failed, a.Stalled = ready.Reason, stalled
}

// lastAttemptedRevisionContains reports whether the revision that the Sync tried last holds the merge.
func (p *pullRequestRun) lastAttemptedRevisionContains(ctx context.Context, rec *entry) bool {
	revision := commit(p.sync.Status.LastAttemptedRevision)
	if revision == "" {
		return false
	}
	if rec.rollout.attemptedRevision != revision {
		// Where that cannot be computed now, what was known of the revision before holds on.
		if holds, ok := p.contains(ctx, revision, rec); ok {
			rec.rollout.attemptedRevision, rec.rollout.attemptedContains = revision, holds
		}
	}
	return rec.rollout.attemptedContains
}

// concluded leaves no plan pending beside a head that is merged by now: it is what
// was planned last, or that nothing was. It returns false where nothing can be
// published at the forge now.
func (p *pullRequestRun) concluded(ctx context.Context, pr forge.PullRequest, rec *entry) bool {
	s, pending := p.conclusion(pr, rec)
	switch {
	case !pending && !rec.mergedUnpublished(pr):
		return true
	case p.stopped(ctx):
		return false
	case rec.mergedUnpublished(pr):
		// What was reviewed is reported, if late: what comes below refers to it.
		p.publish(ctx, pr, rec)
		return !rec.unpublished || !p.forgeFailure.Transient || rec.post.Failures >= lastTry
	}
	if err := p.setStatus(ctx, pr.Head.SHA, s); err != nil {
		p.publishFailed(rec, err)
		return permanent(err) || rec.post.Failures >= lastTry
	}
	return true
}

// mergedUnpublished reports that the merged head is planned, and that is not published at
// the forge.
func (e *entry) mergedUnpublished(pr forge.PullRequest) bool {
	return e.unpublished && e.publication != nil && e.publication.item.Head == pr.Head.SHA
}

// conclusion is what stands beside a merged head instead of that it is being planned;
// false where that does not stand there.
func (p *pullRequestRun) conclusion(pr forge.PullRequest, rec *entry) (forge.Status, bool) {
	head, s := pr.Head.SHA, forge.Status{Context: p.planContext(), State: forge.Errored, URL: pr.URL}
	switch {
	case head == "":
		return s, false
	case rec.item.Head != head && (rec.item.CommentKind != "" || rec.announced == head):
		s.Description = "merged before it was planned"
	case !rec.pending:
		return s, false
	case rec.publication != nil && rec.publication.item.Head == head:
		s.State, s.Description = rec.publication.state, rec.publication.line
	case rec.item.Phase == v1alpha1.PullRequestFailed:
		s.Description = "cannot be planned"
	default:
		s.Description = "merged while it was planned anew; before: " + rec.item.Headline
	}
	s.Description = plainText(s.Description)
	return s, true
}
