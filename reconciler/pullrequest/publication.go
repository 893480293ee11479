package pullrequest

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/check"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

// recordPlan keeps what a plan came to, to be published where it is new.
func (p *pullRequestRun) recordPlan(ctx context.Context, t task, planned report.Report, reviewed *v1alpha1.ReviewedDisruption, err error) {
	rec := t.rec
	rec.made = made{
		at: p.now, head: t.pr.Head.SHA, attempted: p.sync.Status.LastAttemptedRevision, driftHash: p.s.live.hash, generation: p.sync.Generation,
		duration: rec.made.duration, spent: rec.made.spent, same: rec.made.same,
	}
	var a *publication
	if err == nil {
		rec.retry = limits.Backoff{}
		a = p.publicationOf(t.pr, planned, reviewed)
		rec.good = a
	} else {
		class, _, after := state.Classify(err)
		if class == state.Stalled {
			rec.retry = limits.Backoff{}
		} else {
			rec.retry.Failed(p.now, p.now.Add(after))
			p.requeueAfter(rec.retry.Until.Sub(p.now))
			log(ctx).V(1).Info("Cannot plan now", "pullRequest", t.pr.Number)
			unmoved := rec.item.Head == t.pr.Head.SHA && rec.item.Phase == v1alpha1.PullRequestPlanned
			if unmoved && rec.retry.Failures < enduring {
				return // What was reported holds for what it names.
			}
		}
		a = p.failure(t, err, class)
	}
	rec.publication = a
	if rec.made.same++; t.reason != refreshDue || a.item.CommentHash != rec.item.CommentHash {
		rec.made.same = 0
	}
	if rec.publishedAt.IsZero() {
		rec.publishedAt, rec.verifiedAt = p.now, t.pr.Updated
	}
	if t.reason == refreshDue && rec.alike(a) && p.now.Sub(rec.publishedAt) < detailGap {
		return
	}
	rec.unpublished = a.item.CommentHash != rec.item.CommentHash || rec.pending || t.reason == publicationDue
	if !rec.unpublished {
		rec.post = limits.Backoff{}
		rec.published(p.now)
		rec.verifiedAt = t.pr.Updated
	}
}

// detailGap is the least time between two edits of a comment that a reader would
// take for the same: nodes and pods come and go all day, and forges count edits.
const detailGap = 15 * time.Minute

// enduring is how many plans in a row must fail by something that may pass before a
// comment that still holds for its head is marked.
const enduring = 3

// alike reports whether a publication differs from what was reported in details at most.
func (e *entry) alike(a *publication) bool {
	is, was := a.item, e.item
	return is.CommentHash != was.CommentHash && is.CommentKind == was.CommentKind && is.Head == was.Head && is.Base == was.Base &&
		is.Phase == was.Phase && is.Headline == was.Headline && equality.Semantic.DeepEqual(is.Reviewed, was.Reviewed)
}

// publicationOf is what a plan reports.
func (p *pullRequestRun) publicationOf(pr forge.PullRequest, planned report.Report, reviewed *v1alpha1.ReviewedDisruption) *publication {
	hours := p.sync.Spec.PullRequests.HoursPerDay
	a := &publication{
		item: v1alpha1.PullRequestStatus{
			Number: int64(pr.Number), Head: pr.Head.SHA, Headline: cut(planned.Headline(), maxHeadlineLength),
			Phase: v1alpha1.PullRequestPlanned, Reviewed: reviewed.DeepCopy(),
		},
		state: check.State(planned), annotations: check.Annotations(planned), Comment: forge.Comment{Marker: p.marker(), EditOnly: untouched(planned)},
	}
	if b := planned.Provenance; b != nil {
		a.item.Head, a.item.Base = cmp.Or(b.HeadCommit, a.item.Head), b.BaseCommit
	}
	a.line = a.item.Headline
	if limits.ReviewedBytes(a.item.Reviewed) > limits.MaxReviewedBytesPerPullRequest {
		a.item.Reviewed = nil
	}
	a.item.CommentKind = v1alpha1.PullRequestCommentPlan
	if a.EditOnly {
		a.item.CommentKind = v1alpha1.PullRequestCommentUnaffected
	}
	a.item.CommentHash = commentHash(a.item.CommentKind, a.item.Head, hours, planned.Content())
	var body strings.Builder
	options := report.Options{HoursPerDay: float64(hours), Limit: p.s.Forge.Limit()}
	if err := planned.Markdown(&body, options); err != nil {
		return p.unwritable(a, err)
	}
	a.Body = body.String()
	return a
}

