// Package promises is what Poolwright promises under faults, as data, with what proves each
// promise: cases of a proof (cmd/poolwright-sandbox/prove), Go tests, and the control that
// must break one of them. Tests hold it against the sentences of SECURITY.md and DESIGN.md,
// and against the tests and cases that exist.
//
// It only lists; what runs and what fails is decided elsewhere. Start reading at All.
package promises

import "slices"

// Promise is something that Poolwright promises, or does not promise for a reason.
type Promise struct {
	// Area groups promises: a wire or a part of the product, or the section of the document.
	Area string
	// Fault and Outcome are those of a row of the fault matrix.
	Fault, Outcome string
	// Sentences are the beginnings of the sentences of a document, each enough to find one.
	Sentences []string
	// Cases are selections SCENARIO/FAULT/POINT of cases that must hold, as --run takes them.
	Cases []string
	// Tests are Go tests, as FOLDER.NAME.
	Tests []string
	// Control is the name of a control that breaks one of them.
	Control string
	// NotPromised is why it is no promise, or the part of it that is none.
	NotPromised string
}

// Table is the promises of one origin.
type Table struct {
	// Title is printed above it. File is the document that has its sentences; it is empty for
	// the fault matrix.
	Title, File string
	Promises    []Promise
}

// All are all tables, in the order in which they are printed.
func All() []Table {
	return []Table{
		{Title: "Faults", Promises: slices.Concat(gitFaults(), renderFaults(), kubernetesFaults(), processFaults(), awsFaults(), otherFaults())},
		{Title: "SECURITY.md", File: "SECURITY.md", Promises: slices.Concat(securityOfWho(), securityOfContent(), securityOfDeletion(), securityOfProcess())},
		{Title: "Invariants of DESIGN.md", File: "DESIGN.md", Promises: invariants()},
	}
}
