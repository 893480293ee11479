package aws

import (
	"cmp"
	"context"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/clusterspec"
)

// Desired implements targets.Target: the AWS things that the declared Cluster has. It
// sends no request. Without a Cluster, or with one that declares nothing of AWS, the
// Set is empty. With any problem in the Cluster it is what the last Cluster without one
// declared, since half a cluster's prerequisites help no node; none before means an
// empty Set.
func (w *Target) Desired(_ context.Context, declared state.Set) (state.Set, error) {
	made, problems := w.kinds.read(declared, w.cfg.Bootstrap, w.findings)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(problems) > 0:
		lastValid := w.previousRead.good
		lastValid.object = cmp.Or(lastValid.object, made.object)
		lastValid.Pools, lastValid.problem = made.Pools, problems[0].String()
		made = lastValid
	case made.object != "":
		w.previousRead.good = made
	}
	w.desired, w.previousRead.desiredCalled = made, true
	if w.preview != nil && w.preview.base == nil {
		w.preview.base = &made
	}
	if len(problems) > 0 {
		return made.items, &targets.ProblemsError{Problems: problems}
	}
	return made.items, nil
}

// Check lists the problems in the declared Cluster that can be observed without a
// request, beyond those that its schema refuses: a Cluster that does not fit the schema
// so far that it cannot be read is passed over.
func Check(declared state.Set) []state.Problem {
	_, problems := table(kinds()).read(declared, false, func(state.Item, v1alpha1.ClusterSpec, error) []state.Problem { return nil })
	return problems
}

// findings are those of the schema, as far as this Target has it.
func (w *Target) findings(item state.Item, spec v1alpha1.ClusterSpec, unreadable error) []state.Problem {
	var found []state.Problem
	if w.cfg.Check != nil {
		found = w.cfg.Check(item)
	}
	if len(found) > 0 {
		return found
	}
	if unreadable != nil {
		return []state.Problem{state.NewProblem(item.Origin, finding.New(finding.ObjectInvalid, "Cluster %s cannot be read: %s",
			finding.NewFact("cluster", item.Key.Name), finding.NewFact("reason", unreadable)))}
	}
	return clusterspec.Unidentified(item, spec)
}
