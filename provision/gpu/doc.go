// Package gpu is the arithmetic of shared GPUs: which configuration serves a NodePool,
// and what a node with a number of GPUs advertises under it. NVIDIA's device plugin,
// Karpenter's scheduler and the kubelet must all come to these numbers; whoever
// configures or watches one of them takes them from here.
//
// It is pure: values in, values out. It refuses to use Kubernetes objects beyond
// resource lists; package reconciler/deviceplugin turns a DevicePlugin into a Sharing,
// the packages below this one act on nodes by it. Start reading at Sharing.
package gpu
