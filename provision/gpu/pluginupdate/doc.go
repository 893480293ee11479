// Package pluginupdate replaces device plugins of an earlier version or configuration
// on running nodes, one node at a time in the whole cluster. The plugin's
// DaemonSets only act when a pod is deleted (updateStrategy OnDelete); this
// package decides whose pod, and when.
//
// Why one at a time, and not the DaemonSet controller's own rolling update: while
// a plugin restarts, its node advertises no GPU at all, and Karpenter would buy another
// node for whoever requests one in those seconds; and a DaemonSet calls a plugin
// available before the kubelet has its devices. So, for each node, in this order:
//
//	no pod that could be put there waits for GPUs   or its pool waits, an hour at most
//	the node gets recorded the lesser of its old and new numbers
//	(gpu.AllocatableAnnotation) and marked as being worked on, in one patch
//	the pod is deleted
//	the new pod is ready, the node advertises what its configuration declares, and goes on so
//	                                                or the update stops
//
// Pods that run keep their GPUs all the while: the kubelet records which devices it
// gave to whom in a checkpoint of its own, and calls the plugin only when a pod is
// admitted. For the same reason a pod that is put on the node in the seconds before the
// kubelet reports to the API server that its devices are gone (it does so every 10 s)
// fails admission. Waiting pods pause the update because of that: those that the node
// has shares for, and that its taints and labels let in, unless more shares are what
// the new plugin brings them. One that is created in just those seconds can still be
// hit, and its controller makes another. A pool that has waited for an hour goes on
// with one node: what waits for so long waits for something else, and a person who
// would rather not wait can delete those pods, which States names.
//
// There are exceptions: under MPS pods reach their GPUs through a daemon in the
// plugin's pod, MPS takes GPUs that it comes to for itself, and under another name
// the kubelet would give out once more what pods hold. Where MIG partitions GPUs, the init container of the plugin's
// pod deletes partitions of all GPUs when one GPU is not as declared, those included that a pod has and does not
// use at that moment. Such a node has its turn when no pod uses its GPUs.
//
// A node that has not been opened to GPU pods (not registered, or still with
// gpu.StartupTaint) has its plugin replaced at once. One that has been takes its
// turn, whether Karpenter calls it initialized yet or not. No plugin goes, on
// whatever node, before the DaemonSet controller has observed the new template: it
// would make the old one again.
//
// Everything is derived from objects, so a restart at any point goes on where the
// last process was: the record on the node (gpu.PluginUpdateAnnotation) names the revision and
// the pod that was, or is about to be, deleted.
//
// What it refuses: to touch a second node while one is in the middle; to go on
// after a node whose new plugin does not come to agree within the configuration's
// ReadyTimeout, until it does or another revision is declared, for which that node
// then goes first; to take a working plugin while another node of its configuration does
// not advertise what it should, as with the maxUnavailable of a DaemonSet, where
// unavailable pods use up the budget; to delete a second pod on a node for the same
// revision. Nodes that are not ready, cordoned or going are passed over.
//
// What it cannot do: when a NodePool moves to another configuration, the DaemonSet
// controller itself, at once and on all nodes of the pool, deletes the plugins that
// the node affinity no longer allows, whatever the updateStrategy. The nodes are
// then recorded with the lesser numbers as soon as that is observed.
//
// Start reading at decide.
package pluginupdate
