package causes

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/events"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/poolwright/poolwright/provision/simulate/diagnosis"
)

// Pod is why a pod has no node. Found is what Karpenter's scheduler found for it, and budgets what the disruption
// budgets of pools allow. There is always a cause, if only that none was found.
func Pod(o Objects, pod *corev1.Pod, found diagnosis.Result, budgets Budgets) []Cause {
	if out := unscheduled(pod); len(out) > 0 {
		return out
	}
	if out := o.unusableVolumeClaims(pod.Namespace); len(out) > 0 {
		return out
	}
	p := podCauses{Objects: o, pod: pod, name: "Pod/" + pod.Namespace + "/" + pod.Name, found: found, budgets: budgets}
	if found.Placed {
		return p.placed()
	}
	return p.notPlaced()
}

// PoolCauses are what a NodePool lacks for a pod, each as a cause.
func PoolCauses(o Objects, pod *corev1.Pod, pool diagnosis.Pool) []Cause {
	p := podCauses{Objects: o, pod: pod, name: "Pod/" + pod.Namespace + "/" + pod.Name}
	var out []Cause
	for _, reason := range pool.Reasons {
		out = append(out, p.cause(pool.Name, reason))
	}
	return out
}

// Diagnosable reports whether Karpenter seeks a node for the pod, so that what it finds matters.
func Diagnosable(pod *corev1.Pod) bool { return len(unscheduled(pod)) == 0 }

// unscheduled is what keeps Karpenter from seeking a node for a pod.
func unscheduled(pod *corev1.Pod) []Cause {
	name := "Pod/" + pod.Namespace + "/" + pod.Name
	switch {
	case pod.Spec.NodeName != "":
		return []Cause{{Reason: reasonScheduled, Object: "Node/" + pod.Spec.NodeName, Scheduling: &SchedulingSpec{Phase: pod.Status.Phase}}}
	case podutil.IsTerminal(pod) || podutil.IsTerminating(pod):
		return []Cause{{Reason: reasonScheduled, Scheduling: &SchedulingSpec{Phase: pod.Status.Phase}}}
	case len(pod.Spec.SchedulingGates) > 0:
		c := Cause{Reason: reasonSchedulingGated, Scheduling: &SchedulingSpec{}, Changes: []Remedy{{Object: name, Field: "spec.schedulingGates"}}}
		for _, g := range pod.Spec.SchedulingGates {
			c.Scheduling.Gates = append(c.Scheduling.Gates, g.Name)
		}
		return []Cause{c}
	case podutil.IsOwnedByDaemonSet(pod):
		return []Cause{{Reason: reasonDaemonSetPod}}
	case podutil.IsPreempting(pod):
		return []Cause{{Reason: reasonPreempting, Object: "Node/" + pod.Status.NominatedNodeName}}
	case podutil.FailedToSchedule(pod):
		return nil
	case pod.Spec.SchedulerName != "" && pod.Spec.SchedulerName != corev1.DefaultSchedulerName:
		return []Cause{{Reason: reasonOtherScheduler, Scheduling: &SchedulingSpec{SchedulerName: pod.Spec.SchedulerName}, Changes: []Remedy{{Object: name, Field: "spec.schedulerName"}}}}
	}
	return []Cause{{Reason: reasonSchedulingNotAttempted}}
}

// unusableVolumeClaims are the causes of PersistentVolumeClaims for which Karpenter leaves the pod out.
func (o Objects) unusableVolumeClaims(namespace string) []Cause {
	var out []Cause
	for _, name := range slices.Sorted(maps.Keys(o.UnusableVolumeClaims)) {
		verb := "describe"
		if o.UnusableVolumeClaims[name] == VolumeClaimNotFound {
			verb = "get" // It is not there, or its columns name the volume or class that is not.
		}
		out = append(out, Cause{
			Reason: reasonVolumeClaimUnusable, Object: "PersistentVolumeClaim/" + namespace + "/" + name, VolumeClaimState: o.UnusableVolumeClaims[name],
			Changes: []Remedy{{Command: "kubectl -n " + namespace + " " + verb + " pvc " + name}},
		})
	}
	return out
}

// podCauses finds the causes of one pod.
type podCauses struct {
	Objects
	pod     *corev1.Pod
	name    string
	found   diagnosis.Result
	budgets Budgets
}

// placed are the causes of a pod that finds a node.
func (p *podCauses) placed() []Cause {
	if p.found.Node != "" {
		return []Cause{p.existing()}
	}
	var out []Cause
	if c, not := p.engine(); not {
		out = append(out, c)
	}
	if c, is := p.backOff(p.found.Pool); is {
		out = append(out, c)
	}
	soldOut := p.recent(events.InsufficientCapacityError, "Pod", p.pod.Namespace, p.pod.Name)
	pool := p.diagnosed(p.found.Pool)
	exceeded, known, is := p.quota(pool)
	switch {
	case is:
		exceeded.Possible = soldOut == nil
		out = append(out, exceeded)
	case soldOut != nil:
		out = append(out, Cause{
			Reason: reasonInsufficientCapacity, Possible: !known, NodePool: pool.Name, Message: soldOut.Message,
			Changes: []Remedy{{Object: "NodePool/" + pool.Name, Field: "spec.template.spec.requirements"}},
		})
	}
	if p.found.CompetingPods > 0 {
		out = append(out, Cause{Reason: reasonCompetingPods, Possible: true, NodePool: pool.Name, Pods: &Pods{Count: p.found.CompetingPods}, Changes: []Remedy{{Object: "NodePool/" + pool.Name, Field: "spec.limits"}}})
	}
	if len(out) == 0 {
		out = append(out, Cause{Reason: reasonLaunchable, NodePool: pool.Name})
	}
	return out
}

