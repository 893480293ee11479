// Package blocker has the kinds of what protects a node from being replaced.
//
// It refuses to find blockers, and to name what blocks. Start reading at Kind.
package blocker

// Kind is what protects a node, as the JSON form of a forecast has it.
type Kind string

// The kinds of blockers.
const (
	// DoNotDisrupt is a pod that is annotated do-not-disrupt.
	DoNotDisrupt Kind = "do-not-disrupt"
	// PDB is a pod of which PodDisruptionBudgets allow no eviction.
	PDB Kind = "pdb"
	// Unschedulable is a pod that would find no other node after the change.
	Unschedulable Kind = "unschedulable"
	// Limit is a limit of the pool that leaves no room for a replacement.
	Limit Kind = "limit"
	// Reservation is a capacity reservation that has no instance available for a replacement, of a
	// node whose pods find no node outside of it.
	Reservation Kind = "reservation"
	// Node is a node that is itself annotated do-not-disrupt.
	Node Kind = "node"
	// Starting is a node that is not initialized yet.
	Starting Kind = "starting"
)
