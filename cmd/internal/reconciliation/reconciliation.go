// Package reconciliation waits for the controller to reconcile a Sync as a command requested it, and reports the result.
// It refuses to request a reconciliation. Start reading at UntilHandled.
package reconciliation

import (
	"context"
	"errors"
	"fmt"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// ErrDeleted reports that the Sync was deleted while a command waited for it.
var ErrDeleted = errors.New("was deleted")

// UntilHandled waits for the status that has handled the token of a requested run. It returns nil when ctx ends
// first, and ErrDeleted when the Sync does.
func UntilHandled(ctx context.Context, cl client.WithWatch, sync *v1alpha1.Sync, token string) (*v1alpha1.Sync, error) {
	var handled *v1alpha1.Sync
	for ctx.Err() == nil {
		w, err := cl.Watch(ctx, &v1alpha1.SyncList{}, client.InNamespace(sync.Namespace), client.MatchingFields{"metadata.name": sync.Name})
		if err != nil {
			return nil, fmt.Errorf("watching Sync %s: %w", sync.Name, err)
		}
		for event := range w.ResultChan() {
			s, ok := event.Object.(*v1alpha1.Sync)
			if event.Type == watch.Deleted {
				w.Stop()
				return nil, fmt.Errorf("Sync %s %w", sync.Name, ErrDeleted)
			}
			if !ok || s.Status.LastHandledReconcileAt != token {
				continue
			}
			if handled = s; !meta.IsStatusConditionPresentAndEqual(s.Status.Conditions, fluxmeta.HealthyCondition, metav1.ConditionUnknown) {
				w.Stop()
				return s, nil
			}
		}
	}
	return handled, nil
}
