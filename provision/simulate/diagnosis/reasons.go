package diagnosis

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	nodepools "sigs.k8s.io/karpenter/pkg/utils/nodepool"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

const (
	// nodesLimit is the resource in which limits count nodes.
	nodesLimit corev1.ResourceName = "nodes"
	// maxValues is how many values of a label are listed.
	maxValues = 8
)

// nearestPool is a pool with how close it comes to what the pod requires.
type nearestPool struct {
	Pool
	// static is 1 for a pool that takes no pod, misses counts the labels that the pool has not, offers the extended resources
	// that the pod requests and the pool has, taints those that the pod does not tolerate, and tolerated the others.
	static, misses, offers, taints, tolerated int
}

func (c nearestPool) compare(other nearestPool) int {
	return cmp.Or(cmp.Compare(c.static, other.static), cmp.Compare(c.misses, other.misses), cmp.Compare(other.offers, c.offers), cmp.Compare(c.taints, other.taints), cmp.Compare(other.tolerated, c.tolerated), cmp.Compare(c.Name, other.Name))
}

// pools are all pools with what they lack, the closest first.
func (d *diagnosis) pools() []Pool {
	var all []nearestPool
	for _, pool := range d.live.NodePools {
		all = append(all, d.candidate(pool))
	}
	slices.SortFunc(all, nearestPool.compare)
	out := []Pool{}
	for _, c := range all {
		out = append(out, c.Pool)
	}
	return out
}

// candidate compares a pool with that alternative of what the pod requires to which it comes closest.
func (d *diagnosis) candidate(pool *karpv1.NodePool) nearestPool {
	var best nearestPool
	for i, v := range d.variants {
		if c := d.compared(pool, v); i == 0 || c.compare(best) < 0 {
			best = c
		}
	}
	return best
}

// compared compares a pool with one alternative.
func (d *diagnosis) compared(pool *karpv1.NodePool, v variant) nearestPool {
	out := nearestPool{Pool: Pool{Name: pool.Name}}
	if o, not := unready(pool); not {
		out.Reasons = append(out.Reasons, o)
	}
	if nodepools.IsStatic(pool) {
		out.static = 1
		out.Reasons = append(out.Reasons, UnschedulableReason{Kind: Static})
	}
	has := offerings.Requirements(pool)
	has.Add(scheduling.NewRequirement(karpv1.NodePoolLabelKey, corev1.NodeSelectorOpIn, pool.Name))
	from := d.all.Offerings[pool.Name].Allowed
	labels := d.labels(has, from, v)
	out.misses = len(labels)
	short, offers := d.short(from)
	taints := d.taints(pool)
	out.offers, out.taints, out.tolerated = offers, len(taints), len(pool.Spec.Template.Spec.Taints)-len(taints)
	out.Reasons = slices.Concat(out.Reasons, labels, short, taints)
	if len(from) == 0 && out.misses == 0 {
		out.Reasons = append(out.Reasons, UnschedulableReason{Kind: NoInstanceType})
	}
	holding := d.holding(has, from, v)
	for _, it := range holding {
		out.Types = append(out.Types, d.instanceType(it, has, v))
	}
	if len(d.pod.Spec.ResourceClaims) > 0 {
		out.Reasons = append(out.Reasons, UnschedulableReason{Kind: ResourceClaims})
	}
	switch {
	case len(holding) > 0:
		out.Reasons = append(out.Reasons, d.limits(pool, holding)...)
	case len(out.Reasons) == 0:
		out.Reasons = append(out.Reasons, UnschedulableReason{Kind: Combination})
	}
	return out
}

