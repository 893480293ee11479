// Package nodes emulates what lives on a cloud's machines and beside them: the
// kubelets, the cloud controller that takes away the Nodes of gone machines, and
// NVIDIA's device plugin as far as its effect on a Node goes. kwok emulates the
// kubelets' everyday work; this package decides what kwok gets.
//
// A machine becomes a Node as its user data configures it, after Delays.Join, posted
// with its status and without GPUs. It never joins when its user data cannot be read,
// names another cluster, or is a script of Amazon Linux 2 that surely ends before it
// calls bootstrap.sh; a Notice then has the reason. (On Amazon Linux 2023 nodes join
// whatever becomes of their scripts.) Pods bound to it pass the kubelet's admission,
// run, and are deleted to the end. They are ready when their readiness and startup
// probes, which all succeed, have been made; their preStop hooks that sleep take their
// time, within the grace period; and a pod that is not restarted always ends as its
// commands do, where all of them only sleep, exit and print. GPUs appear when the
// device plugin's pod runs there, as many as its configuration declares, and stop being
// allocatable when it is gone. A plugin that cannot start ends with an error and its
// last log lines, and is started again less and less often, as NVIDIA's is: its pod is
// not ready meanwhile. Where no MPS daemon runs, or no driver was found and it was
// configured to wait, it runs on without devices.
//
// The node monitoring agent of EKS has no pods here; SetCondition writes the conditions that it would.
//
// Neuron devices and attached EFA interfaces are offered as if the add-ons for them
// were installed, and so is the EBS CSI driver (internal/ebsdriver): claims of a
// StorageClass with provisioner ebs.csi.aws.com get volumes that are attached and
// detached after Delays.Volume. Branch interfaces (vpc.amazonaws.com/pod-eni), the pods
// of aws-node and kube-proxy, and CoreDNS are not emulated.
//
// Three annotations on a pod come before its commands:
//
//	sandbox.poolwright.dev/run-seconds   a pod that is not restarted always ends after so long
//	sandbox.poolwright.dev/exit-code     with which exit code it then ends, 0 if absent
//	sandbox.poolwright.dev/stop-seconds  how long its containers take to stop after their hooks, at most the grace period
//
// It leaves out image pulls, probes that fail, liveness, hooks over HTTP, commands but those, logs
// and exec; of volumes a pod waits for the ConfigMaps of a device plugin only; no Windows and no
// IPv6, which nodes are refused for, and no local zones; taints that only node-lifecycle or
// Karpenter may take off are left to them.
//
// It does not depend on the cloud's emulator: whoever composes the sandbox turns
// instances into Machines. Start reading at Simulator, then at kubelet.go; plugin.go is
// the device plugin.
package nodes
