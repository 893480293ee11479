package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// proposed is a proposal with all that its caller sets.
type proposed struct {
	plan.Proposal
	problems []state.Problem
	forecast *provision.Forecast
	guards   []GuardResult
	offline  bool
}

func (p proposed) report() Report {
	r := NewProposal(p.Proposal, p.problems, nil)
	r.Forecast, r.GuardResults = p.forecast, p.withKeys()
	r.Provenance = &Provenance{
		Cluster: "dev", Base: "main", BaseCommit: "abc1234def5678900000000000000000000000aa",
		HeadCommit: "def5678abc1234900000000000000000000000bb", MergeBase: "abc1234def5678900000000000000000000000aa",
		Observed: time.Date(2026, 11, 20, 19, 2, 0, 0, time.UTC),
	}
	if p.offline {
		r.Provenance.Observed, r.Provenance.HeadCommit = time.Time{}, ""
		r.Provenance.MergeBase = "0123abc000000000000000000000000000000000"
	}
	return r
}

// between is a plan of one thing that changes from one content to another; a nil one
// is not there.
func between(group, kind, name string, before, after object) plan.Plan {
	i := item("kubernetes", group, kind, name, kindFile(kind, name), 1, after)
	var desired, observed []state.Item
	if after != nil {
		desired = append(desired, i)
	}
	if before != nil {
		observed = append(observed, live(i, before))
	}
	return plan.Compute(state.NewSet(desired...), state.NewSet(observed...))
}

func kindFile(kind, name string) string { return "clusters/dev/" + kind + "-" + name + ".yaml" }

func poolOf(spec object) object {
	return object{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": spec}
}

// join is one plan of several.
func join(plans ...plan.Plan) plan.Plan {
	var out plan.Plan
	for _, p := range plans {
		out.Changes = append(out.Changes, p.Changes...)
		out.Notes = append(out.Notes, p.Notes...)
		out.Unknown = append(out.Unknown, p.Unknown...)
		out.Unchanged += p.Unchanged
	}
	return out
}

// drifting is what somebody changed by hand, a thing nobody could look at, and one
// that is read-only.
func drifting() plan.Plan {
	weight := between("karpenter.sh", "NodePool", "cpu", poolOf(object{"weight": int64(50)}), poolOf(object{"weight": int64(10)}))
	gone := between("", "ConfigMap", "plugin", nil, object{"data": object{"replicas": "4"}})
	version := aws("eks", "Version", "eu-west-1", "dev", object{"version": "1.34"})
	version.ReadOnly = "run: aws eks update-cluster-version --name dev --kubernetes-version 1.34"
	compared := plan.Compute(state.NewSet(version), state.NewSet(live(version, object{"version": "1.33"})))
	notes := plan.Plan{Notes: []plan.Note{
		{Key: state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: "old"}, Text: "11 others have it"},
		{Key: gone.Changes[0].Key, Origin: gone.Changes[0].After.Origin, NotOurs: true, Text: "exists, not managed by this Sync"},
		{Key: state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: "cpu"}, Severity: finding.Warning, Text: "needs 64 vCPUs, the quota is 32"},
	}}
	return join(weight, gone, compared, notes, quotaNote(quotaUsed), plan.Plan{Unknown: []plan.Unknown{{Key: state.Key{Target: "aws", Group: "eks", Kind: "Logging", Name: "dev"}, Reason: "denied: eks:DescribeCluster is missing"}}})
}

// quotaNote is what a quota's sighting says.
func quotaNote(text string) plan.Plan {
	return plan.Plan{Notes: []plan.Note{{Key: state.Key{Target: "aws", Group: "servicequotas", Kind: "Quota", Namespace: "eu-west-1", Name: "Running On-Demand G and VT instances"}, Text: text}}}
}

// quotaWarning is quotaNote for a warning.
func quotaWarning(text string) plan.Plan {
	p := quotaNote(text)
	p.Notes[0].Severity = finding.Warning
	return p
}

const quotaUsed = "of 64 vCPUs, 12 are used"

// tainting changes a pool's taints.
func tainting() plan.Plan {
	taints := func(effect string) object {
		return poolOf(object{"template": object{"spec": object{"taints": []any{object{"key": "nvidia.com/gpu", "effect": effect}}}}})
	}
	return between("karpenter.sh", "NodePool", "gpu", taints("NoExecute"), taints("NoSchedule"))
}

