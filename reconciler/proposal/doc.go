// Package proposal reports what the merge of a revision changes, kept apart
// from what the targets differ in already: Merge is what a merge will declare,
// Propose what that changes.
//
// It is as pure as package plan, and refuses to show what is live and not ours: who
// may open a pull request must not read the cluster by it. Start reading at Propose.
package proposal
