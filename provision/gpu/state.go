package gpu

import "time"

// PoolState is what was last observed of a pool's nodes with GPUs.
type PoolState struct {
	// Pool and Config are names.
	Pool, Config string
	// Nodes counts the pool's nodes with GPUs; Updated those that run the
	// declared plugin and advertise what the configuration declares.
	Nodes, Updated int
	// Allocatable adds up what the nodes' allocatable resources hold.
	Allocatable Resources
	// Unhealthy are the nodes that do not advertise what they should, by name.
	Unhealthy []UnhealthyNode
	// Unknown is why it cannot be determined whether nodes of the pool are as they should be; "" where it can. Such nodes
	// are neither in Updated nor in Unhealthy.
	Unknown string
	// Failures counts the nodes replaced in a row because they never advertised
	// their GPUs; BackoffUntil is until when none is launched, zero for not held.
	Failures     int
	BackoffUntil time.Time
	// LastFailure is the diagnosis of the last one that was replaced.
	LastFailure string
	// PluginUpdate is what the replacement of plugins does or waits for; "" when there is
	// nothing to replace.
	PluginUpdate string
}

// UnhealthyNode is a node that does not advertise what its configuration declares.
type UnhealthyNode struct {
	// Node and Claim are names; Claim may be empty.
	Node, Claim string
	// Reason is one of package readiness's reasons, Message a line for a person.
	Reason, Message string
	// Since is when that was first observed.
	Since time.Time
}
