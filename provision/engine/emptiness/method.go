package emptiness

import (
	"cmp"
	"context"
	"slices"

	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
)

// Method is Karpenter's method for empty nodes, without its validation before the taint:
// Client validates after it. Use it in a controller that runs by the lock's Reconciler.
type Method struct {
	*disruption.Emptiness
	lock *Lock
}

// NewMethod returns the method for candidates that inner accepts.
func NewMethod(inner *disruption.Emptiness, lock *Lock) *Method {
	return &Method{Emptiness: inner, lock: lock}
}

// ComputeCommands implements disruption.Method: a command for each candidate, as far as the
// budgets of its NodePool go, in Karpenter's order: first what saves the most for what its
// disruption costs.
func (m *Method) ComputeCommands(_ context.Context, budgets map[string]int, candidates ...*disruption.Candidate) ([]disruption.Command, error) {
	var commands []disruption.Command
	for _, candidate := range bySavings(candidates) {
		pool := candidate.NodePool.Name
		if budgets[pool] <= 0 {
			continue
		}
		budgets[pool]--
		commands = append(commands, disruption.Command{
			Candidates:          []*disruption.Candidate{candidate},
			PoolDisruptionCosts: map[string]float64{pool: candidate.RescheduleDisruptionCost},
		})
	}
	m.lock.changes.Add(int64(len(commands)))
	return commands, nil
}

func bySavings(candidates []*disruption.Candidate) []*disruption.Candidate {
	return slices.SortedStableFunc(slices.Values(candidates), func(a, b *disruption.Candidate) int {
		return cmp.Compare(b.SavingsRatio(), a.SavingsRatio())
	})
}
