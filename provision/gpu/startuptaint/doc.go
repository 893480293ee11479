// Package startuptaint stands between Karpenter and the nodes with shared GPUs. It has
// four parts, each of which is given to the engine and none of which ever stops
// it:
//
//   - Decorate wraps the cloud provider: a node that may have GPUs of a configuration
//     starts with gpu.StartupTaint, and the GPU offerings of a pool that is backed
//     off, or may be while the Backoff is not known, are shown as unavailable;
//   - Backoff counts the nodes that never advertised their GPUs and for how long their
//     pool is backed off;
//   - NewHook puts the taint on a node that came without it, as nodes with an
//     image of the user's own do;
//   - WithRecordedCapacity makes a Node in the engine's cache advertise what its annotation
//     records.
//
// It refuses to fail a launch, to change an object of Karpenter's or of its cache,
// and to taint a node that is registered. Whether a node advertises what it should is
// package readiness's business. Start reading at Decorate.
package startuptaint
