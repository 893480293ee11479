package page

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/causes"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/state/owner"
)

func now() time.Time { return time.Date(2026, 11, 26, 14, 2, 11, 0, time.UTC) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now().Add(-d)) }

func gpus(allocatable, requested, idle int64) get.GPUs {
	return get.GPUs{Allocatable: &allocatable, Requested: &requested, Idle: &idle}
}

func usd(least, most float64) *get.USD { return &get.USD{Min: least, Max: most} }

// phases are given as a state and how many minutes ago it began, in turns.
func phases(of ...any) []get.Phase {
	var out []get.Phase
	for i := 0; i < len(of); i += 2 {
		minutes := of[i+1].(int)
		out = append(out, get.Phase{State: of[i].(string), Since: ago(time.Duration(minutes) * time.Minute)})
	}
	return out
}

// newReport is that of a cluster in which there is something of everything.
func newReport() get.Report {
	pods, none, four, pending, three := 1, 0, 4, 2, 3
	merged, suspended := ago(25*time.Minute), ago(20*time.Minute)
	r := get.Report{
		Time: metav1.NewTime(now()),
		Summary: &get.Summary{
			Cluster: "dev-euw1", Region: "eu-west-1", Account: "111122223333", Engine: "Embedded", Ready: "True", PriceDate: "2026-07-20", PendingGPUPods: &pending,
			Total: get.Total{Nodes: &get.NodeCounts{Total: 4, Ready: 2, Drifted: 1}, GPUs: gpus(9, 4, 5), USDPerHour: usd(7.41, 9.02)},
		},
		Syncs: []get.Sync{
			{Namespace: "poolwright-system", Name: "dev", Ready: "True", Drifted: "False", Revision: "main@sha1:e15a32f0000000000000000000000000000000aa", AttemptedRevision: "main@sha1:e15a32f0000000000000000000000000000000aa", Objects: 31, DriftReason: "InSync", PullRequests: &get.PullRequestsState{Open: &pods}, Created: ago(200 * time.Hour)},
			{Namespace: "poolwright-system", Name: "edge", Ready: "False", Drifted: "True", Revision: "main@sha1:33145d40000000000000000000000000000000bb", AttemptedRevision: "main@sha1:e15a32f0000000000000000000000000000000aa", Pending: 3, Reason: "NodeReplacementHeld", Message: "NodePool/gpu waits for a confirmation", Created: ago(200 * time.Hour)},
			{Namespace: "poolwright-system", Name: "lab", Ready: "True", Drifted: "Unknown", Suspended: true, SuspendReason: "until the audit is over", Revision: "main@sha1:" + commit, AttemptedRevision: "main@sha1:" + commit, DriftReason: "Suspended", DriftTransition: &suspended, Pending: 2, PullRequests: &get.PullRequestsState{Open: &three}, Created: ago(time.Hour)},
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
			{Namespace: "poolwright-system", Sync: "dev", Number: 41, URL: "https://github.com/example/cluster/pull/41", Phase: "Planned", Head: "33145d4000000000000000000000000000000000", NodesReplaced: &three, NodesRemoved: &none, Headline: "1 object · 3 of 6 nodes in 20–60 min",
				Reviewed: &v1alpha1.ReviewedDisruption{NodesReplaced: 3, MinMinutes: 20, MaxMinutes: 60, CostChange: &v1alpha1.HourlyCost{Min: "1.52", Max: "1.52"},
					Objects: []v1alpha1.ReviewedObject{{Kind: "EC2NodeClass", Name: "old"}, {Kind: "NodePool", Name: "gpu", Hash: "1"}}, Pools: []v1alpha1.ReviewedPool{{Name: "gpu", Nodes: 3}}}},
			{Namespace: "poolwright-system", Sync: "dev", Number: 38, Phase: "Done", Head: "e15a32f0000000000000000000000000000000aa", Headline: "Applied", Merged: &merged, NodesReplaced: &pods, NodesRemoved: &none,
				Reviewed: &v1alpha1.ReviewedDisruption{NodesReplaced: 1, MinMinutes: 5, MaxMinutes: 5, CostChange: &v1alpha1.HourlyCost{Min: "-0.1", Max: "0.3"}},
				Rollout:  &v1alpha1.RolloutOutcome{NodesReplaced: 1, CostBefore: &v1alpha1.HourlyCost{Min: "1", Max: "1"}, CostAfter: &v1alpha1.HourlyCost{Min: "1.29", Max: "1.29"}}},
		},
		Drift: []get.Difference{
			{Owner: "Sync poolwright-system/edge", Object: "NodePool.karpenter.sh/gpu", Action: "update", HeldBy: []string{"MaxNodesReplaced"}, Reason: "3 nodes would be replaced, 2 are allowed", Source: "clusters/edge/gpu.yaml:12"},
			{Owner: "Sync poolwright-system/edge", Object: "ConfigMap/ml/settings", Action: "update", HeldBy: []string{"HoldUntil"}, Reason: "stays as it is until 2026-11-28T18:00:00Z (hold-until): INC-7", Source: "clusters/edge/settings.yaml:3"},
			{Owner: "Cluster dev", Object: "aws Rule.events/eu-west-1/SpotInterruption", Reason: "state: DISABLED, declared ENABLED"},
		},
		Quotas:          []get.Quota{{Name: "Running On-Demand G and VT instances", LimitVCPUs: 96, UsedVCPUs: 48, Observed: ago(time.Minute)}, {Name: "All G and VT Spot Instance Requests", LimitVCPUs: 4, UsedVCPUs: 8}},
		PendingPods:     []get.PendingPod{{Namespace: "ml", Name: "train-7", GPUs: 2, Created: ago(6 * time.Minute)}, {Namespace: "ml", Name: "train-8", GPUs: 1, Created: ago(90 * time.Second)}},
		IncompleteKinds: []get.IncompleteKind{{Kind: "events", Reason: get.Forbidden, Message: "you have no permission to list events"}},
	}
	return r
}

