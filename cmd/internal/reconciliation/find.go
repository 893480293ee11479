package reconciliation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// ErrNoSync reports that the namespace holds no Sync at all.
var ErrNoSync = errors.New("no Sync found")

// FindSync is the Sync of a name, or with an empty one the only one of a namespace. Where there is none in it, the error wraps ErrNoSync.
func FindSync(ctx context.Context, cl client.Reader, namespace, name string) (*v1alpha1.Sync, error) {
	if name != "" {
		var sync v1alpha1.Sync
		err := cl.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &sync)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("no Sync %q in namespace %s; to list those that there are, run: kubectl get syncs -A", name, namespace)
		}
		if err != nil {
			return nil, fmt.Errorf("reading Sync %s: %w", name, err)
		}
		return &sync, nil
	}
	var list v1alpha1.SyncList
	err := cl.List(ctx, &list, client.InNamespace(namespace))
	switch {
	case meta.IsNoMatchError(err), err == nil && len(list.Items) == 0:
		return nil, fmt.Errorf("%w in namespace %s; choose another with -n", ErrNoSync, namespace)
	case err != nil:
		return nil, fmt.Errorf("listing Syncs: %w", err)
	case len(list.Items) > 1:
		var names []string
		for _, s := range list.Items {
			names = append(names, s.Name)
		}
		return nil, fmt.Errorf("namespace %s holds several Syncs, name one of them: %s", namespace, strings.Join(names, ", "))
	}
	return &list.Items[0], nil
}
