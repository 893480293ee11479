package pullrequest

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

// slow is how long a plan may take before it is checked again whether the plan is still
// needed.
const slow = 2 * time.Second

// long is how long anything may take before another plan is begun.
const long = time.Second

// detailGap is the least time between two edits of a comment that a reader would
// take for the same: nodes and pods come and go all day, and forges count edits.
const detailGap = 15 * time.Minute

// enduring is how many plans in a row must fail by something that may pass before a
// comment that still holds for its head is marked.
const enduring = 3

// review plans and comments on the open pull requests that need it, for one passTime.
func (p *pass) review(ctx context.Context) {
	refreshed := 0
	planned, refused := p.admitted()
	defer p.notify(ctx, refused)
	defer p.s.evictComments()
	tasks := p.tasks(planned)
	for i, t := range tasks {
		p.now = p.Clock.Now()
		if p.stopped(ctx) {
			return
		}
		if i > 0 && p.now.Sub(p.started) >= passTime {
			if t.reason != refreshDue {
				p.requeueAfter(soon)
			}
			p.mark(ctx, tasks[i:])
			return
		}
		if t.reason == refreshDue {
			if refreshed++; refreshed > maxRefreshes {
				return
			}
		}
		if i > 0 && t.reason != headChanged && p.called(ctx) {
			return
		}
		if p.there(t.pr) {
			p.reconcileOne(ctx, t)
		}
	}
}

// called reports whether somebody waits for something more urgent than a head that was
// planned before: a webhook came, or, after what took its time, there is a new head.
func (p *pass) called(ctx context.Context) bool {
	var now v1alpha1.Sync
	err := p.Client.Get(ctx, types.NamespacedName{Namespace: p.sync.Namespace, Name: p.sync.Name}, &now)
	if err == nil && now.Annotations[v1alpha1.WebhookAnnotation] != p.sync.Annotations[v1alpha1.WebhookAnnotation] {
		p.requeueAfter(soon)
		return true
	}
	if p.now.Sub(p.heard) <= long {
		return false
	}
	listing, err := p.list(ctx)
	if err != nil {
		p.failed(err)
		return true
	}
	p.s.listing = listing
	planned, _ := p.admitted()
	fresh := slices.ContainsFunc(planned, func(pr forge.PullRequest) bool {
		rec := p.s.records[int64(pr.Number)]
		return (rec == nil || rec.unseen(pr)) && !p.overBudget(pr, rec)
	})
	if fresh {
		p.requeueAfter(soon)
	}
	return fresh
}

// mark lets no status for another base stand beside the heads whose turn is yet to
// come, for one more stint, and not before somebody who is new.
func (p *pass) mark(ctx context.Context, tasks []task) {
	for _, t := range tasks {
		if t.reason != baseChanged || !p.overtaken(t.rec) || !p.there(t.pr) {
			continue
		}
		p.now = p.Clock.Now()
		if p.stopped(ctx) || p.now.Sub(p.started) >= 2*passTime || p.called(ctx) || p.announce(ctx, t) != nil {
			return
		}
	}
}

