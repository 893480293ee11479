package connect

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/validation"
)

// ValidatedTarget is a cluster's target that is not given what was refused.
type ValidatedTarget struct {
	*kubernetes.Target
	Errors *validation.Errors
	// Live reads the cluster's definitions.
	Live client.Reader
}

// Desired implements targets.Target.
func (a ValidatedTarget) Desired(ctx context.Context, declared state.Set) (state.Set, error) {
	return a.Errors.Desired(ctx, a.Target, crds.Live(ctx, a.Live), declared)
}

// OfflineValidatedTarget is the same where there is no cluster.
type OfflineValidatedTarget struct {
	targets.Target
	Errors *validation.Errors
}

// Desired implements targets.Target.
func (u OfflineValidatedTarget) Desired(ctx context.Context, declared state.Set) (state.Set, error) {
	return u.Errors.Desired(ctx, u.Target, crds.Live(ctx, nil), declared)
}
