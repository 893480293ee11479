package controller

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/predicates"
)

// SetupWithManager registers the reconciler. It works for the leader only.
func (r *SyncReconciler) SetupWithManager(mgr manager.Manager) error {
	notifications := make(chan event.GenericEvent, 64)
	stopped := make(chan struct{})
	r.states.notify = func(name types.NamespacedName) {
		select {
		case notifications <- event.GenericEvent{Object: &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}}:
		case <-stopped:
		}
	}
	err := errors.Join(r.RollOut.AddTo(mgr, r.states.notify), mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		close(stopped)
		r.states.close()
		return nil
	})))
	if err != nil {
		return fmt.Errorf("registering what Syncs keep: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("poolwright.sync").
		For(&v1alpha1.Sync{}, builder.WithPredicates(predicates.RunRequested())).
		Watches(&v1alpha1.Sync{}, r.dependencies().Handler()).
		WatchesRawSource(source.Channel(notifications, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("registering the Sync controller: %w", err)
	}
	return nil
}
