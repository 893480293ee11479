package preview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/admission"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// objectInFile is a file, and the text that begins what is wrong with an object in it.
type objectInFile struct{ file, object string }

// newProblems are those that the step brings. What a target reports of an object is
// not reported once more by its schema.
func newProblems(found reconciler.Proposal, refused []state.Problem) []state.Problem {
	out := without(found.Problems, found.Old)
	// A mistake in an object begins with its key.
	object := func(o state.Problem) (of objectInFile, named bool) {
		key, _, named := strings.Cut(o.Message, ": ")
		return objectInFile{o.Origin.File, key}, named
	}
	reported := make(map[objectInFile]bool, len(found.Problems))
	for _, p := range found.Problems {
		if of, named := object(p); named {
			reported[of] = true
		}
	}
	for _, o := range refused {
		if of, _ := object(o); !reported[of] {
			out = append(out, o)
		}
	}
	return slices.Compact(lint.Sorted(out))
}

// MovedClusters are the changes by which a Cluster becomes that of another EKS cluster,
// with what comes of it. No API server refuses them, and the engine's gates do once
// they are applied, when nothing of the old cluster is managed any more: a person must
// be stopped before.
func MovedClusters(changes []plan.Change) []state.Problem {
	var out []state.Problem
	var gone, made []*state.Item
	for _, c := range changes {
		switch {
		case c.Drift: // It is put back.
		case c.Before != nil && admission.IsCluster(*c.Before) && c.After != nil:
			out = append(out, moved(c.Before, c.After)...)
		case c.Before != nil && admission.IsCluster(*c.Before):
			gone = append(gone, c.Before)
		case c.After != nil && admission.IsCluster(*c.After) && c.Before == nil:
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
	return []state.Problem{{Origin: is.Origin, Message: is.Key.String() + ": " + strings.Join(what, ", ") + ": a Cluster stays that of one EKS cluster. " +
		"Once this is applied the engine is held, since this API server is not that of the EKS cluster named (gate Identity): no node is launched, replaced or removed any more, " +
		"and what was made in AWS for the old one is no longer wanted. Undo it; for another EKS cluster write a folder with a Cluster of its own and run poolwright bootstrap there"}}
}
