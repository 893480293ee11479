// Package deviceplugin turns a DevicePlugin into what a cluster must hold for it:
// NVIDIA's plugin as one DaemonSet and one ConfigMap a configuration, NodeOverlays that give
// Karpenter the same numbers, and limits of NodePools in shares.
//
// There is an overlay for each pool that a configuration names and each number of GPUs,
// where one for each configuration would do. Karpenter refuses an overlay as a whole where
// there is another of its weight in a single pool, so that while pools move from one
// configuration to another, pools that nobody touched would lose theirs, and Karpenter would
// buy ten nodes for what fits on one. An overlay of one pool can take nothing from
// others.
//
// It is pure. It refuses what cannot be carried out (a pool with two configurations, a
// second DevicePlugin, a limit in GPUs where nothing declares what a GPU is) as
// Problems with their place; advice is package gpulint's. Start reading at Expand.
package deviceplugin