const commit = "e15a32f0000000000000000000000000000000aa"

// night is a history of the cluster: with a node that was terminated, one that runs, and something of everything else.
func night() history.History {
	h := history.History{Time: ago(20 * time.Second)}
	h.NodeClaims = []history.NodeClaim{
		{
			Name: "gpu-x7k00", UID: "1", Node: "ip-10-0-1-2.eu-west-1.compute.internal", NodePool: "gpu", InstanceType: "g5.12xlarge", CapacityType: "on-demand", Zone: "eu-west-1a", GPUs: 4, Pods: []string{"ml/train-3", "ml/train-4"},
			Lifecycle: history.Lifecycle{Created: ago(312 * time.Minute), Launched: ago(311 * time.Minute), Registered: ago(310 * time.Minute), Initialized: ago(308 * time.Minute)}, USDPerHour: new(6.23), PriceBasis: history.PriceList, USD: new(32.3),
			GPUSeconds: history.States{Paid: 74000, Allocatable: 73000, Requested: 60000, Idle: 13000},
		},
		{
			Name: "gpu-old", UID: "2", Node: "ip-10-0-1-9.eu-west-1.compute.internal", NodePool: "gpu", InstanceType: "g4dn.xlarge", CapacityType: "spot", Zone: "eu-west-1b", GPUs: 1, Pods: []string{"ml/train-1"},
			Lifecycle: history.Lifecycle{Created: ago(200 * time.Minute), Launched: ago(199 * time.Minute), Registered: ago(198 * time.Minute), Initialized: ago(196 * time.Minute), Deleted: ago(149 * time.Minute), Terminated: ago(148 * time.Minute)},
			Reason:    history.ReasonDrifted, Message: "NodePoolDrifted: spec.template.spec.expireAfter", Revision: "main@sha1:" + commit, USDPerHour: new(0.4), PriceBasis: history.PriceSpotAtMost, USD: new(0.34), GPUSeconds: history.States{Paid: 3060, Allocatable: 2800, Requested: 1000, Idle: 1800},
		},
		{
			Name: "gpu-lost", UID: "3", NodePool: "gpu", InstanceType: "g4dn.xlarge", CapacityType: "spot", GPUs: 1, Lifecycle: history.Lifecycle{Created: ago(190 * time.Minute), Launched: ago(189 * time.Minute), Deleted: ago(180 * time.Minute), Terminated: ago(180 * time.Minute), TerminationUnobserved: true}, Reason: history.ReasonUnknown, GPUSeconds: history.States{Paid: 540, Unobserved: 540},
		},
		{Name: "gpu-ancient", UID: "4", NodePool: "gpu", InstanceType: "g4dn.xlarge", CapacityType: "spot", GPUs: 1, Lifecycle: history.Lifecycle{Created: ago(80 * time.Hour), Launched: ago(80 * time.Hour), Deleted: ago(70 * time.Hour), Terminated: ago(70 * time.Hour)}, Reason: history.ReasonEmpty, USDPerHour: new(0.4), USD: new(4.0), GPUSeconds: history.States{Paid: 36000, Allocatable: 36000, Idle: 36000}},
	}
	h.NodeClaims = append(h.NodeClaims, history.NodeClaim{
		Name: "gpu-spot", UID: "5", NodePool: "gpu", InstanceType: "g4dn.xlarge", CapacityType: "spot", Zone: "eu-west-1a", GPUs: 1, USDPerHour: new(0.2), USD: new(0.6), Reason: "SpotInterrupted",
		Lifecycle: history.Lifecycle{Created: ago(30 * time.Hour), Launched: ago(30 * time.Hour), Deleted: ago(27 * time.Hour), Terminated: ago(27 * time.Hour)}, GPUSeconds: history.States{Paid: 10800, Allocatable: 10800, Requested: 10800},
	})
	h.Applies = []history.Apply{{Sync: "dev", Revision: "main@sha1:" + commit, Time: ago(150 * time.Minute), Seconds: 0.25, Updated: 2, Objects: []string{"NodePool.karpenter.sh/gpu", "ConfigMap/ml/settings"}}}
	h.Drift = []history.Drift{
		{Sync: "edge", Object: "aws Rule.events/SpotInterruption", Time: ago(30 * time.Hour), Last: ago(time.Minute), Result: history.DriftReported, Fields: []history.FieldChange{{Path: "state", Before: "DISABLED", After: "ENABLED"}}},
		{
			Sync: "dev", Object: "NodePool.karpenter.sh/gpu", Time: ago(100 * time.Minute), Result: history.DriftCorrected,
			Fields:   []history.FieldChange{{Path: `spec.limits["nvidia.com/gpu"]`, Before: "64", After: "16"}, {Path: "spec.weight", Before: "9"}, {Path: "a"}, {Path: "b"}},
			Managers: []owner.Manager{{Name: "kubectl-edit", Operation: "Update", Time: "2026-11-26T12:22:11Z"}, {Name: "helm"}},
		},
		{Sync: "dev", Object: "ConfigMap/ml/settings", Time: ago(20 * time.Minute), Result: history.DriftNotCorrected, Deleted: true},
		{Sync: "dev", Object: "ConfigMap/ml/old", Time: ago(200 * time.Hour), Result: history.DriftCorrected, Deleted: true},
	}
	h.PullRequests = []history.PullRequest{
		{Sync: "dev", Number: 12, Commit: "00000000000000000000000000000000000000cc", Merged: ago(90 * time.Hour), Applied: ago(89 * time.Hour), RolledOut: ago(88 * time.Hour), Headline: "1 object", Predicted: &history.NodeChanges{Replaced: 4}, Actual: history.NodeChanges{Replaced: 3, Removed: 1, Seconds: new(3600.0)}},
		{Sync: "dev", Number: 38, Commit: commit, Merged: ago(151 * time.Minute), Applied: ago(150 * time.Minute), RolledOut: ago(148 * time.Minute), Headline: "1 object, 1 of 1 nodes", Predicted: &history.NodeChanges{Replaced: 1}, Actual: history.NodeChanges{Replaced: 1, Seconds: new(120.0)}},
	}
	hour := func(hours int) metav1.Time {
		return metav1.NewTime(now().Truncate(time.Hour).Add(-time.Duration(hours) * time.Hour))
	}
	h.PoolHours = []history.PoolHour{
		{NodePool: "gpu", Hour: hour(80), NodeSeconds: 3600, GPUSeconds: history.States{Paid: 3600, Allocatable: 3600, Idle: 3600}, USD: history.States{Paid: 0.4, Allocatable: 0.4, Idle: 0.4}},
		{NodePool: "general", Hour: hour(3), NodeSeconds: 1800, USD: history.States{Paid: 0.05}, Approximate: true},
		{NodePool: "gpu", Hour: hour(15), NodeSeconds: 3600, GPUSeconds: history.States{Paid: 14400, Allocatable: 14400, Requested: 14400}, USD: history.States{Paid: 6.23, Allocatable: 6.23, Requested: 6.23}},
		{NodePool: "gpu", Hour: hour(3), NodeSeconds: 7200, GPUSeconds: history.States{Paid: 17000, Allocatable: 16000, Requested: 14400, Idle: 1600}, USD: history.States{Paid: 6.63, Allocatable: 6.5, Requested: 6, Idle: 0.5}},
		{NodePool: "gpu", Hour: hour(0), NodeSeconds: 120, UnpricedSeconds: 60, GPUSeconds: history.States{Paid: 480, Unobserved: 20}, USD: history.States{Paid: 0.2}},
	}
	return h
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
		Unknown:   []string{"You have no permission to read events: causes in them are not found."},
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
