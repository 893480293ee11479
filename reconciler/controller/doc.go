// Package controller lets a cluster run the reconciler: it watches Syncs and
// the drift that targets report, calls the loop, and writes conditions, events
// and metrics once per run.
//
// It refuses to decide what to change: the plan does. Start reading at
// SyncReconciler.Reconcile.
package controller
