package pullrequest

import (
	"context"
	"slices"
	"time"

	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
)

// contains reports whether the revision holds the merge. It is not checked after a check
// of this pass had no result, or when they have taken a passTime; what has had no result
// before is checked again ever more slowly.
func (p *pass) contains(ctx context.Context, revision string, rec *entry) (holds, ok bool) {
	h := &p.s.containsCheck
	began := p.Clock.Now()
	rest := h.backoff.Until.Sub(began)
	switch {
	case h.failed || ctx.Err() != nil:
		return false, false
	case h.took >= passTime:
		p.requeueAfter(soon)
		return false, false
	case !rec.rollout.doubted.IsZero() && rest > 0:
		p.requeueAfter(rest)
		return false, false
	}
	asking, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	holds, err := p.s.Planner.Contains(asking, revision, rec.merge())
	now := p.Clock.Now()
	h.took += now.Sub(began)
	if err != nil {
		log(ctx).Info("Cannot find out whether a merge is applied", "revision", revision, "merge", rec.merge(), "why", failure.Text(err))
		h.failed, rec.rollout.doubted = true, now
		h.backoff.Failed(now, time.Time{})
		p.requeueAfter(h.backoff.Until.Sub(now))
		return false, false
	}
	h.backoff, rec.rollout.doubted = limits.Backoff{}, time.Time{}
	return holds, true
}

// doubtedLast puts those that were checked in vain behind all others, the longest ago
// first: one that can never be determined must not keep the others from being checked.
func doubtedLast(all []followed) []followed {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b followed) int { return a.rec.rollout.doubted.Compare(b.rec.rollout.doubted) })
	return out
}
