package emptiness

import (
	"context"
	"sync"

	"github.com/awslabs/operatorpkg/reconciler"
	"github.com/awslabs/operatorpkg/singleton"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
)

// Lock serialises disruption controllers. Each of them begins with the removal of taints
// that belong to no command of the queue, and a command is in the queue only after its nodes
// are tainted: at the same time, one would remove the taints of the other. The zero value is
// ready for use.
type Lock struct {
	mu sync.Mutex
	// commands counts those that were computed under the lock.
	commands int
}

// Reconciler runs one reconciliation of inner while it has the lock.
func (l *Lock) Reconciler(inner singleton.Reconciler) singleton.Reconciler {
	return locked{l, inner}
}

type locked struct {
	lock  *Lock
	inner singleton.Reconciler
}

func (l locked) Reconcile(ctx context.Context) (reconciler.Result, error) {
	l.lock.mu.Lock()
	defer l.lock.mu.Unlock()
	return l.inner.Reconcile(ctx)
}

// Unlocked returns inner with the lock released while its commands are computed: that has
// a simulation, and a validation of fifteen seconds. Where a command of another controller
// was computed meanwhile, inner's are dropped, because the budgets and candidates that they
// come from are outdated. The controller of inner must run by Reconciler.
func (l *Lock) Unlocked(inner disruption.Method) disruption.Method {
	return unlocked{inner, l}
}

type unlocked struct {
	disruption.Method
	lock *Lock
}

// SetNodePoolTotals implements disruption.NodePoolTotalsSetter for the methods that do.
func (u unlocked) SetNodePoolTotals(totals map[string]disruption.NodePoolTotals) {
	if setter, ok := u.Method.(disruption.NodePoolTotalsSetter); ok {
		setter.SetNodePoolTotals(totals)
	}
}

// ComputeCommands implements disruption.Method.
func (u unlocked) ComputeCommands(ctx context.Context, budgets map[string]int, candidates ...*disruption.Candidate) ([]disruption.Command, error) {
	before := u.lock.commands
	commands, err := u.compute(ctx, budgets, candidates)
	if err != nil || u.lock.commands != before {
		return nil, err
	}
	return commands, nil
}

func (u unlocked) compute(ctx context.Context, budgets map[string]int, candidates []*disruption.Candidate) ([]disruption.Command, error) {
	u.lock.mu.Unlock()
	defer u.lock.mu.Lock()
	return u.Method.ComputeCommands(ctx, budgets, candidates...)
}
