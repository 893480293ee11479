// Package connect makes what the controller and the commands that read a cluster have in
// common: clients, the targets of a Sync, forecasts and the processes in which both run what is
// untrusted.
//
// It refuses to start anything and to decide anything. Start reading at Kubernetes.
package connect

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// DirectClient reads and writes without a cache: at the start there is none,
// and safety gates must not rely on one. Its scheme has our kinds, CRDs, and what is in
// client-go's scheme, where Karpenter's packages put theirs. The host need not be
// reachable.
func DirectClient(cfg *rest.Config) (client.Client, error) {
	if err := errors.Join(v1alpha1.AddToScheme(scheme.Scheme), apiextensionsv1.AddToScheme(scheme.Scheme)); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", cfg.Host, err)
	}
	return c, nil
}

// CreateNamespace makes a namespace where none of that name is; whoever makes it
// at the same time is welcome to.
func CreateNamespace(ctx context.Context, direct client.Client, name string) error {
	if direct.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{}) == nil {
		return nil
	}
	err := direct.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return fmt.Errorf("creating namespace %s: %w", name, err)
}

// LiveSync reads a Sync; one that does not exist, or whose kind does not, is
// empty, and no error.
func LiveSync(ctx context.Context, c client.Client, namespace, name string) (*v1alpha1.Sync, error) {
	var sync v1alpha1.Sync
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &sync)
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("reading Sync %s: %w", name, err)
	}
	return &sync, nil
}
