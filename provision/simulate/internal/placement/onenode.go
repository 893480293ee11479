package placement

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
)

// launchable is an instance type as it is offered.
type launchable struct {
	it       *cloudprovider.InstanceType
	offering *cloudprovider.Offering
	// capacity ranks capacity types, as AWS launches them.
	capacity int
	zone     string
}

func newLaunchable(it *cloudprovider.InstanceType, o *cloudprovider.Offering) launchable {
	order := []string{karpv1.CapacityTypeReserved, karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand}
	return launchable{it, o, slices.Index(order, o.CapacityType()), o.Zone()}
}

// compare is negative where AWS launches l first: reserved capacity before spot before on-demand, and of that the
// lowest price, overlays applied.
func (l launchable) compare(other launchable) int {
	return cmp.Or(cmp.Compare(l.capacity, other.capacity), cmp.Compare(l.offering.Price, other.offering.Price))
}

// other is how far it is from what was.
func (l launchable) other(was *offerings.Offering) int {
	switch {
	case was == nil || l.it.Name != was.InstanceType:
		return 2
	case l.zone != was.Zone:
		return 1
	}
	return 0
}

func (l launchable) compareNames(other launchable) int {
	return cmp.Or(strings.Compare(l.it.Name, other.it.Name), strings.Compare(l.zone, other.zone))
}

// OneNode finds what holds all pods of one node. It takes a thousandth of the time of a simulation with
// Karpenter's scheduler, and differs from it where pods find room on nodes that there are, and where no instance type
// holds all of them.
type OneNode struct {
	simulation *Simulation
	daemons    []*corev1.Pod
	// launchable are what pools may launch, in the order in which AWS launches it, by the first of their instance types:
	// pools that may launch the same share the list.
	launchable map[**cloudprovider.InstanceType][]launchable
}

// OneNode is for pools as they are after the change.
func (f *Simulation) OneNode() *OneNode {
	return &OneNode{simulation: f, daemons: f.daemons(), launchable: map[**cloudprovider.InstanceType][]launchable{}}
}

// For returns what is launched for a node of the pool with these pods, with what was is in its place where prices are
// equal; nil where no instance type holds them all.
func (o *OneNode) For(pool *karpv1.NodePool, pods []*corev1.Pod, was *offerings.Offering) *offerings.Offering {
	required, ok := requirementsOf(pool, pods)
	if !ok {
		return nil
	}
	requests := resources.RequestsForPods(slices.Concat(pods, o.daemonsOf(pool))...)
	var best *launchable
	for _, l := range o.of(pool.Name) {
		if best != nil && l.compare(*best) != 0 {
			break
		}
		if (best == nil || l.other(was) < best.other(was)) && resources.Fits(requests, l.it.Allocatable()) &&
			l.it.Requirements.Intersects(required) == nil && required.IsCompatible(l.offering.Requirements, scheduling.AllowUndefinedWellKnownLabels) {
			best = &l
		}
	}
	if best == nil {
		return nil
	}
	return &offerings.Offering{InstanceType: best.it.Name, Zone: best.zone, CapacityType: best.offering.CapacityType(), Type: best.it}
}

// of are the pool's. Places in capacity reservations are left out: there are few.
func (o *OneNode) of(pool string) []launchable {
	allowed := o.simulation.Offerings[pool].Allowed
	if len(allowed) == 0 {
		return nil
	}
	if known, ok := o.launchable[&allowed[0]]; ok {
		return known
	}
	var out []launchable
	for _, it := range allowed {
		for _, offering := range it.Offerings.Available() {
			if !isReserved(offering) {
				out = append(out, newLaunchable(it, offering))
			}
		}
	}
	slices.SortFunc(out, func(a, b launchable) int { return cmp.Or(a.compare(b), a.compareNames(b)) })
	o.launchable[&allowed[0]] = out
	return out
}

// requirementsOf are those of a node of the pool that the pods run on; false where they cannot.
func requirementsOf(pool *karpv1.NodePool, pods []*corev1.Pod) (scheduling.Requirements, bool) {
	out := offerings.Requirements(pool)
	out.Add(scheduling.NewRequirement(karpv1.NodePoolLabelKey, corev1.NodeSelectorOpIn, pool.Name))
	for _, pod := range pods {
		required := scheduling.NewStrictPodRequirements(pod)
		if scheduling.Taints(pool.Spec.Template.Spec.Taints).ToleratesPod(pod) != nil || !out.IsCompatible(required, scheduling.AllowUndefinedWellKnownLabels) {
			return nil, false
		}
		out.Add(required.Values()...)
	}
	return out, true
}

// daemonsOf are the DaemonSets' pods that run on nodes of the pool.
func (o *OneNode) daemonsOf(pool *karpv1.NodePool) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range o.daemons {
		if _, runs := requirementsOf(pool, []*corev1.Pod{pod}); runs {
			out = append(out, pod)
		}
	}
	return out
}
