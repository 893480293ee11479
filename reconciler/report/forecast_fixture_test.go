package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// step is a plan that updates a pool, its class and a role.
func step() plan.Plan {
	pool := item("kubernetes", "karpenter.sh", "NodePool", "gpu", "pools/gpu.yaml", 3, object{"spec": object{
		"template": object{"spec": object{"taints": []any{object{"key": "nvidia.com/gpu", "effect": "NoSchedule"}}}},
	}})
	class := item("kubernetes", "karpenter.k8s.aws", "EC2NodeClass", "gpu", "classes/gpu.yaml", 1, object{"spec": object{"blockDeviceMappings": []any{object{"ebs": object{"volumeSize": "200Gi"}}}}})
	role := aws("iam", "Role", "", "dev-nodes", object{"policies": []any{"AmazonSSMManagedInstanceCore"}})
	return plan.Compute(state.NewSet(pool, class, role), state.NewSet(
		live(pool, object{"spec": object{"template": object{"spec": object{"taints": []any{object{"key": "nvidia.com/gpu", "effect": "NoExecute"}}}}}}),
		live(class, object{"spec": object{"blockDeviceMappings": []any{object{"ebs": object{"volumeSize": "100Gi"}}}}}),
		live(role, object{"policies": []any{}})))
}

// nodesOf are n nodes of a pool, the first of which is the oldest.
func nodesOf(pool string, n int, reason string) []provision.Node {
	var out []provision.Node
	for i := range n {
		out = append(out, provision.Node{
			NodeClaim: fmt.Sprintf("%s-x7k%02d", pool, i), Name: fmt.Sprintf("ip-10-0-3-%d.eu-west-1.compute.internal", 10+i), Pool: pool,
			InstanceType: "g5.2xlarge", CapacityType: []string{"on-demand", "spot"}[i%2], Zone: "eu-west-1" + string(rune('a'+i%3)),
			Created: time.Date(2026, 10, 1+i%28, 8, 0, 0, 0, time.UTC), Reason: reason,
			Pods: []provision.Pod{{Namespace: "ml", Name: fmt.Sprintf("train-%d", 2*i)}, {Namespace: "ml", Name: fmt.Sprintf("train-%d", 2*i+1)}},
		})
	}
	return out
}

// prices are where the sums of the samples come from: from AWS, or from the catalog.
var (
	prices = []provision.Price{
		{CapacityType: "on-demand", Basis: "price-list", Date: "2026-11-20"}, {CapacityType: "spot", Basis: "spot-price-history", Date: "2026-11-20"},
	}
	catalogPrices = []provision.Price{
		{CapacityType: "on-demand", Basis: "other-region", Date: "2026-10-28"}, {CapacityType: "spot", Basis: "unknown"},
	}
)

var assumed = []string{
	"Karpenter marks a node as Drifted within 5 minutes.",
	"A replacement is initialized within 1 to 5 minutes, one with GPUs within 10, and AWS has capacity for it.",
	"Nodes of several pools are replaced in parallel; no other disruption counts against their budgets.",
}

const taints, volumes = "spec.template.spec.taints", "spec.blockDeviceMappings"

// replacing is a change of taints and volumes that replaces four of six nodes.
func replacing() *provision.Forecast {
	gpu := provision.Cost{
		Now: provision.Amount{OnDemand: 2.424, Spot: 0.81}, After: provision.Amount{OnDemand: 3.636, Spot: 1.118},
		Max: new(24.8), MaxBefore: new(12.4), Prices: prices,
	}
	cpu := provision.Cost{Now: provision.Amount{OnDemand: 4}, After: provision.Amount{OnDemand: 4}, Max: new(40.0), MaxBefore: new(40.0)}
	all := provision.Cost{
		Now: provision.Amount{OnDemand: 6.424, Spot: 0.81}, After: provision.Amount{OnDemand: 7.636, Spot: 1.118},
		Max: new(64.8), MaxBefore: new(52.4), Prices: prices,
	}
	return &provision.Forecast{
		Pools: []provision.Pool{
			{Name: "cpu", Nodes: 8, Cost: cpu, Disruption: provision.PoolDisruption{AllowedDisruptions: 1, Budget: "10%"}},
			{
				Name: "gpu", Action: "update", Nodes: 6, Replaced: 4, Cost: gpu, Disruption: provision.PoolDisruption{AllowedDisruptions: 1, Budget: "10%"},
				Changes: []provision.Change{
					{Object: "EC2NodeClass/gpu", Field: volumes, Reason: "NodeClassDrift"}, {Object: "NodePool/gpu", Field: "spec.limits"},
					{Object: "NodePool/gpu", Field: taints, Reason: "NodePoolDrifted"},
				},
			},
		},
		Replaced: nodesOf("gpu", 4, "NodePoolDrifted"),
		Rollout:  provision.Rollout{Nodes: 4, Pods: 8, MinMinutes: 20, MaxMinutes: 60, Assumptions: assumed},
		Cost:     all,
	}
}

