package installation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConflictingNamespace is another namespace in which Poolwright is installed, or empty. Two
// installations would share the roles that are not in any.
func ConflictingNamespace(ctx context.Context, c client.Reader, namespace string) (string, error) {
	var binding rbacv1.ClusterRoleBinding
	err := c.Get(ctx, client.ObjectKey{Name: "poolwright-controller"}, &binding)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading whether Poolwright is installed in another namespace: %w", err)
	}
	for _, subject := range binding.Subjects {
		if subject.Name == Deployment && subject.Namespace != namespace {
			return subject.Namespace, nil
		}
	}
	return "", nil
}

// PodErrors is what the controller's pods wait for, each once, sorted.
func PodErrors(ctx context.Context, c client.Reader, namespace string) ([]string, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": Deployment}); err != nil {
		return nil, fmt.Errorf("listing the controller's pods: %w", err)
	}
	var out []string
	for _, pod := range pods.Items {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				out = append(out, condition.Message)
			}
		}
		for _, container := range pod.Status.ContainerStatuses {
			if w := container.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" {
				out = append(out, strings.TrimSuffix(w.Reason+": "+w.Message, ": "))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