// proposals are one of each kind of change.
func proposals() map[string]proposed {
	pdb := replacing()
	pdb.Replaced[0].Blockers = []provision.Blocker{{Kind: "pdb", Pod: provision.Pod{Namespace: "ml", Name: "train-0"}, PodDisruptionBudgets: []string{"ml/train"}}}
	pdb.Replaced[1].Blockers = []provision.Blocker{{Kind: "do-not-disrupt", Pod: provision.Pod{Namespace: "ml", Name: "train-2"}, ForcedAfterSeconds: 5400}}
	pdb.Pools[1].Changes = pdb.Pools[1].Changes[2:]
	pdb.Rollout.Blocked, pdb.Rollout.Incomplete = 1, true
	quota := quotaNote(quotaUsed)
	limits := func(n int64) object { return poolOf(object{"limits": object{"nvidia.com/gpu": n}}) }
	role := aws("iam", "Role", "", "dev-nodes", object{"policies": []any{"AmazonSSMManagedInstanceCore"}})
	out := map[string]proposed{
		"taints": {Proposal: plan.Proposal{Proposed: join(tainting(), quota), Drift: drifting()}, forecast: pdb,
			guards: []GuardResult{{Rule: "MaxNodesReplaced", Result: "ok", Text: "4 of at most 10 nodes are replaced"}, {Rule: "lint", Result: "ok", Text: "nothing found"}}},
		"volume":        {Proposal: plan.Proposal{Proposed: join(volume(), quota)}, forecast: classReplacing("NodeClassDrift", volumes)},
		"ami":           {Proposal: plan.Proposal{Proposed: join(amis(), quota)}, forecast: amiReplacing()},
		"removed":       {Proposal: plan.Proposal{Proposed: join(removal(), quota)}, forecast: removing(), guards: []GuardResult{{Rule: "MaxPrunePercent", Result: "held", Text: "would delete all 2 objects (guard.maxPrunePercent)"}, {Rule: "DeletionLosses", Result: "held", Text: "deleting NodePool.karpenter.sh/old: 2 nodes, 4 pods go with it"}}},
		"limits":        {Proposal: plan.Proposal{Proposed: join(between("karpenter.sh", "NodePool", "gpu", limits(8), limits(16)), overlay(), quota)}, forecast: limiting()},
		"new":           {Proposal: plan.Proposal{Proposed: join(between("karpenter.sh", "NodePool", "new", nil, limits(8)), plan.Compute(state.NewSet(role), state.Set{}), quota)}, forecast: coming()},
		"cheaper":       {Proposal: plan.Proposal{Proposed: join(spot(), quota)}, forecast: cheapening()},
		"unschedulable": {Proposal: plan.Proposal{Proposed: join(between("karpenter.sh", "NodePool", "gpu", limits(8), limits(1)), quota)}, forecast: placing()},
		"quota":         {Proposal: plan.Proposal{Proposed: join(between("karpenter.sh", "NodePool", "gpu", limits(8), limits(48)), quotaWarning("NodePool gpu may ask for 192 vCPUs, the quota is 64; ask for more: aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-DB2E81BA"), quota)}, forecast: limiting()},
		"quota-held": {Proposal: plan.Proposal{Proposed: join(exceeding(between("karpenter.sh", "NodePool", "gpu", limits(8), limits(48))), quotaWarning("NodePool gpu may ask for 192 vCPUs, the quota is 64; ask for more"), quota)}, forecast: limiting(),
			guards: []GuardResult{{Rule: "QuotaExceeded", Result: "held", Text: "NodePool gpu needs at least 192 vCPUs, the quota allows 64 (guard.quota): request a quota increase (quota code L-DB2E81BA) or lower a limit"}}},
		"guarded":    {Proposal: plan.Proposal{Proposed: join(tainting(), quota)}, forecast: replacing(), guards: guards()},
		"drift-only": {Proposal: plan.Proposal{Proposed: plan.Plan{Unchanged: 12}, Drift: drifting()}, forecast: &provision.Forecast{Drifted: nodesOf("cpu", 2, "AMIDrift")}},
		"problems": {Proposal: plan.Proposal{Proposed: tainting()}, problems: []state.Problem{
			{Origin: state.Origin{File: "clusters/dev/bad.yaml", Line: 7}, Message: `field "weigth" is unknown; did you mean "weight"?`},
			{Message: "the folder has no kustomization.yaml"},
		}, guards: []GuardResult{{Rule: "lint", Result: "held", Text: "objects with problems are not applied; nothing is deleted until they are corrected"}}},
		"secret":  {Proposal: plan.Proposal{Proposed: secretly()}, forecast: &provision.Forecast{}},
		"offline": {Proposal: plan.Proposal{Proposed: tainting()}, forecast: perhaps(), offline: true},
		// What the two revisions tell without any cluster.
		"offline-taints":  {Proposal: plan.Proposal{Proposed: join(tainting(), volume())}, forecast: uncounted(), offline: true},
		"offline-removed": {Proposal: plan.Proposal{Proposed: removal()}, offline: true, forecast: &provision.Forecast{Removed: []provision.RemovedPool{{Pool: "gpu"}}}},
		"lossy":           {Proposal: plan.Proposal{Proposed: volume()}, forecast: lossy()},
		"foreign":         {Proposal: plan.Proposal{Proposed: foreign()}},
		"stuck":           {Proposal: plan.Proposal{Proposed: join(tainting(), quota)}, forecast: stuck()},
		"workload":        {Proposal: plan.Proposal{Proposed: join(between("apps", "Deployment", "train", nil, object{"spec": object{"replicas": int64(3)}}), quota)}, forecast: working()},
		"empty":           {Proposal: plan.Proposal{Proposed: plan.Plan{Unchanged: 12}}, forecast: weighing()},
		"catalog":         {Proposal: plan.Proposal{Proposed: join(spot(), quota)}, forecast: byCatalog()},
		"offline-prices":  {Proposal: plan.Proposal{Proposed: spot()}, forecast: priceless(), offline: true},
		"many":            {Proposal: plan.Proposal{Proposed: plan.Guard(10, "")(numerous(40)), Drift: drifting()}, forecast: replacing()},
	}
	return out
}

