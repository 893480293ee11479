// Package emptiness disrupts empty nodes within seconds after consolidateAfter, in
// place of Karpenter's disruption controller and its queue. Karpenter polls every ten
// seconds, and validates an empty node for fifteen seconds before it taints it. Here a
// node is tainted at once, and validated afterwards: its pods are listed from the API server,
// past every cache, and the NodeClaim is deleted only if none of them counts. Otherwise
// Karpenter removes the taint and drops the command.
//
// The parts are Karpenter's own wherever one exists: candidates, budgets, commands, the
// queue and the drain. New here are
//
//   - Method: Karpenter's Emptiness, with a command for each node, so that one that is in
//     use again keeps no other;
//   - Client: the queue's client, which validates before it deletes;
//   - Lock: by which two disruption controllers take turns, so that an empty node does not
//     wait for the simulation of a consolidation, and the provisioner with them, so that never both
//     launch a node for the same pod;
//   - Watch: which triggers the controller when a NodeClaim becomes Consolidatable and when a
//     disruption ends.
//
// What it refuses: to delete the NodeClaim of an empty node whose pods cannot be listed,
// that has no taint, or whose name is not known. Start reading at Client.Delete.
package emptiness
