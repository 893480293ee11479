// Package readiness keeps pods off a node until its GPUs come to the numbers that pods
// are scheduled by. A node with GPUs starts with a taint (package startuptaint puts it
// there, as [gpu.StartupTaint]); only this package takes it off, when the device plugin
// runs as declared and the node advertises what its configuration declares. A node that never
// does is diagnosed, reported and replaced; a pool where that repeats is backed off.
//
// It refuses to replace a node that pods may have come to, one whose DaemonSet was
// not made from the DevicePlugin that counts, one that another device plugin
// serves, and one that somebody keeps: it only reports on these. It replaces no
// more than a few of a pool at a time, and none where another Karpenter rules. It
// records a released node's capacity, which counts while a plugin restarts. It never puts a
// taint on a node, and it concludes nothing from what it could not read. What it
// does is decided by objects; what it keeps in memory only makes it wait longer, or leave a
// node alone.
//
// A node of NVIDIA's DRA driver starts without the taint, since no pod with a claim comes before the driver has published the GPUs.
// It is reported once its GPUs are not published in time, and never replaced: a pod may come to it at any moment.
//
// Start reading at Check, which compares one node with its configuration; Controller's
// Reconcile acts on the result.
package readiness
