package pullrequest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Reconcile makes one pass over the pull requests of one Sync.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var sync v1alpha1.Sync
	if err := r.Client.Get(ctx, req.NamespacedName, &sync); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.leave(req)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading Sync %s: %w", req.Name, err)
	}
	switch {
	case sync.Namespace != r.Namespace:
		return ctrl.Result{}, nil
	case !sync.DeletionTimestamp.IsZero(), sync.Spec.Suspend:
		// What the comments show stays true of the last moment that they name.
		r.leave(req)
		return ctrl.Result{}, nil
	case sync.Spec.PullRequests == nil:
		// The copy at hand may lack what the last pass has written.
		if sync.Status.PullRequests != nil || r.sessions.has(req.NamespacedName) {
			if err := r.patch(ctx, &sync, nil); err != nil {
				return ctrl.Result{}, err
			}
		}
		r.leave(req)
		return ctrl.Result{}, nil
	}
	s, err := r.sessions.get(ctx, &sync, r.Clock.Now(), r.Build)
	p := &pass{Reconciler: r, sync: &sync, s: s, started: r.Clock.Now(), after: interval(&sync)}
	p.now = p.started
	switch {
	case ctx.Err() != nil:
		return ctrl.Result{}, nil
	case err != nil:
		p.noSession(failure.ClassifySetup(err))
	case p.now.Before(s.backoff.Until):
		// Whatever the trigger: the forge gets no request before.
		return ctrl.Result{RequeueAfter: s.backoff.Until.Sub(p.now)}, nil
	case !r.limiter.TryAcquire(s.address):
		// Others have their turn first.
		return ctrl.Result{RequeueAfter: soon}, nil
	default:
		p.run(ctx)
		r.limiter.Release(s.address)
	}
	if ctx.Err() != nil {
		// We are stopping: what was cut short proves nothing.
		return ctrl.Result{}, nil
	}
	p.record(ctx)
	return ctrl.Result{RequeueAfter: p.after}, nil
}

// leave drops a Sync that has nothing to report.
func (r *Reconciler) leave(req ctrl.Request) {
	r.sessions.stop(req.NamespacedName)
	r.Metrics.forget(req.Name)
}

// run reads what there is, plans what has moved, reports it, and follows what was
// merged.
func (p *pass) run(ctx context.Context) {
	p.readDrift()
	listing, err := p.list(ctx)
	if err != nil {
		p.failed(err)
		return
	}
	name, err := p.cluster(ctx)
	if err != nil {
		p.noSession(failure.ClassifySetup(err))
		return
	}
	p.s.listing = listing
	p.suffix = "(" + name + ")"
	open, merged := p.scope()
	p.open = open
	p.review(ctx)
	if !p.stopped(ctx) {
		p.follow(ctx, merged)
	}
	if p.forgeFailure.Reason == "" {
		p.s.backoff = limits.Backoff{}
		p.owe()
	}
	log(ctx).V(1).Info("Checked pull requests", "open", p.open, "after", p.after)
}

// scope drops the pull requests that are none of the Sync's any more. It counts those
// that are open into its branch, and returns those that were merged into it, the oldest
// merge first.
func (p *pass) scope() (open int, merged []forge.PullRequest) {
	listed, ours := map[int64]bool{}, map[int64]bool{}
	for _, pr := range p.s.listing.Open {
		listed[int64(pr.Number)] = true
		if pr.Base.Name == p.branch() {
			open++
			ours[int64(pr.Number)] = p.ours(pr)
		}
	}
	for _, pr := range p.s.listing.Merged {
		listed[int64(pr.Number)] = true
		if pr.Base.Name == p.branch() && p.ours(pr) {
			ours[int64(pr.Number)] = true
			merged = append(merged, pr)
		}
	}
	for number, rec := range p.s.records {
		switch {
		case ours[number]:
		case !listed[number] && rec.unfinished(p.now):
			merged = append(merged, rec.unlisted())
		default:
			delete(p.s.records, number)
		}
	}
	slices.SortFunc(merged, func(a, b forge.PullRequest) int {
		return cmp.Or(a.Merged.Compare(b.Merged), cmp.Compare(a.Number, b.Number))
	})
	return open, merged
}

// readDrift records what the Sync reports of live objects, and since when.
func (p *pass) readDrift() {
	c := conditionOf(p.sync, "Drifted")
	hash := state.Hash(struct {
		Status, Reason, Message string
		Pending                 []v1alpha1.PendingChange
	}{string(c.Status), c.Reason, c.Message, p.sync.Status.Pending})
	if hash != p.s.live.hash {
		p.s.live = driftStatus{hash, p.now}
	}
}