// existing is the cause of a pod for which there is a node already.
func (p *podCauses) existing() Cause {
	for _, claim := range p.Claims {
		if claim.Name != p.found.Node && claim.Status.NodeName != p.found.Node {
			continue
		}
		if c, is := p.starting(claim); is {
			return Cause{Reason: reasonNodeStarting, NodePool: p.found.Pool, Object: "NodeClaim/" + claim.Name, ConditionReason: c.ConditionReason, Message: c.Message, Until: c.Until}
		}
	}
	return Cause{Reason: reasonNodeAvailable, NodePool: p.found.Pool, Object: "Node/" + p.found.Node}
}

// diagnosed is what was found of a pool.
func (p *podCauses) diagnosed(name string) diagnosis.Pool {
	for _, pool := range p.found.Pools {
		if pool.Name == name {
			return pool
		}
	}
	return diagnosis.Pool{Name: name}
}

// notPlaced are the causes of a pod that finds no node.
func (p *podCauses) notPlaced() []Cause {
	var out []Cause
	required := p.pod.Spec.NodeSelector[karpv1.NodePoolLabelKey]
	if required != "" && !slices.ContainsFunc(p.Pools, func(pool *karpv1.NodePool) bool { return pool.Name == required }) {
		out = append(out, p.held(required, false)...)
	}
	if len(p.found.Pools) == 0 {
		return append(out, Cause{Reason: reasonNoPool})
	}
	nearest := p.found.Pools[0]
	for _, o := range nearest.Reasons {
		if o.Kind == diagnosis.Limit {
			out = append(out, p.keptByBudget(nearest.Name, o)...)
		}
		out = append(out, p.cause(nearest.Name, o))
	}
	// A change of the pool that waits may be what removes the reason.
	return append(out, p.held(nearest.Name, true)...)
}

// cause is that of a reason.
func (p *podCauses) cause(pool string, o diagnosis.UnschedulableReason) Cause {
	c := Cause{NodePool: pool, Requirement: o.Requirement, AvailableValues: o.AvailableValues, Taint: o.Taint, ConditionReason: o.Reason, Message: o.Message}
	requirements := Remedy{Object: "NodePool/" + pool, Field: "spec.template.spec.requirements"}
	switch o.Kind {
	case diagnosis.NotReady:
		c.Reason = reasonPoolNotReady
	case diagnosis.Static:
		c.Reason, c.Changes = reasonStaticPool, []Remedy{{Object: "NodePool/" + pool, Field: "spec.replicas"}}
	case diagnosis.Label:
		c.Reason = labelReason(o.Requirement.Key)
		c.Changes = p.labelChanges(o.Requirement.Key, requirements)
	case diagnosis.VolumeTopology:
		c.Reason, c.Object = reasonVolumeZone, "PersistentVolumeClaim/"+p.pod.Namespace+"/"+o.Claim
		c.Changes = []Remedy{requirements}
	case diagnosis.Resource:
		p.resource(&c, pool, o)
	case diagnosis.Taint:
		c.Reason = reasonTaintNotTolerated
		c.Changes = []Remedy{{Object: p.name, Field: "spec.tolerations"}, {Object: "NodePool/" + pool, Field: "spec.template.spec.taints"}}
	case diagnosis.NoInstanceType:
		c.Reason, c.Changes = reasonNoInstanceType, []Remedy{requirements}
	case diagnosis.Limit:
		c.Reason = reasonAtLimit
		c.Shortage = &Shortage{Resource: string(o.Resource), Requested: o.Requested.String(), Limit: o.Limit.String(), Used: o.Used.String(), InstanceType: o.InstanceType}
		c.Changes = []Remedy{{Object: "NodePool/" + pool, Field: limitField(string(o.Resource))}}
	case diagnosis.Combination:
		c.Reason, c.Changes = reasonCombination, []Remedy{requirements}
	case diagnosis.DaemonSets:
		c.Reason, c.Changes = reasonDaemonSets, []Remedy{requirements, {Object: p.name, Field: "spec.containers[*].resources.requests"}}
	case diagnosis.Topology:
		c.Reason, c.Changes = reasonTopology, []Remedy{{Object: p.name, Field: "spec.affinity"}, {Object: p.name, Field: "spec.topologySpreadConstraints"}}
	case diagnosis.ResourceClaims:
		c.Reason = reasonResourceClaims
	case diagnosis.Scheduler:
		c.Reason = reasonUnschedulable
	}
	return c
}