// removing is a pool that goes with its nodes, and pods that fit nowhere else.
func removing() *provision.Forecast {
	f := &provision.Forecast{
		Pools: []provision.Pool{
			{Name: "old", Action: "delete", Nodes: 2, Cost: provision.Cost{Now: provision.Amount{OnDemand: 2.424}, MaxBefore: new(12.4)}},
			{Name: "new", Action: "create", Cost: provision.Cost{Max: new(30.0), Min: 1.2}},
		},
		Removed: []provision.RemovedPool{{Pool: "old", Nodes: nodesOf("old", 2, "NodePoolRemoved"), Pods: 4}},
		Cost:    provision.Cost{Now: provision.Amount{OnDemand: 2.424}, Min: 1.2, Max: new(30.0), MaxBefore: new(12.4), Prices: prices[:1]},
	}
	f.Removed[0].Nodes[1].Blockers = []provision.Blocker{{Kind: "pdb", Pod: provision.Pod{Namespace: "ml", Name: "train-2"}, PodDisruptionBudgets: []string{"ml/train"}, ForcedAfterSeconds: 24 * 3600}}
	f.PodScheduling.NewlyUnschedulable = []provision.Placement{{Pod: provision.Pod{Namespace: "ml", Name: "train-0"}, Similar: 3,
		Reason: `incompatible with nodepool "new", daemonset overhead={"cpu":"150m"}, did not tolerate taint (taint=nvidia.com/gpu:NoSchedule)`}}
	return f
}

// weighing changes a weight, for which no node is replaced.
func weighing() *provision.Forecast {
	cost := provision.Cost{Now: provision.Amount{OnDemand: 4}, After: provision.Amount{OnDemand: 4}, Prices: prices[:1]}
	return &provision.Forecast{
		Pools: []provision.Pool{{
			Name: "cpu", Action: "update", Nodes: 8, Cost: cost, Disruption: provision.PoolDisruption{AllowedDisruptions: 1, Budget: "10%"},
			Changes: []provision.Change{{Object: "NodePool/cpu", Field: "spec.weight"}},
		}},
		Cost: cost,
	}
}

// blocking is a change whose nodes are kept by a PodDisruptionBudget, by
// annotations, by a budget of none, by a limit and, for a while, by a window.
func blocking() *provision.Forecast {
	f := replacing()
	train := func(n int) provision.Pod { return provision.Pod{Namespace: "ml", Name: fmt.Sprintf("train-%d", n)} }
	f.Replaced[0].Blockers = []provision.Blocker{
		{Kind: "pdb", Pod: train(0), PodDisruptionBudgets: []string{"ml/train"}}, {Kind: "pdb", Pod: train(1), PodDisruptionBudgets: []string{"ml/train"}},
	}
	f.Replaced[1].Blockers = []provision.Blocker{{Kind: "do-not-disrupt", Pod: train(2), ForcedAfterSeconds: 5400}}
	f.Replaced[2].Blockers, f.Replaced[2].Name = []provision.Blocker{{Kind: "starting"}}, ""
	f.Replaced[3].Blockers = []provision.Blocker{{Kind: "node"}, {Kind: "unschedulable", Pod: train(7)}}
	change := []provision.Change{{Object: "EC2NodeClass/gpu", Field: volumes, Reason: "NodeClassDrift"}}
	f.Pools = append(f.Pools,
		provision.Pool{Name: "batch", Nodes: 3, Replaced: 3, Changes: change, Disruption: provision.PoolDisruption{Budget: "0", Blocking: true}},
		provision.Pool{Name: "nights", Nodes: 20, Replaced: 2, Changes: change, Disruption: provision.PoolDisruption{
			Budget: "0 (0 6 * * 1-5 for 14h)", NextWindow: time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC),
		}},
		provision.Pool{Name: "tight", Nodes: 1, Replaced: 1, Changes: change, Disruption: provision.PoolDisruption{
			AllowedDisruptions: 1, LimitMessage: "The limit of 8 nvidia.com/gpu leaves no capacity for a replacement: 8 are in use, and the smallest node allowed has 1.",
		}},
	)
	f.Replaced = append(f.Replaced, nodesOf("batch", 3, "NodeClassDrift")...)
	f.Replaced = append(f.Replaced, nodesOf("nights", 2, "NodeClassDrift")...)
	tight := nodesOf("tight", 1, "NodeClassDrift")
	tight[0].Blockers = []provision.Blocker{{Kind: "limit"}}
	f.Replaced = append(f.Replaced, tight...)
	f.Drifted = nodesOf("cpu", 2, "AMIDrift")
	f.Rollout = provision.Rollout{Nodes: 10, Blocked: 3, Pods: 20, MinMinutes: 184, MaxMinutes: 230, Incomplete: true, Assumptions: assumed}
	return f
}

