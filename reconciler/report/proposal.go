package report

import (
	"time"

	"github.com/poolwright/poolwright/provision"
)

// Drift is what differed before the step and does so without it.
type Drift struct {
	// Changes are what would put it back, in the order of work.
	Changes []Change `json:"changes"`
	// Unknown lists what could not be compared.
	Unknown []Unknown `json:"unknown"`
	// Notes are other findings on things as they are, such as "exists, not ours", warnings
	// first. That a quota suffices is not among them.
	Notes []Note `json:"notes"`
}

// Guard is the result of one rule for the step.
type Guard struct {
	// Rule is a hold.Rule, "lint" or "merge".
	Rule string `json:"rule"`
	// Result is "ok", "warning" or "held".
	Result string `json:"result"`
	// Text is what was found, and what lets it pass.
	Text string `json:"text"`
}

// Provenance is what a report of a step was made of: with another head, base or moment it
// may be another.
type Provenance struct {
	// Cluster is the name of the cluster; empty where none is known.
	Cluster string `json:"cluster,omitempty"`
	// Base is the branch or reference that is merged into, BaseCommit where it stands.
	Base       string `json:"base,omitempty"`
	BaseCommit string `json:"baseCommit,omitempty"`
	// HeadCommit is what would be merged; empty for a working copy.
	HeadCommit string `json:"headCommit,omitempty"`
	// MergeBase is the commit from which both come, against which the step is reported.
	MergeBase string `json:"mergeBase,omitempty"`
	// Observed is when the live targets were read; zero where they were not.
	Observed time.Time `json:"observed,omitzero"`
}

// MergeOutcome is what became of a step after its merge.
type MergeOutcome struct {
	// Revision is what was applied, branch@sha1:commit; empty while it is not.
	Revision string
	// Merged and Applied are when; Applied is zero while it is not.
	Merged, Applied time.Time
	// Sync is the namespace and the name of the Sync, with a slash between them, for the
	// command that lets held changes go on; may be empty.
	Sync string
	// Held is why the step, or a part of it, was not applied; empty where nothing
	// keeps it.
	Held string
	// ConfirmationToken lets pass what of that waits for a confirmation; empty where
	// nothing does.
	ConfirmationToken string
	// Failed is the reason for which the step was not applied, or not all of it, as the
	// Sync's status has it; empty where nothing failed. Stalled is true where no other try
	// can help.
	Failed  string
	Stalled bool
	// Nodes is how many nodes the step made stale, or would have replaced at the
	// review; Left are those of them that are still there.
	Nodes int
	Left  []provision.Node
	// Removed is how many of Nodes go with their pool and get no replacement.
	Removed int
	// Done is when the last of them was gone; zero before.
	Done time.Time
}
