package plan

// Proposal is what the step from one revision to another does, kept apart from what
// the worlds differ in already.
type Proposal struct {
	// Step is what the step itself changes, both sides of each field as the two
	// revisions say. Nothing live is shown of a thing that is not ours: a note says
	// that it exists. Holds, graves, notes and what is unknown are those of the live
	// worlds after the step, as far as the step brings them.
	Step Plan
	// Drift is what separates the worlds from the revision before the step, and would
	// without it; empty where no world was looked at.
	Drift Plan
}