// labelChanges are what would let a node of the pool have a label that the pod requires, or the pod not require it.
func (p *podCauses) labelChanges(key string, requirements Remedy) []Remedy {
	out := []Remedy{p.selector(key)}
	switch {
	case key == karpv1.NodePoolLabelKey: // The name of a pool cannot be changed.
	case karpv1.WellKnownLabels.Has(key):
		out = append(out, requirements)
	default:
		out = append(out, Remedy{Object: requirements.Object, Field: `spec.template.metadata.labels["` + key + `"]`})
	}
	return out
}

// selector is the field by which the pod requires a label.
func (p *podCauses) selector(key string) Remedy {
	if _, selected := p.pod.Spec.NodeSelector[key]; selected {
		return Remedy{Object: p.name, Field: `spec.nodeSelector["` + key + `"]`}
	}
	return Remedy{Object: p.name, Field: "spec.affinity.nodeAffinity"}
}

// labelReason is the reason for a label that no node has.
func labelReason(key string) Reason {
	switch key {
	case corev1.LabelTopologyZone, "topology.k8s.aws/zone-id":
		return reasonZoneNotOffered
	case corev1.LabelInstanceTypeStable, "karpenter.k8s.aws/instance-family", "karpenter.k8s.aws/instance-size", "karpenter.k8s.aws/instance-category":
		return reasonInstanceTypeNotOffered
	}
	return reasonLabelMismatch
}

// resource fills in the cause of a resource that is short: of GPUs that a configuration shares, the configuration's.
func (p *podCauses) resource(c *Cause, pool string, o diagnosis.UnschedulableReason) {
	c.Reason = reasonRequestTooLarge
	c.Shortage = &Shortage{Resource: string(o.Resource), Requested: o.Requested.String(), Limit: o.MaxAllocatable.String()}
	c.Changes = []Remedy{{Object: p.name, Field: "spec.containers[*].resources.requests"}, {Object: "NodePool/" + pool, Field: "spec.template.spec.requirements"}}
	config, plugin, served := p.config(pool)
	if !served || !isGPU(o.Resource) || config.Replicas < 2 && o.Resource == config.Resource() {
		return
	}
	c.Reason, c.Object = reasonGPUSharesNotAllocatable, "DevicePlugin/"+plugin
	c.Shortage.Config, c.Shortage.AdvertisedResource = config.Name, string(config.Resource())
	c.Changes = []Remedy{{Object: p.name, Field: "spec.containers[*].resources.limits"}, {Object: "DevicePlugin/" + plugin, Field: "spec.configs[" + config.Name + "]"}}
}

// keptByBudget is the cause where a pool's limit is used by nodes without pods that its budgets keep.
func (p *podCauses) keptByBudget(pool string, o diagnosis.UnschedulableReason) []Cause {
	budget, known := p.budgets[pool][karpv1.DisruptionReasonEmpty]
	if !known || budget.Configured > 0 {
		return nil
	}
	free, count := o.Limit.DeepCopy(), 0
	free.Sub(o.Used)
	for _, claim := range p.Claims {
		if claim.Labels[karpv1.NodePoolLabelKey] != pool || !p.empty(claim) {
			continue
		}
		count++
		if o.Resource == "nodes" {
			free.Add(o.Requested)
			continue
		}
		free.Add(claim.Status.Capacity[o.Resource])
	}
	if count == 0 || free.Cmp(o.Requested) < 0 {
		return nil
	}
	return []Cause{{
		Reason: reasonBudgetBlocking, NodePool: pool, Until: at(budget.NextWindow), Shortage: &Shortage{Resource: string(o.Resource)},
		Disruption: &Disruption{Reason: string(karpv1.DisruptionReasonEmpty), Budget: budget.Budget, EmptyNodes: count},
		Changes:    []Remedy{{Object: "NodePool/" + pool, Field: "spec.disruption.budgets"}},
	}}
}

// empty reports whether an initialized node has no pod that would have to move.
func (o Objects) empty(claim *karpv1.NodeClaim) bool {
	if claim.Status.NodeName == "" || !claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
		return false
	}
	return !slices.ContainsFunc(o.Pods, func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == claim.Status.NodeName && podutil.IsReschedulable(pod)
	})
}

// held are the changes of a NodePool that are held until a confirmation.
func (o Objects) held(pool string, possible bool) []Cause {
	var out []Cause
	for _, s := range o.Syncs {
		for _, change := range s.Status.Pending {
			if change.Object != poolObject(pool) || len(change.HeldBy) == 0 || change.ConfirmationToken == "" || change.Action == "delete" {
				continue
			}
			out = append(out, Cause{
				Reason: reasonChangeHeld, Possible: possible, NodePool: pool, Object: "Sync/" + s.Namespace + "/" + s.Name, HeldChange: &HeldChange{Action: change.Action, HeldBy: change.HeldBy}, Message: change.Reason,
				Changes: []Remedy{{Command: "kubectl -n " + s.Namespace + " annotate sync " + s.Name + " --overwrite " + confirmAnnotation + "=" + change.ConfirmationToken}},
			})
		}
	}
	slices.SortStableFunc(out, func(a, b Cause) int { return cmp.Compare(a.Object, b.Object) })
	return out
}
