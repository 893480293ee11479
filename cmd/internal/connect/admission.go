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

// Admitted is a cluster's target that is not given what was refused.
type Admitted struct {
	*kubernetes.Target
	Refusals *validation.Refusals
	// Live reads the cluster's definitions.
	Live client.Reader
}

// Desired implements targets.Target.
func (a Admitted) Desired(ctx context.Context, declared state.Set) (state.Set, error) {
	return a.Refusals.Desired(ctx, a.Target, crds.Live(ctx, a.Live), declared)
}

// AdmittedOffline is the same where there is no cluster.
type AdmittedOffline struct {
	targets.Target
	Refusals *validation.Refusals
}

// Desired implements targets.Target.
func (u AdmittedOffline) Desired(ctx context.Context, declared state.Set) (state.Set, error) {
	return u.Refusals.Desired(ctx, u.Target, crds.Live(ctx, nil), declared)
}
