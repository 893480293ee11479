package pullrequest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/outcome"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

const (
	// footerInterval is the least time between two edits of one tail, unless its state changes.
	footerInterval = 30 * time.Second
	// failureGrace is how long after it was applied a roll-out that should replace
	// nodes is not believed to be over only because none is stale yet.
	failureGrace = 30 * time.Second
	// lastTry is how often a forge may refuse for good to take the last tail.
	lastTry = 5
)

// skew is how far the clocks of a cluster's machines may be apart.
const skew = time.Hour

// pendingReplacements are the nodes that the roll-outs under way are yet to replace, read once. Which
// are stale is computed from what they were made from: one that was launched from the
// old pool after the merge was applied is, too.
func (p *pullRequestRun) pendingReplacements(ctx context.Context) pendingReplacements {
	out := pendingReplacements{known: true}
	for _, rec := range p.s.records {
		if i := rec.item; i.AppliedTime != nil && rec.touchesPools() && !rec.unaffected() {
			out.applied = append(out.applied, rec)
		}
	}
	if !slices.ContainsFunc(out.applied, func(e *entry) bool {
		return e.item.Phase == v1alpha1.PullRequestRollingOut && e.item.RolledOutTime == nil
	}) {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, PlanTime)
	defer cancel()
	replacements, err := p.s.Planner.PendingReplacement(ctx, p.now.Add(skew))
	if err != nil {
		log(ctx).Info("Cannot find out which nodes are yet to be replaced", "why", failure.Text(err))
	}
	out.nodes, out.poolCosts, out.known = replacements.Pending, replacements.PoolCosts, err == nil
	return out
}

// pendingReplacements are nodes that are yet to be replaced. Unless all is known, there may be
// more.
type pendingReplacements struct {
	nodes []provision.Node
	known bool
	// poolCosts are what the nodes of each pool cost an hour; nil where that was not read.
	poolCosts map[string]provision.Amount
	// applied are the merges that are applied, also those whose roll-out is over.
	applied []*entry
}

// touchesPools reports whether the merge can have made nodes stale, as far as that is
// known.
func (e *entry) touchesPools() bool {
	return e.item.Reviewed == nil || len(e.item.Reviewed.Objects) > 0
}

// of are those of the nodes that the merge has to do with: a pool or a class that it
// changed is theirs, and they were there when the next merge of which that is true was
// applied. A node that several merges made stale counts for each: none is reported to be
// over too early.
func (l pendingReplacements) of(e *entry) []provision.Node {
	var out []provision.Node
	for _, n := range l.nodes {
		later := func(o *entry) bool {
			return o.item.AppliedTime.After(e.item.AppliedTime.Time) && !n.Created.Before(o.item.AppliedTime.Time) && o.concerns(n)
		}
		if e.concerns(n) && !slices.ContainsFunc(l.applied, later) {
			out = append(out, n)
		}
	}
	return out
}

func (e *entry) concerns(n provision.Node) bool {
	if e.item.Reviewed == nil {
		return true
	}
	return slices.ContainsFunc(e.item.Reviewed.Objects, func(change v1alpha1.ReviewedObject) bool {
		switch {
		case change.Kind == "NodePool":
			return n.Pool == change.Name
		case change.Kind == "EC2NodeClass" && len(n.Changes) == 0:
			// Which class the node is of, nothing reports; that it is not its pool's doing is
			// known.
			return !slices.Contains([]string{"NodePoolDrifted", "RequirementsDrifted", "NodePoolRemoved"}, n.Reason)
		}
		return slices.ContainsFunc(n.Changes, func(c provision.Change) bool { return c.Object == change.Kind+"/"+change.Name })
	})
}

