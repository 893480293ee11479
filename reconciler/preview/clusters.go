package preview

import (
	"fmt"
	"strings"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/validation"
)

// ClusterIdentityProblems are about the changes by which a Cluster becomes that of another EKS cluster,
// with what comes of it. No API server refuses them, and the engine's gates do once
// they are applied, when nothing of the old cluster is managed any more: a person must
// be stopped before.
func ClusterIdentityProblems(changes []plan.Change) []state.Problem {
	var out []state.Problem
	var gone, made []*state.Item
	for _, c := range changes {
		switch {
		case c.Drift: // It is put back.
		case c.Before != nil && validation.IsCluster(*c.Before) && c.After != nil:
			out = append(out, moved(c.Before, c.After)...)
		case c.Before != nil && validation.IsCluster(*c.Before):
			gone = append(gone, c.Before)
		case c.After != nil && validation.IsCluster(*c.After) && c.Before == nil:
			made = append(made, c.After)
		}
	}
	if len(gone) == 1 && len(made) == 1 {
		out = append(out, moved(gone[0], made[0])...)
	}
	return out
}

// moved reports that two states of a Cluster are of two EKS clusters.
func moved(was, is *state.Item) []state.Problem {
	before, known := was.Object["spec"].(map[string]any)
	after, _ := is.Object["spec"].(map[string]any)
	if !known || after == nil {
		return nil
	}
	var what []string
	for _, field := range []string{"name", "region", "account"} {
		old, _ := before[field].(string)
		now, _ := after[field].(string)
		if old != "" && now != "" && old != now {
			what = append(what, fmt.Sprintf("spec.%s: %q becomes %q", field, old, now))
		}
	}
	if len(what) == 0 {
		return nil
	}
	detail := strings.Join(what, ", ") + ": a Cluster stays that of one EKS cluster. " +
		"Once this is applied the engine is held, since this API server is not that of the EKS cluster named (gate Identity): no node is launched, replaced or removed any more, " +
		"and what was made in AWS for the old one is no longer declared. Undo it; for another EKS cluster write a folder with a Cluster of its own and run poolwright bootstrap there"
	found := state.NewProblem(is.Origin, finding.New(codeClusterMoved, "%s: %s", finding.NewFact("object", is.Key), detail).With(finding.NewFact("changes", what)))
	found.Object, found.Detail = is.Key, detail
	return []state.Problem{found}
}

// clusterIn is the name of the cluster that a revision declares; empty where it
// declares none, or several.
func clusterIn(set state.Set) string {
	var names []string
	for item := range set.All() {
		if validation.IsCluster(item) {
			spec, _ := item.Object["spec"].(map[string]any)
			name, _ := spec["name"].(string)
			names = append(names, name)
		}
	}
	if len(names) != 1 {
		return ""
	}
	return names[0]
}
