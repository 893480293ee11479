// Package kwokbridge lets kwok emulate kubelets: it runs kwok's node, pod and lease
// controllers with our own stages (stages.yaml), and feeds them by hand instead of
// letting them watch. So the simulator decides which pod a kubelet has admitted and
// which machine still runs, and a machine that is shut down stops reporting at once.
//
// It refuses stages that kwok cannot read. Start reading at New.
package kwokbridge
