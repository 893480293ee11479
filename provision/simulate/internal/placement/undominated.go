package placement

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// withoutDominated is what pools can buy without the instance types that another one dominates: one with the same values of
// all labels of which pods require something, the same offerings, the same capacity of what the pool limits, and as much of
// all that pods request. The scheduler compares each pod with each instance type of each pool. Which pods find a node, and of which
// pool, is the same without these types; what is launched is not, so that this is for Place alone. All stay where
// a pool has minValues, which counts them, and where there are capacity reservations, which are launched one by one.
func (f *Simulation) withoutDominated(pools []*karpv1.NodePool, all map[string][]*cloudprovider.InstanceType, pods []*corev1.Pod) map[string][]*cloudprovider.InstanceType {
	f.numberOfferings(all)
	if f.specialOfferings {
		return all
	}
	type typesKey struct {
		first  **cloudprovider.InstanceType
		limits string
	}
	by, known, out := f.differences(pods), map[typesKey][]*cloudprovider.InstanceType{}, maps.Clone(all)
	for _, pool := range pools {
		types := all[pool.Name]
		if len(types) == 0 || hasMinValues(pool) {
			continue
		}
		limited := workload.SortedNames(corev1.ResourceList(pool.Spec.Limits))
		// Pools that can buy the same share the list.
		key := typesKey{first: &types[0]}
		for _, name := range limited {
			key.limits += " " + string(name)
		}
		if _, ok := known[key]; !ok {
			known[key] = by.undominated(types, limited)
		}
		out[pool.Name] = known[key]
	}
	return out
}

// numberOfferings gives instance types with the same offerings the same number, once, and finds out whether one of them has
// offerings that differ in more than their requirements: places in capacity reservations, and what overlays change of one.
func (f *Simulation) numberOfferings(all map[string][]*cloudprovider.InstanceType) {
	if f.offeringsID != nil {
		return
	}
	f.offeringsID = map[*cloudprovider.InstanceType]int{}
	numbers := map[string]int{}
	for _, types := range all {
		for _, it := range types {
			if _, known := f.offeringsID[it]; known {
				continue
			}
			key := offeringsKey(it)
			if _, known := numbers[key]; !known {
				numbers[key] = len(numbers)
			}
			f.offeringsID[it] = numbers[key]
			f.specialOfferings = f.specialOfferings || slices.ContainsFunc(it.Offerings, func(o *cloudprovider.Offering) bool {
				return isReserved(o) || len(o.CapacityOverride) > 0 || o.OverheadOverride != nil
			})
		}
	}
}

// offeringsKey is equal for types with the same requirements of their available offerings.
func offeringsKey(it *cloudprovider.InstanceType) string {
	var out []string
	for _, offering := range it.Offerings.Available() {
		var one strings.Builder
		for _, key := range slices.Sorted(maps.Keys(offering.Requirements)) {
			writeRequirement(&one, offering.Requirements[key])
		}
		out = append(out, one.String())
	}
	slices.Sort(out)
	return strings.Join(out, "\x01")
}

// differences are by what of instance types the scheduler distinguishes them while it places some pods.
type differences struct {
	// labels are those of which the pods require something, and the DaemonSets', and the pods that there are of others.
	labels []string
	// requested are the resources that the pods request, and the DaemonSets'.
	requested []corev1.ResourceName
	// offeringsID is equal for types with the same offerings.
	offeringsID map[*cloudprovider.InstanceType]int
}

func (f *Simulation) differences(pods []*corev1.Pod) differences {
	labels, requested := map[string]bool{}, corev1.ResourceList{}
	for _, pod := range slices.Concat(pods, f.daemons()) {
		maps.Copy(requested, resources.RequestsForPods(pod))
		for key := range pod.Spec.NodeSelector {
			labels[normalized(key)] = true
		}
		for _, key := range affinityKeys(pod) {
			labels[normalized(key)] = true
		}
		for _, spread := range pod.Spec.TopologySpreadConstraints {
			labels[normalized(spread.TopologyKey)] = true
		}
	}
	for _, of := range [][]*corev1.Pod{pods, f.Pods} {
		for _, pod := range of {
			for _, term := range workload.AffinityTerms(pod) {
				labels[normalized(term.TopologyKey)] = true
			}
		}
	}
	return differences{labels: slices.Sorted(maps.Keys(labels)), requested: workload.SortedNames(requested), offeringsID: f.offeringsID}
}