// labels are those that the pod or its volumes require and that no node of the pool has.
func (d *diagnosis) labels(has scheduling.Requirements, from []*cloudprovider.InstanceType, v variant) []UnschedulableReason {
	var out []UnschedulableReason
	for _, key := range sorted(v.own) {
		if r := v.own.Get(key); !available(has, from, r) {
			out = append(out, unmet(Label, "", r, has, from))
		}
	}
	for _, claim := range v.volumes {
		for _, key := range sorted(claim.requires) {
			if r := claim.requires.Get(key); !available(has, from, r) {
				out = append(out, unmet(VolumeTopology, claim.name, r, has, from))
			}
		}
	}
	return out
}

// unmet is the reason of a label.
func unmet(kind UnschedulableReasonKind, claim string, r *scheduling.Requirement, has scheduling.Requirements, from []*cloudprovider.InstanceType) UnschedulableReason {
	values := r.Values()
	slices.Sort(values)
	return UnschedulableReason{Kind: kind, Claim: claim, Requirement: &corev1.NodeSelectorRequirement{Key: r.Key, Operator: r.Operator(), Values: values}, AvailableValues: valuesOf(r.Key, has, from)}
}

// available reports whether a node of the pool can match the requirement.
func available(has scheduling.Requirements, from []*cloudprovider.InstanceType, r *scheduling.Requirement) bool {
	if has.Compatible(scheduling.NewRequirements(r), scheduling.AllowUndefinedWellKnownLabels) != nil {
		return false
	}
	if len(from) == 0 {
		return true
	}
	both := joined(has, scheduling.NewRequirements(r))
	return slices.ContainsFunc(from, func(it *cloudprovider.InstanceType) bool { return sells(it, both) })
}

// sells reports whether an instance type is offered under the requirements.
func sells(it *cloudprovider.InstanceType, required scheduling.Requirements) bool {
	return it.Requirements.Intersects(required) == nil && it.Offerings.Available().HasCompatible(required)
}

// valuesOf are the values of a label that the pool's nodes can have.
func valuesOf(key string, has scheduling.Requirements, from []*cloudprovider.InstanceType) []string {
	var out []string
	for _, it := range from {
		values := known(it.Requirements, key)
		for _, o := range it.Offerings.Available().Compatible(has) {
			values = append(values, known(o.Requirements, key)...)
		}
		slices.Sort(values)
		for _, value := range slices.Compact(values) {
			if sells(it, joined(has, scheduling.NewRequirements(scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, value)))) {
				out = append(out, value)
			}
		}
	}
	if !slices.ContainsFunc(from, func(it *cloudprovider.InstanceType) bool { return it.Requirements.Has(key) }) {
		out = known(has, key)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxValues)]
}

// known are the values that requirements list for a label.
func known(r scheduling.Requirements, key string) []string {
	if !r.Has(key) || r.Get(key).Operator() != corev1.NodeSelectorOpIn {
		return nil
	}
	return r.Get(key).Values()
}

// short are the resources of which no node of the pool has enough, extended ones first, and of how many of
// those that the pod requests the pool has some.
func (d *diagnosis) short(from []*cloudprovider.InstanceType) (out []UnschedulableReason, offers int) {
	if len(from) == 0 {
		return nil, 0
	}
	requests := resources.RequestsForPods(d.pod)
	names := workload.SortedNames(requests)
	slices.SortStableFunc(names, func(a, b corev1.ResourceName) int { return cmp.Compare(rank(a), rank(b)) })
	for _, name := range names {
		var most resource.Quantity
		for _, it := range from {
			if has := it.Allocatable()[name]; has.Cmp(most) > 0 {
				most = has
			}
		}
		if workload.IsExtendedResource(name) && !most.IsZero() {
			offers++
		}
		if requested := requests[name]; requested.Cmp(most) > 0 {
			out = append(out, UnschedulableReason{Kind: Resource, Resource: name, Requested: requested, MaxAllocatable: most})
		}
	}
	return out, offers
}

func rank(name corev1.ResourceName) int {
	if workload.IsExtendedResource(name) {
		return 0
	}
	return 1
}

