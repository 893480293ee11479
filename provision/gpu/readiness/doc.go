// Package readiness sees to it that pods and a node's GPUs come to the same
// numbers. A node with GPUs starts with a taint (package hold puts it there, see
// gpu.StartupTaint); only this package takes it off, when the device plugin runs
// as declared and the node offers what its profile says. A node that never does is
// diagnosed, reported and replaced; a pool where that repeats is held back.
//
// It refuses to touch a node that has been initialized: from then on it only
// reports, and vouches for the node's offer while a plugin restarts. It never puts
// a taint on a node, and it concludes nothing from what it could not read. What it
// does is decided by objects; what it remembers only makes it wait longer.
//
// Start reading at Judge, which compares one node with its profile; Keeper's
// Reconcile acts on the verdict.
package readiness