// foreign changes what somebody else made, and what the API server refuses.
func foreign() plan.Plan {
	made := between("", "ConfigMap", "kube-root-ca.crt", nil, object{"data": object{"ca.crt": "other"}})
	node := aws("eks", "Nodegroup", "eu-west-1", "system", object{"desiredSize": int64(3)})
	node.ReadOnly = "run: aws eks update-nodegroup-config --nodegroup-name system --scaling-config desiredSize=3"
	compared := plan.Compute(state.NewSet(node), state.NewSet(live(node, object{"desiredSize": int64(2)})))
	return join(made, compared, plan.Plan{Notes: []plan.Note{
		{Key: made.Changes[0].Key, Origin: made.Changes[0].After.Origin, NotOurs: true, Text: "exists, not managed by this Sync"},
		{Key: made.Changes[0].Key, Origin: made.Changes[0].After.Origin, Severity: finding.Warning, Text: "a dry run of it is refused"},
	}})
}

// uncounted is a change of a pool with no cluster to report its nodes.
func uncounted() *provision.Forecast {
	f := replacing()
	f.Pools[1].Nodes, f.Pools[1].Replaced, f.Replaced, f.Rollout = 0, 0, nil, provision.Rollout{}
	f.Pools[0].Nodes, f.Pools[1].ReplacesAll = 0, true
	f.Cost = provision.Cost{Max: new(64.8), MaxBefore: new(64.8), Prices: catalogPrices}
	f.Pools[0].Cost, f.Pools[1].Cost = provision.Cost{}, provision.Cost{}
	f.Unknown = []provision.Unknown{{Text: "Which zones the subnets of EC2NodeClass gpu are in: only AWS can tell."}}
	return f
}

// lossy ends pods that nothing makes again, and sets a limit below what is in use.
func lossy() *provision.Forecast {
	f := removing()
	f.Replaced, f.Pools = nodesOf("gpu", 2, "NodeClassDrift"), append(f.Pools, classReplacing("NodeClassDrift", volumes).Pools[1])
	f.Pools[2].Replaced, f.Pools[2].OverLimit = 2, []provision.ExceededLimit{{Resource: "nvidia.com/gpu", Used: "4", Limit: "2"}}
	f.Replaced[0].Pods[1].WithoutController, f.Removed[0].Nodes[0].Pods[0].WithoutController = true, true
	f.Removed[0].Rescheduled, f.Removed[0].Unschedulable = 1, 2
	f.Rollout = provision.Rollout{Nodes: 2, Pods: 4, MinMinutes: 4, MaxMinutes: 40, Assumptions: assumed}
	f.Cost.Unblocked = &provision.Amount{OnDemand: 1.5}
	f.Cost.Notes = []string{"NodePool old goes: 2 pods of it find no other node, and what is no longer paid for their nodes is saved only while they do not run."}
	return f
}

