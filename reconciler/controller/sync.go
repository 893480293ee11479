package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/background"
	"github.com/poolwright/poolwright/reconciler/state"
)

// resync is how often a Sync that needs nothing is compared in full all the
// same: the net under the watches, not the way drift is found.
const resync = 10 * time.Minute

// SyncReconciler leads each Sync's repository to the cluster. All fields are
// needed.
type SyncReconciler struct {
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Namespace is the only one in which Syncs are honoured.
	Namespace string
	// Build assembles what a Sync needs to run.
	Build    Builder
	Recorder record.EventRecorder
	Metrics  *Metrics
	Clock    clock.PassiveClock

	sessions sessions
}

// Reconcile runs one Sync once, or puts back what drifted since.
func (r *SyncReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var sync v1alpha1.Sync
	if err := r.Client.Get(ctx, req.NamespacedName, &sync); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.sessions.forget(req.NamespacedName)
			r.Metrics.forget(req.Name)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading Sync %s: %w", req.Name, err)
	}
	if r.sessions.behind(&sync, r.Clock.Now()) {
		return ctrl.Result{RequeueAfter: lag}, nil
	}
	switch {
	case sync.Namespace != r.Namespace:
		return r.refuse(ctx, &sync)
	case !sync.DeletionTimestamp.IsZero():
		return r.release(ctx, &sync)
	case sync.Spec.Suspend:
		r.sessions.stop(req.NamespacedName)
		return ctrl.Result{}, r.writeStatus(ctx, &sync, suspended(&sync))
	}
	if controllerutil.AddFinalizer(&sync, v1alpha1.Finalizer) {
		if err := r.Client.Update(ctx, &sync); err != nil {
			return again(fmt.Errorf("adding the finalizer to Sync %s: %w", sync.Name, err))
		}
	}
	session, err := r.sessions.get(ctx, &sync, r.Build)
	if err != nil {
		return r.conclude(ctx, &sync, nil, run{err: err})
	}
	return r.conclude(ctx, &sync, session, r.run(ctx, &sync, session))
}

// run does the least that is enough: put back drifted things, fetch what is new in Git,
// or compare everything.
func (r *SyncReconciler) run(ctx context.Context, sync *v1alpha1.Sync, s *session) run {
	defer s.revisions.Unload()
	now := r.Clock.Now()
	drifted, forced := s.takeDrift(), s.forced(sync, now)
	// What a token has let pass and could not be made is for a full run to make.
	drifted = slices.DeleteFunc(drifted, func(k state.Key) bool { return slices.Contains(s.drift.confirmedKeys(), k) })
	alone := len(drifted) > 0 && !forced
	if alone && sync.Spec.Drift == v1alpha1.DriftReport {
		if left := s.lastObserved.Add(reportGap).Sub(now); left > 0 {
			s.putBack(drifted)
			return run{kind: waiting, after: left}
		}
	}
	if !alone || !now.Before(s.nextFetch) {
		if got, ok := s.revisions.Fetch(sync.Annotations[fluxmeta.ReconcileRequestAnnotation], alone); ok {
			s.nextFetch = r.Clock.Now().Add(wait.Jitter(interval(sync), spread))
			done := r.proceed(ctx, sync, s, got, drifted, forced)
			if got.Err != nil {
				if !alone {
					s.revisions.Cancel() // Without drift the next visit has no use for it.
				}
				done.applied = sync.Status.LastAppliedRevision
			}
			return done
		}
		if !alone {
			s.putBack(drifted)
			return run{kind: waiting}
		}
	}
	// Also while a slow source is awaited.
	return r.partial(ctx, sync, s, drifted)
}

// reportGap is the least time between two comparisons that only report drift: something
// that is rewritten every second must not cost one each time.
const reportGap = 10 * time.Second

// mayHaveMoved reports whether the branch may be elsewhere by now.
func (d run) mayHaveMoved() bool {
	return d.err != nil || d.kind == partial || d.Stale != nil && d.Attempted == ""
}

// proceed goes on with what the source returned.
func (r *SyncReconciler) proceed(ctx context.Context, sync *v1alpha1.Sync, s *session, got background.Fetched, drifted []state.Key, forced bool) run {
	if got.Err != nil {
		s.putBack(drifted)
		return run{Result: got.Result, err: got.Err}
	}
	if got.Changed || forced {
		return r.full(ctx, sync, s, got.Result, drifted)
	}
	now, fresh := r.Clock.Now(), got.Result.Stale == nil
	settled := s.converged && now.Before(s.lastFull.Add(resync))
	resting := fresh && now.Before(s.restUntil)
	if settled && fresh && s.failures == 0 {
		// A person who undoes what is only reported is observed by nobody.
		drifted = union(drifted, s.drift.reported())
		resting = resting || len(drifted) > 0
	}
	switch {
	case resting && len(drifted) > 0:
		return r.partial(ctx, sync, s, drifted)
	case settled && len(drifted) == 0:
		return run{Result: got.Result, kind: idle}
	case resting:
		return run{kind: waiting, after: min(s.restUntil.Sub(now), s.nextFetch.Sub(now))}
	}
	return r.full(ctx, sync, s, got.Result, drifted)
}

