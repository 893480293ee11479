// Package deviceplugin turns a DevicePlugin into what a cluster must hold for it:
// NVIDIA's plugin as one DaemonSet and one ConfigMap a profile, NodeOverlays that
// tell Karpenter the same numbers, and limits of NodePools in shares.
//
// It is pure. It refuses what cannot be carried out (a pool with two profiles, a
// second DevicePlugin, a limit in GPUs where nothing says what a GPU is) as
// Problems with their place; advice is package gpulint's. Start reading at
// Expand.
package deviceplugin