// taints are those of the pool that the pod does not tolerate.
func (d *diagnosis) taints(pool *karpv1.NodePool) []UnschedulableReason {
	var out []UnschedulableReason
	for _, t := range pool.Spec.Template.Spec.Taints {
		if scheduling.Taints([]corev1.Taint{t}).ToleratesPod(d.pod) != nil {
			out = append(out, UnschedulableReason{Kind: Taint, Taint: &corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}})
		}
	}
	return out
}

// holding are the instance types that match all that the pod requires, limits and DaemonSets aside, the one with the fewest
// CPUs first: several have as many GPUs.
func (d *diagnosis) holding(has scheduling.Requirements, from []*cloudprovider.InstanceType, v variant) []*cloudprovider.InstanceType {
	all, requests := joined(has, v.all()), resources.RequestsForPods(d.pod)
	if has.Compatible(v.all(), scheduling.AllowUndefinedWellKnownLabels) != nil {
		return nil
	}
	var out []*cloudprovider.InstanceType
	for _, it := range from {
		if sells(it, all) && resources.Fits(requests, it.Allocatable()) {
			out = append(out, it)
		}
	}
	slices.SortFunc(out, func(a, b *cloudprovider.InstanceType) int {
		return cmp.Or(a.Capacity.Cpu().Cmp(*b.Capacity.Cpu()), strings.Compare(a.Name, b.Name))
	})
	return out
}

func (d *diagnosis) instanceType(it *cloudprovider.InstanceType, has scheduling.Requirements, v variant) InstanceType {
	out := InstanceType{Name: it.Name}
	if t, ok := d.types.Lookup(it.Name); ok {
		out.VCPUs = t.VCPUs
	}
	for _, o := range it.Offerings.Available().Compatible(joined(has, v.all())) {
		out.CapacityTypes = append(out.CapacityTypes, o.CapacityType())
	}
	slices.Sort(out.CapacityTypes)
	out.CapacityTypes = slices.Compact(out.CapacityTypes)
	return out
}

// limits is the limit that leaves none of the instance types, of that one that is over the fewest limits by the least type;
// of equal ones the first.
func (d *diagnosis) limits(pool *karpv1.NodePool, holding []*cloudprovider.InstanceType) []UnschedulableReason {
	used := corev1.ResourceList{}
	for _, claim := range d.all.Claims[pool.Name] {
		resources.MergeInto(used, d.all.Capacity(claim))
	}
	used[nodesLimit] = *resource.NewQuantity(int64(len(d.all.Claims[pool.Name])), resource.DecimalSI)
	var least []UnschedulableReason
	for _, it := range holding {
		exceeded := exceeded(pool.Spec.Limits, used, it)
		if len(exceeded) == 0 {
			return nil
		}
		if least == nil || len(exceeded) < len(least) || len(exceeded) == len(least) && exceeded[0].Requested.Cmp(least[0].Requested) < 0 {
			least = exceeded
		}
	}
	return least
}

// exceeded are the limits that a node of an instance type would exceed, extended resources first.
func exceeded(limits karpv1.Limits, used corev1.ResourceList, it *cloudprovider.InstanceType) []UnschedulableReason {
	var out []UnschedulableReason
	names := workload.SortedNames(corev1.ResourceList(limits))
	slices.SortStableFunc(names, func(a, b corev1.ResourceName) int { return cmp.Compare(rank(a), rank(b)) })
	for _, name := range names {
		needs, has, limit := it.Capacity[name], used[name], limits[name]
		if name == nodesLimit {
			needs = *resource.NewQuantity(1, resource.DecimalSI)
		}
		sum := has.DeepCopy()
		sum.Add(needs)
		if !needs.IsZero() && sum.Cmp(limit) > 0 {
			out = append(out, UnschedulableReason{Kind: Limit, Resource: name, Requested: needs, Limit: limit, Used: has, InstanceType: it.Name})
		}
	}
	return out
}
