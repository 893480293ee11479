package pullrequest

import (
	"context"
	"fmt"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
)

// SetupWithManager registers the reconciler, with a queue of its own. It works for
// the leader only.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		r.states.close()
		return nil
	}))
	if err != nil {
		return fmt.Errorf("registering the end of sessions: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("poolwright.pullrequest").
		For(&v1alpha1.Sync{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: isRelevant})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("registering the pull request controller: %w", err)
	}
	return nil
}

// isRelevant reports whether pull requests may have to be commented on because a Sync
// changed. What this controller writes itself never does.
func isRelevant(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.Sync)
	after, also := e.ObjectNew.(*v1alpha1.Sync)
	if !ok || !also {
		return false
	}
	return before.Generation != after.Generation ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		before.Annotations[v1alpha1.WebhookAnnotation] != after.Annotations[v1alpha1.WebhookAnnotation] ||
		before.Status.LastAppliedRevision != after.Status.LastAppliedRevision ||
		before.Status.LastAttemptedRevision != after.Status.LastAttemptedRevision ||
		!sameCondition(before, after, fluxmeta.ReadyCondition) ||
		!sameCondition(before, after, "Drifted") ||
		!equality.Semantic.DeepEqual(before.Status.Pending, after.Status.Pending)
}

func sameCondition(before, after *v1alpha1.Sync, kind string) bool {
	return conditionOf(before, kind) == conditionOf(after, kind)
}

// Reconcile makes one pass over the pull requests of one Sync.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var sync v1alpha1.Sync
	if err := r.Client.Get(ctx, req.NamespacedName, &sync); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.drop(req)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading Sync %s: %w", req.Name, err)
	}
	switch {
	case sync.Namespace != r.Namespace:
		return ctrl.Result{}, nil
	case !sync.DeletionTimestamp.IsZero(), sync.Spec.Suspend:
		// What the comments show stays true of the last moment that they name.
		r.drop(req)
		return ctrl.Result{}, nil
	case sync.Spec.PullRequests == nil:
		// The copy at hand may lack what the last pass has written.
		if sync.Status.PullRequests != nil || r.states.has(req.NamespacedName) {
			if err := r.patch(ctx, &sync, nil); err != nil {
				return ctrl.Result{}, err
			}
		}
		r.drop(req)
		return ctrl.Result{}, nil
	}
	s, err := r.states.get(ctx, &sync, r.Clock.Now(), r.Build)
	p := &pullRequestRun{Reconciler: r, sync: &sync, s: s, started: r.Clock.Now(), after: r.Jitter(interval(&sync))}
	p.now = p.started
	switch {
	case ctx.Err() != nil:
		return ctrl.Result{}, nil
	case err != nil:
		p.withoutForge(failure.ClassifySetup(err))
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

// drop drops a Sync that has nothing to report.
func (r *Reconciler) drop(req ctrl.Request) {
	r.states.stop(req.NamespacedName)
	r.Metrics.deleteSeries(req.Name)
}
