package pullrequest

import (
	"context"
	"fmt"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// SetupWithManager registers the reconciler, with a queue of its own. It works for
// the leader only.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		r.sessions.close()
		return nil
	}))
	if err != nil {
		return fmt.Errorf("registering the end of sessions: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("poolwright.pullrequest").
		For(&v1alpha1.Sync{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: wakes})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("registering the pull request controller: %w", err)
	}
	return nil
}

// wakes reports whether pull requests may have to be commented on because a Sync
// changed. What this controller writes itself never does.
func wakes(e event.UpdateEvent) bool {
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
