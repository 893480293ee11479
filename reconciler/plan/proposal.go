package plan

import "github.com/poolwright/poolwright/reconciler/state"

// Proposal is what the merge of a revision changes, kept apart from what
// the targets differ in already. Package proposal makes it.
//
// Nothing live is shown of a thing that is not in the applied inventory: its note is
// "exists, not managed by this Sync". Where a Change of such a thing must have a Before all the same,
// its Object is that of After, so that no field differs.
//
// The confirmation tokens of its changes are those of the whole live plan after the merge:
// what the apply will delete can be more than Proposed, as the drift has deletions too, and
// less, as some wait or are done.
type Proposal struct {
	// Proposed is what the merge itself changes, both sides of each field as the two revisions
	// declare them. Holds, losses and owners are those of the live targets after the merge.
	// Its Notes are those that only the targets after the merge have, also of things that
	// are only read, such as a quota that larger pools do not fit into; and what else
	// there is to report of a change. What both have is in Drift's. Unchanged and Managed
	// are those of the whole live plan.
	Proposed Plan
	// Drift is what separates the targets from the revision before the merge, and would
	// without it; empty where no target was read.
	Drift Plan
	// Problems are all of the revision after the merge, those that only a
	// target observes included. While there are any, nothing is deleted.
	Problems []state.Problem
	// ExistingProblems are those of the Problems that the revision before has as well
	// ([state.Problem.Identity]): the merge is not to blame for them.
	ExistingProblems []state.Problem
}

// Compare is the order of work: creations and updates by wave and key, then deletions
// by falling wave and key.
func (c Change) Compare(other Change) int { return order(c, other) }
