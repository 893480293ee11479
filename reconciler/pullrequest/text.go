package pullrequest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

// publicationOf is what a plan reports.
func (p *pass) publicationOf(pr forge.PullRequest, plan Plan) *publication {
	hours := p.sync.Spec.PullRequests.HoursPerDay
	a := &publication{
		head: cmp.Or(plan.Head, pr.Head.SHA), base: plan.Base, headline: cut(plan.Report.Headline(), maxHeadlineLength), phase: v1alpha1.PullRequestPlanned,
		state: forge.Success, reviewed: plan.Reviewed.DeepCopy(), editOnly: untouched(plan.Report),
	}
	a.line = a.headline
	if limits.ReviewedBytes(a.reviewed) > limits.MaxReviewedBytesPerPullRequest {
		a.reviewed = nil
	}
	if objects(plan.Report) {
		a.state = forge.Failure
	}
	begin := hashPlan
	if a.editOnly {
		begin = hashUnaffected
	}
	a.hash = begin + state.Hash([]any{a.head, hours, plan.Report.Content()})[:16]
	var body strings.Builder
	options := report.Options{HoursPerDay: float64(hours), Limit: p.s.Forge.Limit()}
	if err := plan.Report.Markdown(&body, options); err != nil {
		return p.unwritable(a, err)
	}
	a.body = body.String()
	return a
}

// unwritable is the publication where a report cannot be written.
func (p *pass) unwritable(a *publication, err error) *publication {
	a.state, a.phase, a.headline = forge.Broken, v1alpha1.PullRequestFailed, "cannot be shown: "+plainText(failure.Text(err))
	a.line = a.headline
	a.body = "### " + forge.Plain(a.headline, reasonWidth) + "\n"
	return a
}

// untouched reports whether the merge does nothing to this cluster. Drift that is
// there without it is none of the pull request's doing.
func untouched(r report.Report) bool { return r.Empty() && !objects(r) }

// objects reports whether something forbids the merge: a mistake in what would be
// merged, or a guard.
func objects(r report.Report) bool {
	if len(r.Problems) > 0 {
		return true
	}
	return slices.ContainsFunc(r.Guards, func(g report.Guard) bool { return g.Result == "held" })
}

// failure is the publication where there is no plan. What was reported of an older head stays
// below, marked: a reader must not take it for the newer one's. What only the author
// can mend is reported in full. Of anything else the forge gets the reason alone, for what
// Git, AWS or the API server returned is for those who may read the Sync.
func (p *pass) failure(t task, err error, class state.Class) *publication {
	head := t.pr.Head.SHA
	_, word, _ := state.Classify(err)
	what, why, news, after := "cannot be planned", failure.Text(err), failure.Text(err), ""
	if class != state.Stalled {
		what, why, news = "cannot be planned now", word, word
		after = "\nIt is retried automatically. The Sync's `status.pullRequests` has the details.\n"
	}
	a := &publication{
		head: head, base: commit(p.sync.Status.LastAttemptedRevision), headline: what + ": " + plainText(failure.Text(err)),
		line: what + ": " + plainText(why), phase: v1alpha1.PullRequestFailed, state: forge.Broken, editOnly: class != state.Stalled,
	}
	a.hash = hashPlan + state.Hash([]any{head, class.String(), news})[:16]
	why = forge.Plain(why, reasonWidth)
	good := t.rec.good
	switch {
	case good == nil || good.editOnly:
		a.body = fmt.Sprintf("### `%s` %s\n\n%s\n", short(head), what, why)
	case good.head == head:
		a.body = fmt.Sprintf("**Stale:** `%s` %s again: %s\n\n%s", short(head), what, why, good.body)
	default:
		a.body = fmt.Sprintf("**Stale:** this was planned for `%s`; `%s` %s: %s\n\n%s", short(good.head), short(head), what, why, good.body)
	}
	a.body += after
	return a
}