// placing is a change by which some pods find a node and others none.
func placing() *provision.Forecast {
	f := weighing()
	pod := func(name string) provision.Pod { return provision.Pod{Namespace: "web", Name: name} }
	const why = `incompatible with nodepool "cpu", no instance type satisfied resources {"cpu":"65"} and requirements`
	f.PodScheduling = provision.PodScheduling{
		NewlySchedulable:   []provision.Placement{{Pod: pod("api-1"), Similar: 11, Pool: "cpu"}, {Pod: pod("cron-1")}},
		NewlyUnschedulable: []provision.Placement{{Pod: pod("big-1"), Similar: 2, Reason: why}, {Pod: pod("big-9"), Reason: why}, {Pod: pod("gpu-1"), Reason: "no pool has nvidia.com/gpu"}},
		Unschedulable:      []provision.Placement{{Pod: pod("lost-1"), Reason: why}},
	}
	// Those of declared workloads.
	f.PodScheduling.NewlySchedulable = append(f.PodScheduling.NewlySchedulable, provision.Placement{Pod: pod("serve"), Workload: "Deployment", New: true, Similar: 1, Pool: "cpu"})
	f.PodScheduling.NewlyUnschedulable = append(f.PodScheduling.NewlyUnschedulable, provision.Placement{Pod: pod("batch"), Workload: "StatefulSet", Inactive: true, Reason: why})
	f.PodScheduling.Unschedulable = append(f.PodScheduling.Unschedulable,
		provision.Placement{Pod: pod("train"), Workload: "Job", New: true, Similar: 7, Reason: why},
		provision.Placement{Pod: pod("nightly"), Workload: "CronJob", New: true, Inactive: true, Reason: why},
		provision.Placement{Pod: pod("one"), Workload: "Pod", Reason: why})
	return f
}

// uncertain is a change of which much is not known.
func uncertain() *provision.Forecast {
	f := weighing()
	f.Pools[0].Changes = []provision.Change{{Object: "EC2NodeClass/cpu", Field: "spec.amiSelectorTerms"}}
	f.Unknown = []provision.Unknown{
		{Text: "EC2NodeClass cpu: spec.amiSelectorTerms changes, and which images it then selects is known only to AWS: nodes with another image are replaced as well (AMIDrift).", MoreReplaced: true},
		{Text: "Instance type u-6tb1.metal: the catalog has no price of it, so that it is left out of the costs."},
	}
	return f
}

// ruined puts one string wherever a forecast has content.
func ruined(s string) *provision.Forecast {
	f := blocking()
	merge(f, removing())
	merge(f, placing())
	f.Unknown = append(f.Unknown, uncertain().Unknown...)
	raw, err := json.Marshal(f)
	if err != nil {
		return nil
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil
	}
	spoiled, err := json.Marshal(spoil(tree, s))
	if err != nil {
		return nil
	}
	out := &provision.Forecast{}
	if err := json.Unmarshal(spoiled, out); err != nil {
		return nil
	}
	return out
}

func merge(f, more *provision.Forecast) {
	f.Pools = append(f.Pools, more.Pools...)
	f.Removed = append(f.Removed, more.Removed...)
	f.PodScheduling.NewlySchedulable = append(f.PodScheduling.NewlySchedulable, more.PodScheduling.NewlySchedulable...)
	f.PodScheduling.NewlyUnschedulable = append(f.PodScheduling.NewlyUnschedulable, more.PodScheduling.NewlyUnschedulable...)
	f.PodScheduling.Unschedulable = append(f.PodScheduling.Unschedulable, more.PodScheduling.Unschedulable...)
}

// spoil appends s to every string but times and the words that decide.
func spoil(v any, s string) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if k != "created" && k != "nextWindow" && k != "kind" && k != "action" {
				v[k] = spoil(e, s)
			}
		}
	case []any:
		for i, e := range v {
			v[i] = spoil(e, s)
		}
	case string:
		if strings.HasPrefix(v, "0 (") || v == "0" || v == "10%" {
			return v + " " + s
		}
		return v + s
	}
	return v
}