// perhaps is a change of which AWS alone can tell which nodes it reaches.
func perhaps() *provision.Forecast {
	f := uncertain()
	f.Pools[0].Nodes, f.Pools[0].ReplacesSome = 0, true
	f.Pools[0].Changes[0].Reason = "AMIDrift"
	return f
}

// stuck replaces four nodes, none of which may go.
func stuck() *provision.Forecast {
	f := replacing()
	for i := range f.Replaced {
		f.Replaced[i].Blockers = []provision.Blocker{{Kind: "do-not-disrupt", Pod: f.Replaced[i].Pods[0]}}
	}
	f.Rollout = provision.Rollout{Nodes: 4, Blocked: 4, Pods: 8, Incomplete: true, Assumptions: assumed}
	return f
}

// working asks for pods that find no node, and for others that do.
func working() *provision.Forecast {
	f := weighing()
	f.Pools[0].Changes, f.Pools[0].Action = nil, ""
	pod := func(name string) provision.Pod { return provision.Pod{Namespace: "ml", Name: name} }
	f.PodScheduling = provision.PodScheduling{
		NewlySchedulable: []provision.Placement{{Pod: pod("serve"), Workload: "Deployment", New: true, Inactive: true, Pool: "cpu"}},
		Unschedulable:    []provision.Placement{{Pod: pod("train"), Workload: "Deployment", New: true, Similar: 2, Reason: "the pools offer at most 1 nvidia.com/gpu a node"}},
	}
	return f
}

// exceeding holds the changes of the pool gpu, which needs more of a quota than there is.
func exceeding(p plan.Plan) plan.Plan {
	p.Quotas = []plan.Quota{{Quota: state.Quota{Code: "L-DB2E81BA", LimitVCPUs: 64}}}
	return p.GuardQuotas("", func([]state.Item, []state.Item, []plan.Quota) []hold.Quota {
		return []hold.Quota{{Quotas: []string{"Running On-Demand G and VT instances"}, Codes: []string{"L-DB2E81BA"},
			Pools: []string{"gpu"}, IncreasedPools: []string{"gpu"}, NeededVCPUs: 192, LimitVCPUs: 64}}
	})
}

func guards() []GuardResult {
	return []GuardResult{
		{Rule: "lint", Result: "warning", Text: "NodePool gpu allows one zone only"},
		{Rule: "MaxNodesReplaced", Result: "held", Text: "4 nodes would be replaced, at most 2 are allowed; raise spec.guard.maxNodesReplaced of the Sync, or change fewer pools at once"},
	}
}

func volume() plan.Plan {
	of := func(size string) object {
		return object{"spec": object{"blockDeviceMappings": []any{object{"deviceName": "/dev/xvda", "ebs": object{"volumeSize": size}}}}}
	}
	return between("karpenter.k8s.aws", "EC2NodeClass", "gpu", of("100Gi"), of("200Gi"))
}

// classReplacing replaces four nodes for a field of their class, at no cost.
func classReplacing(reason, field string) *provision.Forecast {
	f := replacing()
	f.Pools[1].Changes = []provision.Change{{Object: "EC2NodeClass/gpu", Field: field, Reason: reason}}
	f.Pools[1].Action = ""
	f.Replaced = nodesOf("gpu", 4, reason)
	f.Cost.After, f.Cost.MaxBefore = f.Cost.Now, f.Cost.Max
	f.Pools[1].Cost.After, f.Pools[1].Cost.MaxBefore = f.Pools[1].Cost.Now, f.Pools[1].Cost.Max
	return f
}

func amis() plan.Plan {
	of := func(alias string) object {
		return object{"spec": object{"amiSelectorTerms": []any{object{"alias": alias}}}}
	}
	return between("karpenter.k8s.aws", "EC2NodeClass", "gpu", of("al2023@v20261001"), of("al2023@v20261101"))
}

func amiReplacing() *provision.Forecast {
	f := classReplacing("AMIDrift", "spec.amiSelectorTerms")
	f.Unknown = uncertain().Unknown[:1]
	return f
}

// removal deletes a pool with nodes, with a role and a ConfigMap.
func removal() plan.Plan {
	old := item("kubernetes", "karpenter.sh", "NodePool", "old", "", 0, poolOf(object{"weight": int64(1)}))
	old.Impact, old.Live.UID = "2 nodes, 4 pods go with it", "uid"
	config := item("kubernetes", "", "ConfigMap", "old-settings", "", 0, object{"data": object{"a": "b"}})
	pool := item("kubernetes", "karpenter.sh", "NodePool", "new", kindFile("NodePool", "new"), 1, poolOf(object{"limits": object{"nvidia.com/gpu": int64(8)}}))
	return plan.Compute(state.NewSet(pool), state.NewSet(old, config), plan.Guard(50, ""))
}