// mergeOutcome is what is to be reported of a merge now.
func (p *pullRequestRun) mergeOutcome(ctx context.Context, rec *entry, left pendingReplacements) report.MergeOutcome {
	item := &rec.item
	a := report.MergeOutcome{Sync: p.sync.Namespace + "/" + p.sync.Name, Nodes: max(rec.reviewedNodes(), rec.rollout.most)}
	if item.Reviewed != nil {
		a.Removed = int(item.Reviewed.NodesRemoved)
	}
	if item.MergedTime != nil {
		a.Merged = item.MergedTime.Time
	}
	if item.AppliedTime == nil {
		p.blocked(ctx, rec, &a)
		return a
	}
	a.Applied, a.Revision = item.AppliedTime.Time, p.branch()+"@sha1:"+rec.merge()
	if item.RolledOutTime == nil {
		p.observeRollout(rec, left, &a)
	}
	if item.RolledOutTime != nil {
		a.Done = item.RolledOutTime.Time
		a.Predicted, a.Actual = outcome.Figures(item)
		if h := a.Actual; h != nil && !h.Incomplete {
			a.Nodes, a.Removed = h.Replaced+h.Removed, h.Removed
		}
	}
	return a
}

// observeRollout fills in which nodes of a roll-out are left to be replaced, and ends it where none is and that is certain.
func (p *pullRequestRun) observeRollout(rec *entry, left pendingReplacements, a *report.MergeOutcome) {
	item := &rec.item
	a.Remaining = left.of(rec)
	rec.rollout.most = max(rec.rollout.most, len(a.Remaining))
	a.Nodes = max(a.Nodes, rec.rollout.most)
	if rec.touchesPools() {
		outcome.Observe(item, a.Remaining, left.poolCosts)
	}
	expected := item.Reviewed == nil || rec.reviewedNodes() > 0
	certain := rec.rollout.most > 0 || !expected || p.now.Sub(a.Applied) >= failureGrace
	switch {
	case len(a.Remaining) > 0:
	case !rec.touchesPools(), certain && left.known:
		item.RolledOutTime = stamp(p.now)
		outcome.End(item, left.poolCosts)
	default:
		p.requeueAfter(a.Applied.Add(failureGrace).Sub(p.now))
	}
}

// reviewedNodes is how many nodes the reviewer was shown that would go.
func (e *entry) reviewedNodes() int {
	if e.item.Reviewed == nil {
		return 0
	}
	return int(e.item.Reviewed.NodesReplaced + e.item.Reviewed.NodesRemoved)
}

// finish reports what there is to report of a merge, and closes it at its end.
func (p *pullRequestRun) finish(ctx context.Context, pr forge.PullRequest, rec *entry, left pendingReplacements, drifted drift) {
	item := &rec.item
	if rec.unaffected() && drifted.text == "" {
		if item.Phase == v1alpha1.PullRequestRollingOut {
			item.Phase = v1alpha1.PullRequestDone
		}
		return
	}
	if p.nothingNew(rec, left, drifted) {
		return
	}
	var base string
	var a report.MergeOutcome
	if item.Phase != v1alpha1.PullRequestDone || item.AppliedTime != nil {
		a = p.mergeOutcome(ctx, rec, left)
		base = a.Markdown()
	}
	if drifted.text == "" && drifted.known && rec.hasDriftFooter() {
		rec.rollout.driftGone = true
	}
	if base != "" && item.MergedOtherHead {
		base = fmt.Sprintf(movedTo, short(item.Head)) + base
	}
	if p.write(ctx, pr, rec, rec.compose(base, drifted), a) && item.RolledOutTime != nil {
		p.end(rec, a)
	}
}

// end records that the comment has the end of a roll-out.
func (p *pullRequestRun) end(rec *entry, a report.MergeOutcome) {
	if rec.item.Rollout != nil && rec.item.Phase != v1alpha1.PullRequestDone {
		p.Metrics.outcomes.Add(p.sync.Name, a.Predicted, a.Actual)
	}
	rec.item.Phase, rec.post = v1alpha1.PullRequestDone, limits.Backoff{}
}

// nothingNew reports that what is reported of a merge stays as it is, without making it
// again.
func (p *pullRequestRun) nothingNew(rec *entry, left pendingReplacements, drifted drift) bool {
	item := &rec.item
	if rec.hasDriftFooter() && !drifted.known && p.now.Before(p.s.live.since.Add(stabilizationWindow)) {
		return true // What is shown of drift stays until it was read again.
	}
	switch item.Phase {
	case v1alpha1.PullRequestDone:
		return !drifted.known || drifted.text == "" && !rec.hasDriftFooter()
	case v1alpha1.PullRequestRollingOut:
		return item.RolledOutTime == nil && !left.known && len(left.nodes) == 0 && rec.touchesPools()
	default:
		return false
	}
}

