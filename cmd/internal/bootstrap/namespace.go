package bootstrap

import (
	"context"
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// ensureNamespace creates the controller's namespace where it is missing, since the
// inventories are written into it before anything else. Its planned creation becomes
// what is then left to change of it: an apply creates only what does not exist.
func (b *Bootstrap) ensureNamespace(ctx context.Context) error {
	if err := connect.CreateNamespace(ctx, b.direct, b.req.Namespace); err != nil {
		return err
	}
	at := slices.IndexFunc(b.plan.Changes, func(c plan.Change) bool {
		return c.Action == plan.Create && c.Key.Target == kubernetes.Name && c.Key.Group == "" && c.Key.Kind == "Namespace" && c.Key.Name == b.req.Namespace
	})
	if at < 0 {
		return nil
	}
	desired := state.NewSet(*b.plan.Changes[at].After)
	observed, err := b.targets[kubernetes.Name].(*kubernetes.Target).ObserveOnly(ctx, desired)
	if err != nil {
		return fmt.Errorf("observing namespace %s: %w", b.req.Namespace, err)
	}
	b.plan.Changes = slices.Replace(slices.Clone(b.plan.Changes), at, at+1, plan.Compute(desired, observed).Changes...)
	return nil
}