// normalized is the key under which Karpenter has a requirement of a pod's: beta.kubernetes.io/arch, and others that were
// replaced or are a CSI driver's, are aliases of the labels of its instance types.
func normalized(key string) string {
	if to, alias := karpv1.NormalizedLabels[key]; alias {
		return to
	}
	return key
}

// affinityKeys are the labels of nodes that a pod requires or prefers.
func affinityKeys(pod *corev1.Pod) []string {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	var terms []corev1.NodeSelectorTerm
	if required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		terms = append(terms, required.NodeSelectorTerms...)
	}
	for _, preferred := range pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		terms = append(terms, preferred.Preference)
	}
	var out []string
	for _, term := range terms {
		for _, expression := range term.MatchExpressions {
			out = append(out, expression.Key)
		}
	}
	return out
}

// undominated are the types that no other of the same group dominates, in order. A type that has less than nothing of a resource
// never holds a pod, and stays.
func (d differences) undominated(types []*cloudprovider.InstanceType, limited []corev1.ResourceName) []*cloudprovider.InstanceType {
	groups, dominated := map[string][]*cloudprovider.InstanceType{}, map[*cloudprovider.InstanceType]bool{}
	for _, it := range types {
		if lessThanNothing(it) {
			continue
		}
		group := d.group(it, limited)
		if slices.ContainsFunc(groups[group], func(other *cloudprovider.InstanceType) bool { return d.dominates(other, it) }) {
			dominated[it] = true
			continue
		}
		groups[group] = append(slices.DeleteFunc(groups[group], func(other *cloudprovider.InstanceType) bool {
			dominated[other] = d.dominates(it, other)
			return dominated[other]
		}), it)
	}
	return slices.DeleteFunc(slices.Clone(types), func(it *cloudprovider.InstanceType) bool { return dominated[it] })
}

func lessThanNothing(it *cloudprovider.InstanceType) bool {
	for _, quantity := range it.Allocatable() {
		if quantity.Sign() < 0 {
			return true
		}
	}
	return false
}

// dominates reports whether one type has as much as the other of all that is requested.
func (d differences) dominates(it, other *cloudprovider.InstanceType) bool {
	has, had := it.Allocatable(), other.Allocatable()
	return !slices.ContainsFunc(d.requested, func(name corev1.ResourceName) bool { return resources.Cmp(has[name], had[name]) < 0 })
}

// group is equal for types between which the scheduler finds no other difference than what they hold.
func (d differences) group(it *cloudprovider.InstanceType, limited []corev1.ResourceName) string {
	var out strings.Builder
	for _, label := range d.labels {
		if it.Requirements.Has(label) {
			writeRequirement(&out, it.Requirements.Get(label))
		}
	}
	for _, name := range limited {
		quantity := it.Capacity[name]
		out.WriteString("\x00" + quantity.String())
	}
	out.WriteString("\x01" + strconv.Itoa(d.offeringsID[it]))
	return out.String()
}

// writeRequirement writes all of a requirement. Its String leaves out values where there are many.
func writeRequirement(to *strings.Builder, r *requirements.Requirement) {
	to.WriteString("\x00" + r.String())
	if values := r.Values(); len(values) > 5 {
		slices.Sort(values)
		to.WriteString(" " + strings.Join(values, " "))
	}
}

func hasMinValues(pool *karpv1.NodePool) bool {
	return slices.ContainsFunc(pool.Spec.Template.Spec.Requirements, func(r karpv1.NodeSelectorRequirementWithMinValues) bool { return r.MinValues != nil })
}