// announce shows beside the head that it is being planned, where what stands there is
// of another head or another base. To be read again is nothing to announce.
func (p *pass) announce(ctx context.Context, t task) error {
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
	err := p.status(ctx, t.pr.Head.SHA, s)
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

// reconcileOne does what one pull request needs.
func (p *pass) reconcileOne(ctx context.Context, t task) {
	if t.reason == publicationDue && t.rec.publication != nil {
		p.publish(ctx, t.pr, t.rec)
		return
	}
	// Who may set no status may still comment; that it is missing is noted at the end.
	if err := p.announce(ctx, t); err != nil && !permanent(err) {
		return
	}
	began := p.Clock.Now()
	plan, err := p.plan(ctx, t.pr)
	p.now = p.Clock.Now()
	if ctx.Err() != nil {
		return
	}
	result := "planned"
	if err != nil {
		result = "failed"
		if class, _, _ := state.Classify(err); class == state.Stalled {
			result = "refused"
		}
	}
	wanted := p.now.Sub(began) < slow || p.still(ctx, t.pr)
	if !wanted {
		result = "outdated"
	}
	p.Metrics.planned(p.sync.Name, result, p.now.Sub(began))
	p.s.usage.Add(t.pr.Author, p.now, plan.Took)
	t.rec.made.spent = t.rec.made.spent.Plus(p.now, plan.Took)
	if !wanted {
		// The next pass reads what has become of it.
		p.requeueAfter(soon)
		return
	}
	t.rec.made.took = plan.Took
	p.note(ctx, t, plan, err)
	if t.rec.unpublished {
		p.publish(ctx, t.pr, t.rec)
	}
}

// plan calls the Planner.
func (p *pass) plan(ctx context.Context, pr forge.PullRequest) (Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, PlanTime+maxWait)
	defer cancel()
	return p.s.Planner.Plan(ctx, pr)
}

// note keeps what a plan came to, to be published where it is new.
func (p *pass) note(ctx context.Context, t task, plan Plan, err error) {
	rec := t.rec
	rec.made = made{
		at: p.now, head: t.pr.Head.SHA, attempted: p.sync.Status.LastAttemptedRevision, driftHash: p.s.live.hash, generation: p.sync.Generation,
		took: rec.made.took, spent: rec.made.spent, same: rec.made.same,
	}
	var a *publication
	if err == nil {
		rec.retry = limits.Backoff{}
		a = p.publicationOf(t.pr, plan)
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
	if rec.made.same++; t.reason != refreshDue || a.hash != rec.item.CommentHash {
		rec.made.same = 0
	}
	if rec.publishedAt.IsZero() {
		rec.publishedAt, rec.verifiedAt = p.now, t.pr.Updated
	}
	if t.reason == refreshDue && rec.alike(a) && p.now.Sub(rec.publishedAt) < detailGap {
		return
	}
	rec.unpublished = a.hash != rec.item.CommentHash || rec.pending || t.reason == publicationDue
	if !rec.unpublished {
		rec.post = limits.Backoff{}
		rec.published(p.now)
		rec.verifiedAt = t.pr.Updated
	}
}

// alike reports whether a publication differs from what was reported in details at most.
func (e *entry) alike(a *publication) bool {
	kind := func(hash string) string { return hash[:strings.Index(hash, "-")+1] }
	return a.hash != e.item.CommentHash && kind(a.hash) == kind(e.item.CommentHash) && a.head == e.item.Head && a.base == e.item.Base &&
		a.phase == e.item.Phase && a.headline == e.item.Headline && equality.Semantic.DeepEqual(a.reviewed, e.item.Reviewed)
}

// still reads once more, after a plan that took its time, whether the pull request is
// as it was planned. A Sync that is another one by now ends the pass.
func (p *pass) still(ctx context.Context, pr forge.PullRequest) bool {
	var now v1alpha1.Sync
	if err := p.Client.Get(ctx, types.NamespacedName{Namespace: p.sync.Namespace, Name: p.sync.Name}, &now); err != nil {
		p.over = true
		return false
	}
	if !now.DeletionTimestamp.IsZero() || now.UID != p.sync.UID || now.Generation != p.sync.Generation {
		p.over = true
		return false
	}
	listing, err := p.list(ctx)
	if err != nil {
		p.failed(err)
		return false
	}
	p.s.listing = listing
	return p.there(pr)
}

// there reports whether the pull request is as it was, as far as the forge has reported.
func (p *pass) there(pr forge.PullRequest) bool {
	return slices.ContainsFunc(p.s.listing.Open, func(o forge.PullRequest) bool {
		return o.Number == pr.Number && o.Head.SHA == pr.Head.SHA && o.Base.Name == pr.Base.Name
	})
}