// hasDriftFooter reports whether the tail at the forge shows drift.
func (e *entry) hasDriftFooter() bool {
	return e.item.CommentKind == v1alpha1.PullRequestCommentDrift
}

// movedTo begins the tail where another head was merged than the comment was made for.
const movedTo = "**Merged as `%s`, which was not planned:** the text above was planned for a commit before it.\n\n"

// mergeFooter is the end of a merged pull request's comment.
type mergeFooter struct {
	text string
	kind v1alpha1.PullRequestCommentKind
	// editOnly is true where no comment is created for it.
	editOnly bool
	// hash is what a status keeps of it.
	hash string
}

// compose puts what is reported of the merge and of drift together.
func (e *entry) compose(base string, drifted drift) mergeFooter {
	t := mergeFooter{text: base, kind: v1alpha1.PullRequestCommentOutcome}
	content := drifted.content
	switch {
	case drifted.text != "":
		e.rollout.driftGone = false
		t.kind, t.text = v1alpha1.PullRequestCommentDrift, base+"\n"+drifted.text
	case !drifted.known && e.hasDriftFooter():
		t.kind = v1alpha1.PullRequestCommentDrift
	case e.rollout.driftGone:
		content, t.text = "gone", base+"\n"+driftResolved
	}
	// Where drift is shown there is a comment from then on.
	t.editOnly = e.item.CommentEditOnly && t.kind == v1alpha1.PullRequestCommentOutcome
	t.text = strings.TrimLeft(t.text, "\n")
	t.hash = commentHash(t.kind, t.editOnly, base, content)
	return t
}

// write brings a tail and the line next to the commits to the forge, if they have
// something new and the last time is long enough ago. It returns whether the forge
// has what there is to report.
func (p *pullRequestRun) write(ctx context.Context, pr forge.PullRequest, rec *entry, t mergeFooter, a report.MergeOutcome) bool {
	item := &rec.item
	line := rec.beside(a)
	if t.hash == item.CommentHash && line == rec.rollout.line {
		return true
	}
	wait := rec.post.Until.Sub(p.now)
	if line == "" || rec.rollout.phases[mergePhaseOf(a)] {
		wait = max(wait, rec.rollout.at.Add(footerInterval).Sub(p.now)) // Long ago where it never was.
	}
	if wait > 0 {
		p.requeueAfter(wait)
		return false
	}
	posted := forge.PostedComment{URL: pr.URL}
	var err error
	if t.hash != item.CommentHash {
		// Where the forge does not list it, whether there is such a pull request is for
		// its comment to show.
		posted, err = p.postComment(ctx, pr.Number, forge.Comment{Marker: p.marker(), Footer: t.text, EditOnly: t.editOnly || pr.URL == ""})
	}
	if line != rec.rollout.line && line != "" && (err == nil || permanent(err)) {
		if also := p.rollout(ctx, rec, a, line, cmp.Or(posted.URL, pr.URL)); err == nil {
			err = also
		}
	}
	if err != nil {
		p.publishFailed(rec, err)
		return permanent(err) && rec.post.Failures >= lastTry
	}
	rec.post, rec.rollout.at = limits.Backoff{}, p.now
	rec.rollout.line = line
	item.CommentKind, item.CommentEditOnly, item.CommentHash = t.kind, t.editOnly, t.hash
	rec.rollout.setReported(mergePhaseOf(a))
	return true
}

// beside is what stands next to the commits; nothing new once the merge is closed.
func (e *entry) beside(a report.MergeOutcome) string {
	if e.item.Phase == v1alpha1.PullRequestDone {
		return ""
	}
	return a.Line()
}

// rollout sets the status of the merge and of what was merged.
func (p *pullRequestRun) rollout(ctx context.Context, rec *entry, a report.MergeOutcome, line, url string) error {
	s := forge.Status{Context: p.rolloutContext(), State: forge.Pending, Description: line, URL: url}
	switch {
	case !a.Done.IsZero():
		s.State = forge.Success
	case mergePhaseOf(a) == "failed":
		s.State = forge.Failure
	}
	for _, sha := range slices.Compact([]string{rec.merge(), rec.item.Head}) {
		if sha == "" {
			continue
		}
		if err := p.setStatus(ctx, sha, s); err != nil {
			return err
		}
	}
	return nil
}
