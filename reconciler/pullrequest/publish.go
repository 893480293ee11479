package pullrequest

import (
	"cmp"
	"context"
	"errors"

	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// publish brings a publication to the forge: the comment, and what stands next to the
// commit that it holds for.
func (p *pullRequestRun) publish(ctx context.Context, pr forge.PullRequest, rec *entry) {
	a := rec.publication
	posted, err := p.postComment(ctx, pr.Number, a.Comment)
	if err != nil && !permanent(err) {
		p.publishFailed(rec, err)
		return
	}
	commented := err == nil
	if rec.unpublished {
		// Who may not comment may still set a status, and none must stay pending.
		also := p.setCheck(ctx, a.item.Head, forge.Check{
			Status:  forge.Status{Context: p.planContext(), State: a.state, Description: a.line, URL: cmp.Or(posted.URL, pr.URL)},
			Summary: a.Body, Annotations: a.annotations,
		})
		if err == nil {
			err = also
		}
	}
	if commented {
		// The comment is published, whatever is missing beside the commit.
		rec.verifiedAt = pr.Updated
		rec.published(p.now)
	}
	if err != nil {
		rec.unpublished = true
		p.publishFailed(rec, err)
		return
	}
	rec.post, rec.pending = limits.Backoff{}, false
}

func (p *pullRequestRun) postComment(ctx context.Context, number int, c forge.Comment) (forge.PostedComment, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return p.s.Forge.Comment(ctx, number, c)
}

// publishFailed notes that the forge did not take what was to be published.
func (p *pullRequestRun) publishFailed(rec *entry, err error) {
	p.now = p.Clock.Now()
	p.failed(err)
	rec.post.Failed(p.now, failure.Classify(err).Until)
	p.requeueAfter(rec.post.Until.Sub(p.now))
}

// permanent reports an error of a forge that no waiting heals.
func permanent(err error) bool {
	failed, ok := errors.AsType[*forge.Error](err)
	return ok && failed.Permanent()
}