// conclude turns a run into status, events, metrics and the next visit.
func (r *SyncReconciler) conclude(ctx context.Context, sync *v1alpha1.Sync, s *session, done run) (ctrl.Result, error) {
	if ctx.Err() != nil {
		// We are stopping: what was cut short proves nothing about the Sync.
		return ctrl.Result{}, nil
	}
	if done.kind == waiting {
		// The source's result brings the next visit; the interval is the net under it.
		after := cmp.Or(max(done.after, 0), interval(sync))
		return ctrl.Result{RequeueAfter: after}, r.writeStatus(ctx, sync, awaiting(sync, done.loading))
	}
	done = done.use(sync, s)
	done.partly = done.Revision != sync.Status.LastAppliedRevision
	verdict := resultOf(done)
	last := everything
	if s != nil {
		s.observe(done, sync.Status.Pending, &verdict)
		s.used, last = done.scope.Handled, s.drift.computes
	}
	verdict.asks.kept = keptOf(r.sessions.earlier(sync), sync.Annotations[v1alpha1.ConfirmAnnotation], done.computable(last), done.mayHaveMoved(), verdict.drift.leaves, done.scope)
	verdict.ask(sync, done)
	r.report(sync, s, done, verdict)
	if s != nil {
		s.note(sync, done, verdict)
	}
	status := sync.Status.DeepCopy()
	switch {
	case done.kind != partial || !verdict.ready:
		verdict.write(status, sync, done)
	case verdict.drift.complete:
		// Some things are as they should be, or are known to differ; whether the Sync is
		// ready does not follow from them.
		verdict.findings(status, sync, done)
		verdict.confirmation(status, sync, done)
	}
	r.mismatch(sync, status)
	if status.LastAppliedRevision != sync.Status.LastAppliedRevision {
		status.LastAppliedTime = &metav1.Time{Time: r.Clock.Now()}
	}
	err := r.writeStatus(ctx, sync, status)
	if err == nil {
		r.sessions.compares(sync)
	}
	if s == nil {
		return ctrl.Result{RequeueAfter: interval(sync)}, err
	}
	if after := s.recorded(done, err, r.Clock.Now()); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "The status could not be written", "after", after)
		return ctrl.Result{RequeueAfter: after}, nil
	}
	after := s.requeueAfter(r.Clock.Now(), interval(sync), verdict)
	logr.FromContextOrDiscard(ctx).V(1).Info("Reconciled", "revision", done.Revision, "reason", verdict.reason, "after", after)
	return ctrl.Result{RequeueAfter: after}, nil
}

// adoptionGrace is how long another Poolwright is given to take up a new Sync in its
// namespace before it is reported that nobody honours it.
const adoptionGrace = 5 * time.Second

// refuse reports on a Sync in a foreign namespace why nothing happens. One that carries
// the finalizer is honoured by another Poolwright, in that namespace: by the lock no
// stale cache overlooks that.
func (r *SyncReconciler) refuse(ctx context.Context, sync *v1alpha1.Sync) (ctrl.Result, error) {
	if controllerutil.ContainsFinalizer(sync, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	if young := adoptionGrace - r.Clock.Since(sync.CreationTimestamp.Time); young > 0 {
		return ctrl.Result{RequeueAfter: young}, nil
	}
	before := sync.DeepCopy()
	message := fmt.Sprintf("Syncs are honoured only in namespace %s; create it there", r.Namespace)
	setReady(&sync.Status, sync, false, foreignNamespace, message)
	setStalled(&sync.Status, sync, foreignNamespace, message)
	if equality.Semantic.DeepEqual(before.Status, sync.Status) {
		return ctrl.Result{}, nil
	}
	err := r.Client.Status().Patch(ctx, sync, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return again(fmt.Errorf("refusing Sync %s in namespace %s: %w", sync.Name, sync.Namespace, err))
	}
	return ctrl.Result{}, nil
}

// spread is how much later than the interval a fetch may be, as a part of it, so that many
// clusters do not fetch from one Git server in the same second.
const spread = 0.1
