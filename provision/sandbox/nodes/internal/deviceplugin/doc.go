// Package deviceplugin computes from Kubernetes objects what NVIDIA's device plugin
// would advertise on a node: which container of a pod is the plugin, which configuration
// file it reads and from which ConfigMap that comes, and how many devices of which name
// it registers for a number of GPUs.
//
// A container is recognised by its image: the last path element of the name
// starts with "k8s-device-plugin", whatever the registry. The same image also
// holds the MPS daemon, the feature discovery and the config manager; the command
// distinguishes them.
//
// It refuses what the plugin itself refuses, with the same consequence: no
// devices. Like the plugin it ignores the fields rename, devices and resources.
//
// Start reading at Locate, then at Config.AdvertisedPerGPU.
package deviceplugin
