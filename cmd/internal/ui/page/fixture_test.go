package page

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/reconciler/causes"
)

func now() time.Time { return time.Date(2026, 11, 26, 14, 2, 11, 0, time.UTC) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now().Add(-d)) }

func gpus(allocatable, requested, idle int64) get.GPUs {
	return get.GPUs{Allocatable: &allocatable, Requested: &requested, Idle: &idle}
}

func usd(least, most float64) *get.USD { return &get.USD{Least: least, Most: most} }

// phases are given as a state and how many minutes ago it began, in turns.
func phases(of ...any) []get.Phase {
	var out []get.Phase
	for i := 0; i < len(of); i += 2 {
		minutes := of[i+1].(int)
		out = append(out, get.Phase{State: of[i].(string), Since: ago(time.Duration(minutes) * time.Minute)})
	}
	return out
}

// fleet is a cluster in which there is something of everything.
func fleet() get.Report {
	pods, none, four, pending, three := 1, 0, 4, 2, 3
	merged := ago(25 * time.Minute)
	r := get.Report{
		Time: metav1.NewTime(now()),
		Summary: &get.Summary{
			Cluster: "dev-euw1", Region: "eu-west-1", Account: "111122223333", Engine: "Embedded", Ready: "True", PriceDate: "2026-07-20", PendingGPUPods: &pending,
			Total: get.Total{Nodes: &get.NodeCounts{Total: 4, Ready: 2, Drifted: 1}, GPUs: gpus(9, 4, 5), USDPerHour: usd(7.41, 9.02)},
		},
		Syncs: []get.Sync{
			{Namespace: "poolwright-system", Name: "dev", Ready: "True", Drifted: "False", Revision: "main@sha1:e15a32f0000000000000000000000000000000aa", AttemptedRevision: "main@sha1:e15a32f0000000000000000000000000000000aa", Objects: 31, Created: ago(200 * time.Hour)},
			{Namespace: "poolwright-system", Name: "edge", Ready: "False", Drifted: "True", Revision: "main@sha1:33145d40000000000000000000000000000000bb", AttemptedRevision: "main@sha1:e15a32f0000000000000000000000000000000aa", Pending: 3, Reason: "NodeReplacementHeld", Message: "NodePool/gpu waits for a confirmation", Created: ago(200 * time.Hour)},
			{Namespace: "poolwright-system", Name: "lab", Ready: "True", Drifted: "Unknown", Suspended: true, SuspendReason: "until the audit is over", Created: ago(time.Hour)},
		},
		Pools: []get.Pool{
			{Name: "general", State: "Ready", Total: get.Total{Nodes: &get.NodeCounts{}, GPUs: gpus(0, 0, 0), USDPerHour: usd(0, 0)}},
			{Name: "gpu", State: "Ready", NodeClass: "gpu", Total: get.Total{Nodes: &get.NodeCounts{Total: 4, Ready: 2, Drifted: 1}, GPUs: gpus(9, 4, 5), USDPerHour: usd(7.41, 9.02)},
				Limits: []get.Limit{{Resource: "nvidia.com/gpu", Used: "16", Limit: "16"}, {Resource: "memory", Used: "31584Mi", Limit: "128Gi"}}},
			{Name: "held", State: "BackOff", Reason: "GPUsNotAllocatable", Message: "no node with GPUs is launched until 2026-11-26T14:05:11Z", Total: get.Total{}},
		},
		Nodes: []get.Node{
			{Name: "ip-10-0-1-2.eu-west-1.compute.internal", NodeClaim: "gpu-x7k00", NodePool: "gpu", InstanceType: "g5.12xlarge", CapacityType: "on-demand", Zone: "eu-west-1a", GPUs: gpus(4, 4, 0), Pods: &four, USDPerHour: usd(6.23, 6.23), Created: ago(312 * time.Minute), State: "Ready", Drifted: "NodePoolDrifted", Reason: "DoNotDisrupt", Message: "pod ml/train-3 has the annotation karpenter.sh/do-not-disrupt", Unschedulable: true,
				Phases: phases("Launching", 312, "Registering", 311, "Initializing", 310, "Ready", 308)},
			{Name: "ip-10-0-1-3.eu-west-1.compute.internal", NodeClaim: "gpu-zk7rq", NodePool: "gpu", InstanceType: "g4dn.xlarge", CapacityType: "spot", Zone: "eu-west-1b", GPUs: gpus(5, 0, 5), Pods: &none, USDPerHour: usd(0.05, 0.53), Created: ago(41 * time.Minute), State: "Ready", Reason: "Empty", Phases: phases("Launching", 41, "Registering", 40, "Initializing", 39, "Ready", 37, "Empty", 12)},
			{Name: "gpu-9fq2p", NodeClaim: "gpu-9fq2p", NodePool: "gpu", InstanceType: "g4dn.xlarge", CapacityType: "spot", GPUs: gpus(0, 0, 0), Pods: &pods, USDPerHour: usd(0.05, 0.53), Created: ago(9 * time.Minute), State: "Initializing", Reason: "NoDriver", Message: "nvidia-smi is not on the node", Phases: phases("Launching", 9, "Registering", 8, "Initializing", 7)},
			{Name: "web", NodePool: "gpu", GPUs: get.GPUs{}, Created: ago(50 * time.Hour), State: "NotReady", Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status.", Phases: phases("Registering", 3000, "NotReady", 5)},
		},
		PullRequests: []get.PullRequest{
			{Namespace: "poolwright-system", Sync: "dev", Number: 41, Phase: "Planned", Head: "33145d4000000000000000000000000000000000", NodesReplaced: &three, NodesRemoved: &none, Headline: "1 object · 3 of 6 nodes in 20–60 min"},
			{Namespace: "poolwright-system", Sync: "dev", Number: 38, Phase: "Done", Head: "e15a32f0000000000000000000000000000000aa", Headline: "Applied", Merged: &merged},
		},
		Drift: []get.Difference{
			{Owner: "Sync poolwright-system/edge", Object: "NodePool.karpenter.sh/gpu", Action: "update", HeldBy: []string{"MaxNodesReplaced"}, Reason: "3 nodes would be replaced, 2 are allowed", Source: "clusters/edge/gpu.yaml:12"},
			{Owner: "Cluster dev", Object: "aws Rule.events/eu-west-1/SpotInterruption", Reason: "state: DISABLED, declared ENABLED"},
		},
		Quotas:          []get.Quota{{Name: "Running On-Demand G and VT instances", LimitVCPUs: 96, UsedVCPUs: 48, Observed: ago(time.Minute)}, {Name: "All G and VT Spot Instance Requests", LimitVCPUs: 4, UsedVCPUs: 8}},
		PendingPods:     []get.PendingPod{{Namespace: "ml", Name: "train-7", GPUs: 2, Created: ago(6 * time.Minute)}, {Namespace: "ml", Name: "train-8", GPUs: 1, Created: ago(90 * time.Second)}},
		IncompleteKinds: []get.IncompleteKind{{Kind: "events", Reason: get.Forbidden, Message: "you have no right to list events"}},
	}
	return r
}

// lives are nodes that are gone.
func lives() []TerminatedNode {
	n := fleet().Nodes[1]
	n.Name, n.NodeClaim, n.Phases = "ip-10-0-1-9.eu-west-1.compute.internal", "gpu-old", phases("Launching", 200, "Registering", 199, "Initializing", 198, "Ready", 196, "Empty", 150, "Terminating", 149)
	n.Created = ago(200 * time.Minute)
	return []TerminatedNode{{Node: n, Ended: now().Add(-148 * time.Minute), EndReason: "Empty"}}
}

// pendingPod is an explanation with everything in it.
func pendingPod() explain.Explanation {
	return explain.Explanation{
		Time: metav1.NewTime(now()), Object: "Pod/ml/train-7", Since: ago(6 * time.Minute),
		Causes: []causes.Cause{
			{Reason: "AtLimit", NodePool: "gpu", Shortage: &causes.Shortage{Limit: "16", Used: "16", Resource: "nvidia.com/gpu", InstanceType: "g5.12xlarge", Requested: "4"}, Changes: []causes.Remedy{{Object: "NodePool/gpu", Field: "spec.limits"}, {Command: "poolwright get pools gpu"}}},
			{Reason: "QuotaExceeded", Possible: true, Shortage: &causes.Shortage{Resource: "vcpu", Quota: "All G and VT Spot Instance Requests", Used: "8", Limit: "4"}, Message: "MaxSpotInstanceCountExceeded", Changes: []causes.Remedy{{Object: "All G and VT Spot Instance Requests"}}},
		},
		NodePools: []explain.NodePoolCauses{{Name: "gpu", Causes: []causes.Cause{{Reason: "AtLimit"}}}, {Name: "general", Causes: []causes.Cause{{Reason: "AtLimit"}, {Reason: "QuotaExceeded"}}}, {Name: "free"}},
		Unknown:   []string{"You have no right to read events: causes in them are not found."},
	}
}

// renderer has the templates.
func renderer(t testing.TB) *Renderer {
	t.Helper()
	r, err := NewRenderer()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rendered is a page as HTML.
func rendered(t testing.TB, d Document, err error) string {
	t.Helper()
	var out strings.Builder
	if err == nil {
		err = renderer(t).Write(&out, d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
