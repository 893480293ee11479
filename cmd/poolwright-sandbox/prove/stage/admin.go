package stage

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox/history"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// empty is an object of a kind of the model.
func empty(o history.Object) (client.Object, error) {
	m := metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}
	switch o.Kind {
	case "configmaps":
		return &corev1.ConfigMap{ObjectMeta: m}, nil
	case "secrets":
		return &corev1.Secret{ObjectMeta: m}, nil
	case "serviceaccounts":
		return &corev1.ServiceAccount{ObjectMeta: m}, nil
	}
	return nil, fmt.Errorf("%s is of no kind of the model", o)
}

// Replace deletes an object as a person does, and makes another of its name.
func (s *Stage) Replace(ctx context.Context, o history.Object) error {
	object, err := empty(o)
	if err != nil {
		return err
	}
	if err := s.config.Admin.Delete(ctx, object); err != nil {
		return err
	}
	if object, err = empty(o); err != nil {
		return err
	}
	if err := s.config.Admin.Create(ctx, object); err != nil {
		return err
	}
	s.Tap.Record(history.Event{Kind: history.ForeignCreated, Object: o, UID: string(object.GetUID())})
	return nil
}

// Keep marks an object as a person does so that it stays.
func (s *Stage) Keep(ctx context.Context, o history.Object) error {
	object, err := empty(o)
	if err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"disabled"}}}`, v1alpha1.PruneAnnotation)
	if err := s.config.Admin.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return err
	}
	s.Tap.Record(history.Event{Kind: history.PruneDisabled, Object: o, UID: string(object.GetUID())})
	return nil
}