// commentHash identifies a comment by its kind and by what else it is made of.
func commentHash(kind v1alpha1.PullRequestCommentKind, of ...any) string {
	return state.Hash([]any{kind, of})[:16]
}

// unwritable is the publication where a report cannot be written.
func (p *pullRequestRun) unwritable(a *publication, err error) *publication {
	a.state, a.item.Phase, a.item.Headline = forge.Errored, v1alpha1.PullRequestFailed, "cannot be shown: "+plainText(failure.Text(err))
	a.line = a.item.Headline
	a.Body = "### " + forge.PlainText(a.item.Headline, reasonWidth) + "\n"
	return a
}

// untouched reports whether the merge does nothing to this cluster. Drift that is
// there without it is none of the pull request's doing.
func untouched(r report.Report) bool { return r.Empty() && !check.Forbids(r) }

// failure is the publication where there is no plan. What was reported of an older head stays
// below, marked: a reader must not take it for the newer one's. What only the author
// can mend is reported in full. Of anything else the forge gets the reason alone, for what
// Git, AWS or the API server returned is for those who may read the Sync.
func (p *pullRequestRun) failure(t task, err error, class state.FailureClass) *publication {
	head := t.pr.Head.SHA
	_, reason, _ := state.Classify(err)
	what, why, hashed, after := "cannot be planned", failure.Text(err), failure.Text(err), ""
	if class != state.Stalled {
		what, why, hashed = "cannot be planned now", reason, reason
		after = "\nIt is retried automatically. The Sync's `status.pullRequests` has the details.\n"
	}
	a := &publication{
		item: v1alpha1.PullRequestStatus{
			Number: int64(t.pr.Number), Head: head, Base: commit(p.sync.Status.LastAttemptedRevision),
			Headline: what + ": " + plainText(failure.Text(err)), Phase: v1alpha1.PullRequestFailed,
		},
		line: what + ": " + plainText(why), state: forge.Errored,
		Comment: forge.Comment{Marker: p.marker(), EditOnly: class != state.Stalled},
	}
	a.item.CommentKind = v1alpha1.PullRequestCommentPlan
	a.item.CommentHash = commentHash(a.item.CommentKind, head, class.String(), hashed)
	why = forge.PlainText(why, reasonWidth)
	good := t.rec.good
	switch {
	case good == nil || good.EditOnly:
		a.Body = fmt.Sprintf("### `%s` %s\n\n%s\n", short(head), what, why)
	case good.item.Head == head:
		a.Body = fmt.Sprintf("**Stale:** `%s` %s again: %s\n\n%s", short(head), what, why, good.Body)
	default:
		a.Body = fmt.Sprintf("**Stale:** this was planned for `%s`; `%s` %s: %s\n\n%s", short(good.item.Head), short(head), what, why, good.Body)
	}
	a.Body += after
	return a
}

// The widths of what is shown of an error: in a comment, and in a status.
const (
	reasonWidth   = 1000
	headlineWidth = 300
)

// plainText is one line of text without anything that does not print.
func plainText(s string) string {
	line := strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar }), " ")
	return cmp.Or(cut(line, headlineWidth), "no reason is given")
}

// cut is a text of at most so many characters.
func cut(text string, most int) string {
	runes := []rune(text)
	if len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
