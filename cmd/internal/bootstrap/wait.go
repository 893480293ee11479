package bootstrap

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/installation"
)

// WaitAvailable returns once all replicas of the controller are of the newest
// form and available. Its error names what keeps them from it.
func (b *Bootstrap) WaitAvailable(ctx context.Context, timeout time.Duration) error {
	key := client.ObjectKey{Namespace: b.req.Namespace, Name: installation.Deployment}
	err := b.req.step("waiting for the controller", func() error {
		return installation.Await(ctx, timeout, b.req.Progress, func(ctx context.Context) (bool, string, error) { return b.available(ctx, key) })
	})
	if err != nil {
		return fmt.Errorf("waiting for the controller: %w; for details run: kubectl -n %s describe pods", err, b.req.Namespace)
	}
	return nil
}

// available reports whether all replicas are of the newest form and available, and how many are.
func (b *Bootstrap) available(ctx context.Context, key client.ObjectKey) (bool, string, error) {
	var d appsv1.Deployment
	if err := b.direct.Get(ctx, key, &d); err != nil {
		return false, "", fmt.Errorf("reading Deployment %s: %w", key, err)
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	fresh := d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == want
	if fresh && d.Status.AvailableReplicas == want && d.Status.Replicas == want {
		return true, fmt.Sprintf("Deployment %s: %d of %d replicas are available", key, want, want), nil
	}
	sentence := fmt.Sprintf("Deployment %s: %d of %d replicas are available", key, min(d.Status.AvailableReplicas, d.Status.UpdatedReplicas), want)
	return false, sentence + b.podErrors(ctx), nil
}

// podErrors is what the controller's pods wait for.
func (b *Bootstrap) podErrors(ctx context.Context) string {
	found, err := installation.PodErrors(ctx, b.direct, b.req.Namespace)
	if err != nil || len(found) == 0 {
		return ""
	}
	return " (" + strings.Join(found, "; ") + ")"
}
