// Package pullrequest comments on the pull requests of a Sync: on each open one what
// its merge would do, in one comment and a commit status, and each merged one what
// came of it until the last node that it made stale is gone.
//
// It refuses to decide and to apply: a Planner computes what a merge does, and the
// controller of the Git loop, which never waits for a forge, applies it. Nothing that
// stands in a pull request or in a comment commands anything. What is not ours is
// escaped wherever it is shown, and nothing of it is logged.
//
// Start reading at Reconciler.Reconcile, then at pass.run.
package pullrequest
