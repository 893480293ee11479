// Package simulate computes what a change of pools does before it is made: which nodes
// Karpenter replaces and why, in which order and how fast, which pods find a node, and
// what it costs.
//
// The results are Karpenter's own: its hashes and its requirements decide what drifts,
// its budgets how fast, its overlays what a node advertises, and its scheduler what fits,
// over instance types that the AWS provider's code makes of the catalog. Nothing is
// read from AWS or a cluster, nothing is written, and equal input gives an equal
// result.
//
// It refuses to estimate: what cannot be computed from the objects becomes a sentence
// in Forecast.Unknown. Start reading at Compare; a Reader reads declared objects, and
// Drifted is what a cluster has yet to replace after the change.
//
// Inside, a change passes from one package to the next: internal/snapshot indexes both sides,
// internal/offerings finds what their pools can buy, internal/drift which nodes the change replaces,
// internal/placement which pods find a node; what is here puts that together.
package simulate