func overlay() plan.Plan {
	return between("karpenter.sh", "NodeOverlay", "shared-gpus", nil, object{"spec": object{"capacity": object{"nvidia.com/gpu": int64(4)}}})
}

// limiting raises a limit, so that pods find a node.
func limiting() *provision.Forecast {
	f := weighing()
	f.Pools[0] = provision.Pool{
		Name: "gpu", Action: "update", Nodes: 6, Cost: provision.Cost{Now: provision.Amount{OnDemand: 7.27}, After: provision.Amount{OnDemand: 7.27}, Max: new(24.8), MaxBefore: new(12.4)},
		Changes: []provision.Change{{Object: "NodeOverlay/shared-gpus"}, {Object: "NodePool/gpu", Field: "spec.limits"}},
	}
	f.Cost = f.Pools[0].Cost
	f.Cost.Prices = prices
	f.PodScheduling.NewlySchedulable = []provision.Placement{{Pod: provision.Pod{Namespace: "ml", Name: "serve-1"}, Similar: 3, Pool: "gpu"}}
	return f
}

func coming() *provision.Forecast {
	cost := provision.Cost{Min: 1.21, Max: new(30.0), Prices: prices[:1]}
	all := cost
	all.MaxBefore = new(0.0)
	return &provision.Forecast{Pools: []provision.Pool{{Name: "new", Action: "create", Cost: cost, Changes: []provision.Change{{Object: "NodePool/new"}}}}, Cost: all}
}

func spot() plan.Plan {
	of := func(types ...any) object {
		return poolOf(object{"template": object{"spec": object{"requirements": []any{object{"key": "karpenter.sh/capacity-type", "operator": "In", "values": types}}}}})
	}
	return between("karpenter.sh", "NodePool", "gpu", of("on-demand"), of("spot"))
}

// cheapening moves a pool from on-demand to spot.
func cheapening() *provision.Forecast {
	f := replacing()
	f.Pools[1].Changes = []provision.Change{{Object: "NodePool/gpu", Field: "spec.template.spec.requirements", Reason: "RequirementsDrifted"}}
	f.Replaced = nodesOf("gpu", 4, "RequirementsDrifted")
	f.Pools[1].Cost = provision.Cost{Now: provision.Amount{OnDemand: 4.848}, After: provision.Amount{Spot: 1.616}, Max: new(8.2), MaxBefore: new(24.8), Prices: prices}
	f.Cost = provision.Cost{Now: provision.Amount{OnDemand: 8.848}, After: provision.Amount{OnDemand: 4, Spot: 1.616}, Max: new(48.2), MaxBefore: new(64.8), Prices: prices}
	return f
}

// secretly changes a Secret, and a class by its user data.
func secretly() plan.Plan {
	of := func(s string) object {
		return object{"kind": "Secret", "stringData": object{"password": s}, "metadata": object{"name": "git"}}
	}
	class := func(s string) object {
		return object{"spec": object{"userData": "#!/bin/sh\nexport KEY=" + s}}
	}
	return join(between("", "Secret", "git", of(hunter+"old"), of(hunter+"new")), between("karpenter.k8s.aws", "EC2NodeClass", "gpu", class(hunter+"old"), class(hunter+"new")))
}

// hunter begins every secret of the proposals.
const hunter = "hunter2-"

// numerous changes n things, of which a third goes.
func numerous(n int) plan.Plan {
	var desired, observed []state.Item
	for i := range n {
		c := item("kubernetes", "", "ConfigMap", fmt.Sprintf("c%04d", i), fmt.Sprintf("clusters/dev/c%04d.yaml", i), 1, object{"data": object{"a": fmt.Sprint(i), "b": "x"}})
		if i%3 != 0 {
			desired = append(desired, c)
		}
		if i%3 != 1 {
			observed = append(observed, live(c, object{"data": object{"a": "old", "b": "x"}}))
		}
	}
	return plan.Compute(state.NewSet(desired...), state.NewSet(observed...))
}

// withKeys are the guards, each that holds changes with the key of its hold, as [preview] sets it.
func (p proposed) withKeys() []GuardResult {
	out := slices.Clone(p.guards)
	for i := range out {
		for _, r := range p.Proposed.Reasons() {
			if out[i].Result == GuardHeld && string(r.Rule) == out[i].Rule {
				out[i].Key = r.Key()
			}
		}
	}
	return out
}
